"""Which bundles are too big, and whether they can be split: by a round for all bundles, by an agent for its broker's.

The first four limits are Pulsar's (BundleSplitterTask); stored bytes are Ballast's own and off by default. A bundle
over several limits is reported by the first. A split needs two topics to part, a range of two hashes, and a namespace
below its maximum of bundles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.errors import BadRecord
from controller.domain.ids import Bundle
from controller.domain.load import BUNDLE_FIELDS
from controller.domain.settings.policy import SplitSettings
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints, namespace_of_bundle
from controller.policy.view.reason_codes import ALLOWED, CODES, LOST_BY, REASONS
from controller.policy.view.snapshot import Snapshot

_F = {name: i for i, name in enumerate(BUNDLE_FIELDS)}
_PULSARS = (Reason.SPLIT_TOPICS, Reason.SPLIT_SESSIONS, Reason.SPLIT_MSG_RATE, Reason.SPLIT_BANDWIDTH)
SPLIT_LIMITS = (*_PULSARS, Reason.SPLIT_STORAGE)
_STAYS_WHOLE = (CODES[Reason.EXCLUDED], CODES[Reason.FROZEN])
_SPLIT = DecisionKind.SPLIT, Label.SUCCESS
_SKIPPED = DecisionKind.SKIP, Label.SKIP
_NAMES = tuple(limit.value for limit in SPLIT_LIMITS)  # an enum's value is looked up anew at every access


def find_exceeded_limit(bundle_stats: Mapping[str, float], settings: SplitSettings) -> Reason | None:
    """The first limit that the bundle exceeds, if any. `bundle_stats`: by name of BUNDLE_FIELDS; absent ones are 0."""
    fields = np.array([[float(bundle_stats.get(name, 0.0)) for name in BUNDLE_FIELDS]])
    code = int(find_exceeded_limits(fields, settings)[0])
    return None if code == ALLOWED else REASONS[code]


def unsplittable(bundle: Bundle, topics: float) -> bool:
    """Whether no boundary can part the bundle's load: a single topic, or a range of a single hash."""
    return topics <= 1 or bundle.upper - bundle.lower <= 1


def range_of(name: str) -> Bundle | None:
    """The bundle of a name, or None for a name without a hash range (`ballast decide` takes any name)."""
    try:
        return Bundle.parse(name)
    except BadRecord:
        return None


def measure_excess(fields: Floats, settings: SplitSettings) -> Floats:
    """[N x 5] value / limit for each of SPLIT_LIMITS; above 1 is exceeded, 0 where the limit is off."""
    measured = (
        (fields[:, _F["topics"]], settings.max_topics),
        (fields[:, _F["producers"]] + fields[:, _F["consumers"]], settings.max_sessions),
        (fields[:, _F["msg_rate_in"]] + fields[:, _F["msg_rate_out"]], settings.max_msg_rate_per_s),
        (fields[:, _F["throughput_in"]] + fields[:, _F["throughput_out"]], settings.max_bandwidth_bytes_per_s),
        (fields[:, _F["storage_bytes"]], settings.max_storage_bytes),
    )
    off = np.zeros(len(fields))
    return np.vstack([value / limit if limit is not None and limit > 0 else off for value, limit in measured]).T


def find_exceeded_limits(fields: Floats, settings: SplitSettings) -> Ints:
    """[N] the first exceeded limit as an index into REASONS, or ALLOWED."""
    over = measure_excess(fields, settings) > 1
    columns = [over[:, at] for at in range(len(SPLIT_LIMITS))]
    return np.select(columns, [CODES[reason] for reason in SPLIT_LIMITS], ALLOWED)


def propose_splits(snapshot: Snapshot, settings: SplitSettings, others: Iterable[Decision]) -> list[Decision]:
    """A decision for every bundle that exceeds a limit and has an owner: a split, or a skip with the reason.

    The most exceeded first, then by name. `others`: the round's other decisions. No bundle is named twice, and the
    strategy's own splits count among those that a namespace may have.
    """
    taken = {d.bundle: d.kind for d in others if d.kind is not DecisionKind.SKIP and d.bundle is not None}
    exceeded = find_exceeded_limits(snapshot.fields, settings)
    wanted = np.flatnonzero((exceeded != ALLOWED) & _have_live_owner(snapshot))
    permille = np.rint(measure_excess(snapshot.fields[wanted], settings) * 1000).astype(np.int64)
    order = np.argsort(-permille.max(axis=1, initial=0), kind="stable")
    wanted, permille = wanted[order], permille[order]
    free = Counter({ns: settings.namespace_maximum_bundles - n for ns, n in snapshot.frame.namespace_bundles.items()})
    free.subtract(namespace_of_bundle(name) for name, kind in taken.items() if kind is DecisionKind.SPLIT)
    obstacles = _find_obstacles(snapshot, settings, wanted, taken)
    columns = wanted, exceeded[wanted], permille, obstacles, snapshot.owner[wanted], snapshot.epoch[wanted]
    listed = _NAMES if settings.max_storage_bytes else _NAMES[: len(_PULSARS)]  # only a limit that is on is mentioned
    decisions = []
    for at, code, row, obstacle, owner, epoch in zip(*(column.tolist() for column in columns), strict=True):
        name = snapshot.bundles[at]
        namespace = namespace_of_bundle(name)
        kept, boundary = _cut(name, namespace, free) if obstacle == ALLOWED else (REASONS[obstacle], None)
        evidence = {
            "exceeded": LOST_BY[code],
            "permille_of_limit": dict(zip(listed, row, strict=False)),
            "namespace_bundles": snapshot.frame.namespace_bundles[namespace],
        }
        kind, label, reason = (*_SPLIT, REASONS[code]) if kept is None else (*_SKIPPED, kept)
        broker = snapshot.brokers[owner]
        decisions.append(Decision("", kind, label, reason, name, broker, None, epoch, boundary, "split", evidence))
    return decisions


def _have_live_owner(snapshot: Snapshot) -> NDArray[np.bool_]:
    able = snapshot.known & snapshot.alive
    return np.asarray((snapshot.owner >= 0) & ~snapshot.unowned & np.append(able, False)[snapshot.owner])


def _find_obstacles(snapshot: Snapshot, settings: SplitSettings, wanted: Ints, taken: Collection[str]) -> Ints:
    """[w] why each of these bundles cannot be split now, whatever the others do, as an index into REASONS; ALLOWED
    where nothing of that kind stands in the way. A grace period does not."""
    block = snapshot.bundle_block[wanted]
    named = np.array([snapshot.bundles[at] in taken for at in wanted.tolist()], bool)
    rules = (
        (np.isin(block, _STAYS_WHOLE), block),
        (snapshot.in_flight[wanted] | named, CODES[Reason.IN_FLIGHT]),
        (np.full(len(wanted), not settings.enabled), CODES[Reason.SWITCHED_OFF]),
        (snapshot.fields[wanted, _F["topics"]] <= 1, CODES[Reason.UNSPLITTABLE]),
    )
    return np.select([hit for hit, _ in rules], [code for _, code in rules], ALLOWED)


def _cut(name: str, namespace: str, free: Counter[str]) -> tuple[Reason | None, int | None]:
    """Why a bundle that has topics to part cannot be split; or None, and the boundary where its name has a range.
    `free`: the bundles that each namespace may still get, less one after a split."""
    bundle = range_of(name)
    if bundle is not None and unsplittable(bundle, topics=2):
        return Reason.UNSPLITTABLE, None
    if namespace and free[namespace] <= 0:
        return Reason.BUNDLE_LIMIT, None
    free[namespace] -= 1
    return None, None if bundle is None else bundle.middle()
