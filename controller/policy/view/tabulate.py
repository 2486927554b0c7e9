"""From the journal's state and the load averages to the frame of a moment.

Reports of an incarnation other than the registered one are left out: they come from another process. The order of the
input rows makes no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.domain.errors import BadRecord
from controller.domain.facts import excluded_namespaces, is_suspect, lossy_bundles, stats_period_ms
from controller.domain.load import BUNDLE_FIELDS, FIELD_SCALES, RESOURCE_SCALES, RESOURCES, TAIL, UNKNOWN
from controller.domain.observed import ObservedCluster
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.view.frame import (
    BROKER_FACTS,
    BUNDLE_FACTS,
    LATENCIES,
    MOVING,
    NOBODY,
    OWNED,
    UNOWNED,
    BundleFacts,
    Frame,
    Ints,
    RuleFacts,
    namespace_of_bundle,
    namespaces_of,
)

Columns = Mapping[str, NDArray[Any]]  # one array a column of the table broker_load or bundle_load
_USAGE, _LIMIT = [f"{r}_usage" for r in RESOURCES], [f"{r}_limit" for r in RESOURCES]
_LARGEST = 2**53  # beyond it JSON readers lose digits
_US_A_MS = 1000
POLL_MS = 5_000  # between two observations of a broker


def tabulate(
    state: ClusterState, brokers: Columns, bundles: Columns, at_ms: int, lagging: Collection[str] = ()
) -> Frame:
    """The frame of a moment: the journal's state joined with the short averages of brokers and bundles.

    `brokers` and `bundles`: averaged panes, with the columns that the tables broker_load and bundle_load have as well
    (LATENCIES may be left out). `lagging`: brokers that must be granted nothing. Raises BadRecord for a missing column
    or columns of unequal length.
    """
    _check(
        brokers, "broker_load", ("broker", "incarnation", "reports", "last_event_ms", *_USAGE, *_LIMIT, *BUNDLE_FIELDS)
    )
    _check(bundles, "bundle_load", ("bundle", "broker", "reports", *BUNDLE_FIELDS))
    reported = np.flatnonzero(bundles["bundle"] != TAIL)
    reported = reported[bundles["reports"][reported] > 0]
    ids = _broker_ids(state, brokers, bundles["broker"][reported])
    index = {broker: at for at, broker in enumerate(ids)}
    names, bundle = _number(bundles["bundle"][reported].astype(object))
    reporter = np.fromiter((index[b] for b in bundles["broker"][reported].tolist()), np.int64, len(reported))
    order = np.lexsort((reporter, bundle))
    reports = bundles["reports"][reported].astype(np.int64)
    rows = {"bundle": bundle[order], "reporter": reporter[order], "reports": reports[order]}
    known = tuple(names.tolist())
    return Frame.of(
        int(at_ms),
        state.mode,
        ids,
        known,
        **_broker_columns(state, brokers, index, lagging),
        bundle=_bundle_facts(state, known, rows, index),
        row=rows,
        row_fields=_quantise_columns(bundles, BUNDLE_FIELDS, FIELD_SCALES, 0, reported[order]),
        namespace_bundles=_count_namespaces(state, known),
        overrides=tuple(wish for wish in state.overrides.values() if wish.holds(at_ms)),
        forbidden=_find_forbidden(state, ids, at_ms),
        one_order_a_range=bool(state.observed.bundles) and state.modular,
    )


def quantise(values: NDArray[Any], scales: float | NDArray[np.float64], unknown: int) -> Ints:
    """Integers of values x scales; `unknown` for values that are not finite or below zero."""
    scaled = values * scales
    known = np.isfinite(scaled) & (scaled >= 0)
    return np.where(known, np.rint(np.clip(np.where(known, scaled, 0), 0, _LARGEST)), unknown).astype(np.int64)


def ownership_facts(record: Ownership, index: Mapping[str, int]) -> BundleFacts:
    """What the journal says of a bundle. A move under way counts as done: the load is where it goes."""
    in_flight = record.state in IN_FLIGHT
    party = record.to if in_flight and record.state is not State.SPLITTING else record.by
    owner = index.get(party.broker, NOBODY) if party is not None else NOBODY
    status = OWNED if record.state is State.OWNED else MOVING if in_flight else UNOWNED
    return BundleFacts(owner, status, record.epoch, record.moved_at_ms)


def observed_facts(cluster: ObservedCluster, name: str, index: Mapping[str, int]) -> BundleFacts:
    """What was observed of a bundle; the newest change's entry stands for the epoch. An open move counts as done."""
    seen = cluster.bundles[name]
    owner = index.get(cluster.holder(name) or "", NOBODY)
    in_flight = name in cluster.orders
    in_doubt = seen.stale or seen.disputed or (name in cluster.blocks and cluster.blocks[name].in_doubt_seq > 0)
    status = MOVING if in_flight else UNOWNED if in_doubt or seen.broker is None else OWNED
    return BundleFacts(owner, status, seen.seq, seen.moved_at_ms)


def _find_forbidden(state: ClusterState, brokers: Sequence[str], at_ms: int) -> dict[str, str]:
    """Brokers and bundles that a round leaves alone because of what was observed -> the reason."""
    cluster, found = state.observed, dict[str, str]()
    for broker in brokers:
        if is_suspect(cluster.facts, broker):
            found[broker] = Reason.SUSPECT_BROKER.value
        elif at_ms < cluster.settled_at_ms.get(broker, -_LARGEST) + _settle_ms(cluster, broker):
            found[broker] = Reason.SETTLING.value
    if state.modular:
        used = cluster.ranges_in_use(state.living)
        names = cluster.bundles if used or cluster.range_blocks else ()
        waiting = (n for n in names if n.rpartition("/")[2] in used or cluster.is_range_kept_by_another(n))
        found |= {name: Reason.RANGE_IN_USE.value for name in waiting if name not in cluster.orders}
    for name, block in cluster.blocks.items():
        if at_ms < block.not_before_ms:
            found[name] = Reason.BACKING_OFF.value
    found |= dict.fromkeys(lossy_bundles(cluster.facts), Reason.NON_PERSISTENT.value)
    excluded = excluded_namespaces(cluster.facts, state.living)
    if excluded:
        inside = (name for name in cluster.bundles if namespace_of_bundle(name) in excluded)
        found |= dict.fromkeys(inside, Reason.EXCLUDED.value)
    return found


def _settle_ms(cluster: ObservedCluster, broker: str) -> int:
    """After a move, the broker's reports show it once its statistics were computed twice and then polled."""
    return 2 * stats_period_ms(cluster.facts, broker) + POLL_MS


def count_rule_facts(state: ClusterState, frame: Frame, settings: PolicySettings) -> RuleFacts | None:
    """What the configured rules of placement ask of the journal; None where no rule asks for anything."""
    rules = settings.placement
    grouped = [namespace for group in rules.anti_affinity for namespace in group.namespaces]
    if settings.caps.max_bundles is None and not grouped and not rules.prefer_later_versions:
        return None
    observed = _count_observed(state, frame)
    held = versions = spread = None
    if settings.caps.max_bundles is not None:
        held = _add([state.holdings.total(broker) for broker in frame.brokers], observed.values())
    if grouped:
        spread = {}
        for namespace in grouped:
            journaled = state.holdings.spread(namespace)
            counts = [journaled.get(broker, 0) for broker in frame.brokers]
            spread[namespace] = _add(counts, [observed[namespace]] if namespace in observed else [])
    if rules.prefer_later_versions:
        infos = (state.brokers[name].info if name in state.brokers else {} for name in frame.brokers)
        versions = tuple(str(info.get("version") or "") for info in infos)
    return RuleFacts(held, versions, spread)


def _check(columns: Columns, table: str, needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in columns]
    if missing:
        raise BadRecord("round_input", f"{table} lacks {', '.join(missing)}: read all columns of the table")
    lengths = {len(columns[name]) for name in needed}
    if len(lengths) > 1:
        raise BadRecord("round_input", f"columns of {table} have {sorted(lengths)} rows: read them in one go")


def _broker_ids(state: ClusterState, brokers: Columns, reporters: NDArray[Any]) -> tuple[str, ...]:
    """Living brokers and all that are still heard of; a dead one that fell silent is history."""
    living = {broker.id for broker in state.live_brokers()}
    return tuple(sorted(living | set(brokers["broker"].tolist()) | set(reporters.tolist())))


def _quantise_columns(columns: Columns, names: Sequence[str], scales: Sequence[int], unknown: int, rows: Ints) -> Ints:
    """[rows x names] quantised, one column after the other in memory."""
    result = np.empty((len(names), len(rows)), np.int64).T
    for at, (name, scale) in enumerate(zip(names, scales, strict=True)):
        result[:, at] = quantise(np.asarray(columns[name], np.float64)[rows], scale, unknown)
    return result


def _broker_columns(
    state: ClusterState, brokers: Columns, index: Mapping[str, int], lagging: Collection[str]
) -> dict[str, Any]:
    """What `Frame.of` takes of brokers: facts, and the averages of the newest report of each."""
    facts = _session_facts(state, index, lagging)
    broker = np.fromiter((index[b] for b in brokers["broker"].tolist()), np.int64, len(brokers["broker"]))
    incarnation = np.asarray(brokers["incarnation"], np.int64)
    last_event = np.asarray(brokers["last_event_ms"], np.int64)
    order = np.lexsort((last_event, incarnation, broker))
    registered = facts["registered"][broker[order]] == 1
    order = order[~registered | (facts["incarnation"][broker[order]] == incarnation[order])]
    newest = order[np.append(broker[order][1:] != broker[order][:-1], True)] if len(order) else order
    where = broker[newest]
    facts["incarnation"][where] = incarnation[newest]
    facts["reports"][where] = np.asarray(brokers["reports"], np.int64)[newest]
    facts["last_event_ms"][where] = last_event[newest]

    def averages(names: Sequence[str], scales: Sequence[int], unknown: int) -> Ints:
        result = np.full((len(index), len(names)), unknown, np.int64)
        result[where] = _quantise_columns(brokers, names, scales, unknown, newest)
        return result

    limit = averages(_LIMIT, RESOURCE_SCALES, UNKNOWN)
    limit[limit == 0] = UNKNOWN
    have_latencies = all(name in brokers for name in LATENCIES)
    return {
        "broker": facts,
        "usage": averages(_USAGE, RESOURCE_SCALES, UNKNOWN),
        "limit": limit,
        "totals": averages(BUNDLE_FIELDS, FIELD_SCALES, 0),
        "latencies": averages(LATENCIES, (_US_A_MS,) * len(LATENCIES), UNKNOWN) if have_latencies else None,
    }


def _session_facts(state: ClusterState, index: Mapping[str, int], lagging: Collection[str]) -> dict[str, Ints]:
    """[B] columns of BROKER_FACTS as the journal knows them; those of reports are 0 yet."""
    facts = {name: np.zeros(len(index), np.int64) for name in BROKER_FACTS}
    for name, at in index.items():
        record = state.brokers.get(name)
        if record is not None:
            facts["incarnation"][at], facts["registered"][at] = record.session.incarnation, 1
            facts["alive"][at] = state.alive(record.session)
            facts["drained"][at], facts["leaving"][at] = record.drained, record.leaving
        facts["lagging"][at] = name in lagging
    return facts


def _number(names: NDArray[Any]) -> tuple[NDArray[Any], Ints]:
    """The distinct names in order, and the index of each row's name among them. Rows of the load tables are sorted
    already; to see that takes a tenth of the time of sorting them."""
    if (names[1:] < names[:-1]).any():
        return np.unique(names, return_inverse=True)
    first = np.ones(len(names), bool)
    first[1:] = names[1:] != names[:-1]
    return names[first], np.cumsum(first) - 1


def _bundle_facts(
    state: ClusterState, names: tuple[str, ...], rows: Mapping[str, Ints], index: Mapping[str, int]
) -> dict[str, Ints]:
    """The journal's word on the owner wins; without one the broker that reported most often."""
    facts = {name: np.zeros(len(names), np.int64) for name in BUNDLE_FACTS}
    by_reports = np.lexsort((-rows["reporter"], rows["reports"], rows["bundle"]))
    facts["owner"][rows["bundle"][by_reports]] = rows["reporter"][by_reports]  # the last written has the most reports
    found = list(map(state.bundles.get, names))
    known = _owned_facts(facts, found, index)
    if state.observed.bundles:
        observed = [(at, name) for at, name in enumerate(names) if name in state.observed.bundles]
        known += [(at, observed_facts(state.observed, name, index)) for at, name in observed]
    if known:
        journaled = np.array([at for at, _ in known], np.int64)
        columns = np.fromiter(chain.from_iterable(row for _, row in known), np.int64).reshape(len(known), -1).T
        for name, values in zip(BUNDLE_FACTS, columns, strict=True):
            facts[name][journaled] = values
    return facts


def _owned_facts(
    facts: Mapping[str, Ints], records: Sequence[Ownership | None], index: Mapping[str, int]
) -> list[tuple[int, BundleFacts]]:
    """Set the facts of owned bundles, which nearly all are, column by column; returns those of the others, by place."""
    settled = State.OWNED  # to look up a member of an enum takes longer than the rest of the loop
    at = [place for place, record in enumerate(records) if record is not None and record.state is settled]
    owned = [record for record in records if record is not None and record.state is settled]
    owners = (index.get(record.by.broker, NOBODY) if record.by is not None else NOBODY for record in owned)
    facts["owner"][at] = np.fromiter(owners, np.int64, len(owned))
    facts["status"][at] = OWNED
    facts["epoch"][at] = np.fromiter((record.epoch for record in owned), np.int64, len(owned))
    facts["moved_at_ms"][at] = np.fromiter((record.moved_at_ms for record in owned), np.int64, len(owned))
    others = ((place, record) for place, record in enumerate(records) if record is not None)
    return [(place, ownership_facts(record, index)) for place, record in others if record.state is not settled]


def _count_namespaces(state: ClusterState, names: tuple[str, ...]) -> dict[str, int]:
    """Bundles of every namespace heard of: the journal's count, or what was reported where it knows none."""
    spaces, of_space = namespaces_of(names)
    counts = dict(zip(spaces, np.bincount(of_space, minlength=len(spaces)).tolist(), strict=True))
    splitting = Counter(r.bundle.namespace for r in state.bundles.values() if r.state is State.SPLITTING)
    known, rings = state.namespaces, state.observed.rings
    found = {ns: len(known[ns]) + splitting[ns] if ns in known else n for ns, n in counts.items()}
    return found | {ns: state.in_namespace(ns) for ns in found if ns in rings}


def _count_observed(state: ClusterState, frame: Frame) -> dict[str, list[int]]:
    """Namespace -> [B] reported bundles that the journal does not know: those of brokers that are only observed."""
    found: dict[str, list[int]] = {}
    owner = frame.bundle("owner")
    for at in np.flatnonzero((frame.bundle("epoch") == 0) & (owner != NOBODY)).tolist():
        name = frame.bundles[at]
        if name not in state.bundles:
            found.setdefault(namespace_of_bundle(name), [0] * len(frame.brokers))[int(owner[at])] += 1
    return found


def _add(counts: list[int], more: Iterable[list[int]]) -> tuple[int, ...]:
    for row in more:
        counts = [one + other for one, other in zip(counts, row, strict=True)]
    return tuple(counts)
