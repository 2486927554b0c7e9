"""What a round reads, as integers: the cluster's brokers and bundles and their short averages at one moment.

A round quantises its input first and computes from the integers alone, so that the part of a frame that mattered,
stored as JSON, gives the same plan again (invariant I4). Order is by broker id and bundle name, whatever order the
rows came in. Rows of an incarnation other than the registered one are left out: they tell of another process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, FIELD_SCALES, RESOURCE_SCALES, RESOURCES, TAIL, UNKNOWN
from controller.domain.overrides import Override
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.domain.state import ClusterState
from controller.policy.view.rule_facts import RuleFacts

Ints = NDArray[np.int64]
Columns = Mapping[str, NDArray[Any]]

# columns of Frame.broker_facts, Frame.bundle_facts and Frame.row_facts
BROKER_FACTS = ("incarnation", "registered", "alive", "drained", "leaving", "lagging", "reports", "last_event_ms")
BUNDLE_FACTS = ("owner", "status", "epoch", "moved_at_ms")
ROW_FACTS = ("bundle", "reporter", "reports")
LATENCIES = ("rpc_queue_ms", "metadata_latency_ms")  # columns of Frame.latencies, there in microseconds

OWNED, MOVING, UNOWNED = 0, 1, 2  # BUNDLE_FACTS.status
NOBODY = -1  # BUNDLE_FACTS.owner
_MEASURED = (*(f"{r}_usage" for r in RESOURCES), *(f"{r}_limit" for r in RESOURCES), *BUNDLE_FIELDS)
_LARGEST = 2**53  # beyond it JSON readers lose digits
_US_A_MS = 1000


@dataclass(frozen=True, eq=False)
class Frame:
    """B brokers, N bundles, and M rows "this broker reported that bundle"; all numbers quantised (domain/load.py)."""

    at_ms: int
    mode: str
    brokers: tuple[str, ...]
    broker_facts: Ints  # [B x BROKER_FACTS]
    usage: Ints  # [B x R], UNKNOWN where nobody knows
    limit: Ints  # [B x R], same
    totals: Ints  # [B x F] sums over the broker's bundles
    bundles: tuple[str, ...]
    bundle_facts: Ints  # [N x BUNDLE_FACTS]; owner is an index into brokers or NOBODY
    row_facts: Ints  # [M x ROW_FACTS]
    row_fields: Ints  # [M x F]
    namespace_bundles: Mapping[str, int]  # living bundles, splits in flight counted as done
    overrides: tuple[Override, ...] = ()  # that hold at this moment, oldest first
    rule_facts: RuleFacts | None = None  # what rules of placement that are configured ask of the journal
    latencies: Ints | None = None  # [B x LATENCIES] in us, UNKNOWN where nobody knows; None: of none

    def select(self, wanted: NDArray[np.bool_]) -> Frame:
        """The same frame with only the wanted bundles ([N] mask) and their rows; all brokers stay."""
        kept_rows = wanted[self.row_facts[:, 0]] if len(self.row_facts) else np.zeros(0, bool)
        renumbered = np.cumsum(wanted) - 1
        row_facts = self.row_facts[kept_rows].copy()
        row_facts[:, 0] = renumbered[row_facts[:, 0]]
        kept = np.flatnonzero(wanted)
        names = tuple(self.bundles[i] for i in kept)
        spaces = {namespace_of_bundle(name) for name in names}
        return Frame(
            at_ms=self.at_ms,
            mode=self.mode,
            brokers=self.brokers,
            broker_facts=self.broker_facts,
            usage=self.usage,
            limit=self.limit,
            totals=self.totals,
            bundles=names,
            bundle_facts=self.bundle_facts[kept],
            row_facts=row_facts,
            row_fields=self.row_fields[kept_rows],
            namespace_bundles={ns: n for ns, n in self.namespace_bundles.items() if ns in spaces},
            overrides=self.overrides,
            rule_facts=self.rule_facts,
            latencies=self.latencies,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain lists and integers, one row a broker, bundle and report; `from_json` reads it back."""
        brokers = np.hstack([self.broker_facts, self.usage, self.limit, self.totals]).tolist()
        asked_for: dict[str, Any] = {} if self.rule_facts is None else {"rule_facts": self.rule_facts.to_json()}
        if self.latencies is not None:
            asked_for["latencies_us"] = self.latencies.tolist()
        return {
            "at_ms": self.at_ms,
            "mode": self.mode,
            "broker_columns": ["broker", *_broker_columns()],
            "brokers": [[name, *row] for name, row in zip(self.brokers, brokers, strict=True)],
            "bundle_columns": ["bundle", *BUNDLE_FACTS],
            "bundles": [[name, *row] for name, row in zip(self.bundles, self.bundle_facts.tolist(), strict=True)],
            "row_columns": [*ROW_FACTS, *BUNDLE_FIELDS],
            "rows": np.hstack([self.row_facts, self.row_fields]).tolist(),
            "namespace_bundles": dict(sorted(self.namespace_bundles.items())),
            "overrides": [wish.to_json() for wish in self.overrides],
            **asked_for,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Frame:
        """The frame that `to_json` wrote; raises BadRecord when its columns are not those of this version."""
        expected = (["broker", *_broker_columns()], ["bundle", *BUNDLE_FACTS], [*ROW_FACTS, *BUNDLE_FIELDS])
        found = tuple(list(stored[key]) for key in ("broker_columns", "bundle_columns", "row_columns"))
        if found != expected:
            raise BadRecord("frame_columns", f"{found} were stored, this version reads {expected}: replay with its own")
        facts, resources, fields = len(BROKER_FACTS), len(RESOURCES), len(BUNDLE_FIELDS)
        brokers = _matrix([row[1:] for row in stored["brokers"]], facts + 2 * resources + fields)
        rows = _matrix(stored["rows"], len(ROW_FACTS) + fields)
        return cls(
            at_ms=int(stored["at_ms"]),
            mode=str(stored["mode"]),
            brokers=tuple(row[0] for row in stored["brokers"]),
            broker_facts=brokers[:, :facts],
            usage=brokers[:, facts : facts + resources],
            limit=brokers[:, facts + resources : facts + 2 * resources],
            totals=brokers[:, facts + 2 * resources :],
            bundles=tuple(row[0] for row in stored["bundles"]),
            bundle_facts=_matrix([row[1:] for row in stored["bundles"]], len(BUNDLE_FACTS)),
            row_facts=rows[:, : len(ROW_FACTS)],
            row_fields=rows[:, len(ROW_FACTS) :],
            namespace_bundles=dict(stored["namespace_bundles"]),
            overrides=tuple(map(Override.from_json, stored.get("overrides", ()))),
            rule_facts=RuleFacts.from_json(stored["rule_facts"]) if "rule_facts" in stored else None,
            latencies=_matrix(stored["latencies_us"], len(LATENCIES)) if "latencies_us" in stored else None,
        )


def tabulate(
    state: ClusterState, brokers: Columns, bundles: Columns, at_ms: int, lagging: Collection[str] = ()
) -> Frame:
    """The frame of a moment: the journal's state joined with the short averages of brokers and bundles.

    `brokers` and `bundles` hold one array a column of the tables broker_load and bundle_load (LATENCIES may be left
    out); `lagging` names brokers that must be granted nothing. Raises BadRecord for a missing column or columns of
    unequal length.
    """
    _check(brokers, "broker_load", ("broker", "incarnation", "reports", "last_event_ms", *_MEASURED))
    _check(bundles, "bundle_load", ("bundle", "broker", "reports", *BUNDLE_FIELDS))
    told = np.flatnonzero(bundles["bundle"] != TAIL)
    told = told[bundles["reports"][told] > 0]
    ids = _broker_ids(state, brokers, bundles["broker"][told])
    index = {broker: i for i, broker in enumerate(ids)}
    facts, usage, limit, totals, latencies = _broker_arrays(state, brokers, ids, index, lagging)

    names, bundle = np.unique(bundles["bundle"][told].astype(object), return_inverse=True)
    reporter = np.fromiter((index[b] for b in bundles["broker"][told].tolist()), np.int64, len(told))
    row_facts = np.column_stack([bundle.astype(np.int64), reporter, bundles["reports"][told].astype(np.int64)])
    row_fields = _quantise(bundles, BUNDLE_FIELDS, FIELD_SCALES, 0)[told]
    order = np.lexsort((row_facts[:, 1], row_facts[:, 0]))
    row_facts, row_fields = row_facts[order], row_fields[order]
    names_told = tuple(names.tolist())
    return Frame(
        at_ms=int(at_ms),
        mode=state.mode,
        brokers=ids,
        broker_facts=facts,
        usage=usage,
        limit=limit,
        totals=totals,
        bundles=names_told,
        bundle_facts=_bundle_facts(state, names_told, row_facts, index),
        row_facts=row_facts,
        row_fields=row_fields,
        namespace_bundles=_namespace_counts(state, names_told),
        overrides=tuple(wish for wish in state.overrides.values() if wish.holds(at_ms)),
        latencies=latencies,
    )


def namespace_of_bundle(name: str) -> str:
    """`tenant/namespace` of a bundle's name, without parsing the range."""
    return name.rpartition("/")[0]


@lru_cache(maxsize=4)
def namespaces_of(bundles: tuple[str, ...]) -> tuple[tuple[str, ...], Ints]:
    """The namespaces of these bundles, sorted, and [N] which of them each is of. The newest clusters are remembered."""
    spaces, codes = np.unique(np.array([namespace_of_bundle(name) for name in bundles], object), return_inverse=True)
    codes = codes.astype(np.int64)
    codes.flags.writeable = False
    return tuple(spaces.tolist()), codes


def _broker_columns() -> list[str]:
    return [*BROKER_FACTS, *_MEASURED]


def _matrix(rows: Sequence[Sequence[int]], width: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


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


def quantised(values: NDArray[Any], scales: float | NDArray[np.float64], unknown: int) -> Ints:
    """Integers of values x scales; what is not finite or below zero becomes `unknown`."""
    scaled = values * scales
    known = np.isfinite(scaled) & (scaled >= 0)
    return np.where(known, np.rint(np.clip(np.where(known, scaled, 0), 0, _LARGEST)), unknown).astype(np.int64)


def _quantise(columns: Columns, names: Sequence[str], scales: Sequence[int], unknown: int) -> Ints:
    """[rows x names] integers; what is not finite or below zero becomes `unknown`."""
    size = len(columns[names[0]])
    result = np.empty((size, len(names)), np.int64)
    for at, (name, scale) in enumerate(zip(names, scales, strict=True)):
        result[:, at] = quantised(np.asarray(columns[name], np.float64), scale, unknown)
    return result


def _broker_arrays(
    state: ClusterState, brokers: Columns, ids: tuple[str, ...], index: Mapping[str, int], lagging: Collection[str]
) -> tuple[Ints, Ints, Ints, Ints, Ints | None]:
    """Facts [B x BROKER_FACTS], usage and limit [B x R], totals [B x F], latencies of every broker in `ids`."""
    facts = np.zeros((len(ids), len(BROKER_FACTS)), np.int64)
    for at, name in enumerate(ids):
        record = state.brokers.get(name)
        if record is not None:
            alive = state.alive(record.session)
            facts[at, :5] = (record.session.incarnation, 1, alive, record.drained, record.leaving)
        facts[at, 5] = name in lagging
    broker = np.fromiter((index[b] for b in brokers["broker"].tolist()), np.int64, len(brokers["broker"]))
    incarnation = np.asarray(brokers["incarnation"], np.int64)
    last_event = np.asarray(brokers["last_event_ms"], np.int64)
    order = np.lexsort((last_event, incarnation, broker))
    order = order[(facts[broker[order], 1] == 0) | (facts[broker[order], 0] == incarnation[order])]
    newest = order[np.append(broker[order][1:] != broker[order][:-1], True)] if len(order) else order
    where = broker[newest]
    facts[where, 0] = incarnation[newest]
    facts[where, 6] = np.asarray(brokers["reports"], np.int64)[newest]
    facts[where, 7] = last_event[newest]

    usage = np.full((len(ids), len(RESOURCES)), UNKNOWN, np.int64)
    limit = usage.copy()
    totals = np.zeros((len(ids), len(BUNDLE_FIELDS)), np.int64)
    usage[where] = _quantise(brokers, [f"{r}_usage" for r in RESOURCES], RESOURCE_SCALES, UNKNOWN)[newest]
    limit[where] = _quantise(brokers, [f"{r}_limit" for r in RESOURCES], RESOURCE_SCALES, UNKNOWN)[newest]
    limit[limit == 0] = UNKNOWN
    totals[where] = _quantise(brokers, BUNDLE_FIELDS, FIELD_SCALES, 0)[newest]
    latencies = None
    if all(name in brokers for name in LATENCIES):
        latencies = np.full((len(ids), len(LATENCIES)), UNKNOWN, np.int64)
        latencies[where] = _quantise(brokers, LATENCIES, (_US_A_MS,) * len(LATENCIES), UNKNOWN)[newest]
    return facts, usage, limit, totals, latencies


def _bundle_facts(state: ClusterState, names: tuple[str, ...], row_facts: Ints, index: Mapping[str, int]) -> Ints:
    """[N x BUNDLE_FACTS]. The journal's word on the owner wins; without one the broker that reported most often."""
    facts = np.zeros((len(names), len(BUNDLE_FACTS)), np.int64)
    by_reports = np.lexsort((-row_facts[:, 1], row_facts[:, 2], row_facts[:, 0]))
    facts[row_facts[by_reports, 0], 0] = row_facts[by_reports, 1]  # the last one written has the most reports
    records = list(map(state.bundles.get, names))
    for at, record in enumerate(records):
        if record is not None:
            facts[at] = ownership_facts(record, index)
    return facts


def ownership_facts(record: Ownership, index: Mapping[str, int]) -> tuple[int, int, int, int]:
    """Owner, status, epoch, moved_at_ms. What is under way counts as done: the load is where it goes."""
    flying = record.state in IN_FLIGHT
    party = record.to if flying and record.state is not State.SPLITTING else record.by
    owner = index.get(party.broker, NOBODY) if party is not None else NOBODY
    status = OWNED if record.state is State.OWNED else MOVING if flying else UNOWNED
    return owner, status, record.epoch, record.moved_at_ms


def _namespace_counts(state: ClusterState, names: tuple[str, ...]) -> dict[str, int]:
    """Bundles of every namespace heard of: the journal's count, or what was reported where it knows none."""
    spaces, reported = np.unique(np.array([namespace_of_bundle(n) for n in names], object), return_counts=True)
    counts = dict(zip(spaces.tolist(), reported.tolist(), strict=True))
    splitting = Counter(r.bundle.namespace for r in state.bundles.values() if r.state is State.SPLITTING)
    known = state.namespaces
    return {ns: len(known[ns]) + splitting[ns] if ns in known else int(n) for ns, n in counts.items()}
