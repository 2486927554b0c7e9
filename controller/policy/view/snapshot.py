"""The arrays a strategy sees: one moment of the whole cluster, moves under way counted as done.

`from_frame` makes a snapshot, in a round and in its replay. Sufficiency, constraints and pacing return copies with the
`*_block` arrays, `rules` and `quota` filled in; a strategy looks at nothing else. All arrays are aligned with `brokers`
(sorted ids) or `bundles` (sorted names), their columns with `RESOURCES` or `BUNDLE_FIELDS`.

A short average covers a minute, and a bundle may have changed hands within it. So each report "broker r carried bundle
b" counts for the bundle's owner: the part of r's average that came from b is taken off r and put on the owner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.domain.load import FIELD_SCALES, RESOURCE_SCALES, SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.view.costs import Floats, costs, unit_costs
from controller.policy.view.frame import MOVING, NOBODY, UNOWNED, Frame, Ints, place_of
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.tabulate import Columns, count_rule_facts, tabulate

Bools = NDArray[np.bool_]

NO_SCORE = -1
HIGHEST_SCORE = 2**53  # beyond it units are no longer exact, and soon no 64-bit integer holds them
NO_GROUP = -1
FULL_PACE = 1000  # permille
UNLIMITED = 2**31


class MoveQuota(NamedTuple):
    """How many moves the rate limits let a strategy choose, so that none it counts on is held back afterwards.

    `brokers`: [B] moves that each may take part in; None: no limit. `cluster`: moves of all. `pace`: permille of the
    strategy's own budget; below FULL_PACE after failed moves. `namespaces`: moves of those that have less left than
    `namespace`, which every other one has.
    """

    brokers: Ints | None = None
    cluster: int = UNLIMITED
    pace: int = FULL_PACE
    namespaces: Mapping[str, int] = MappingProxyType({})
    namespace: int = UNLIMITED

    def remaining(self, brokers: int) -> Ints:
        """[B] moves of each broker, to be counted down while moves are chosen."""
        return np.full(brokers, UNLIMITED, np.int64) if self.brokers is None else self.brokers.copy()

    def allow(self, wanted: int) -> int:
        """How many of the moves that a strategy allows itself it may choose."""
        paced = wanted if self.pace == FULL_PACE else max(1, wanted * self.pace // FULL_PACE)
        return min(paced if wanted else 0, self.cluster)


UNLIMITED_QUOTA = MoveQuota()


@dataclass(frozen=True, eq=False)
class PlacementRules:
    """Isolation, anti-affinity and the cap on bundles as tables: K kinds of namespaces, G groups, B brokers, N bundles.

    A *kind* stands for all namespaces with the same isolation policy (placement/isolation.py), so that [K x B] says
    what a [namespaces x B] matrix would. placement/rules.py makes the tables and keeps them up to date.
    """

    kind: Ints  # [N] of the bundle's namespace
    allowed: Bools  # [K x B] isolation allows the broker as a target
    may_stay: Bools  # [K x B] isolation lets what is there stay
    pools: tuple[Bools, ...]  # [B] each: brokers that can share work, each in one pool; those in none take nothing
    policies: tuple[str, ...]  # names; the last kind has none
    group: Ints  # [N] anti-affinity group, or NO_GROUP
    spread: Ints  # [G x B] bundles of the group
    domain: Ints | None  # [B] failure domain; None: there are none
    open: Bools  # [B] may take something at all
    max_bundles: int | None
    held: Ints  # [B] bundles

    def has_policy(self, bundle: int) -> bool:
        """Whether an isolation policy or an anti-affinity group covers the bundle."""
        return bool(self.kind[bundle] < len(self.policies) or self.group[bundle] != NO_GROUP)

    def policy_name(self, bundle: int) -> str:
        """The isolation policy of the bundle's namespace; empty for a shared one."""
        at = int(self.kind[bundle])
        return self.policies[at] if at < len(self.policies) else ""

    def find_violations(self, owner: Ints) -> Bools:
        """[N] whether isolation forbids the bundle where it is."""
        return np.asarray((owner != NOBODY) & ~self.may_stay[self.kind, owner])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """B brokers, N bundles. `score` in 1 / SCORE_UNIT, NO_SCORE when no weighted resource is known."""

    frame: Frame
    at_ms: int
    weights: Floats  # [R]
    brokers: tuple[str, ...]
    incarnation: Ints  # [B]
    known: Bools  # [B] the journal has a registration
    alive: Bools  # [B] its session's lease lives
    reports: Ints  # [B] in the short window
    last_event_ms: Ints  # [B] 0: never heard from
    usage: Floats  # [B x R] NaN unknown
    limit: Floats  # [B x R] NaN unknown
    utilisation: Floats  # [B x R] fraction of the limit, NaN unknown
    score: Ints  # [B]
    totals: Floats  # [B x F]
    source_block: Ints  # [B] why it must not give anything away
    target_block: Ints  # [B] why it must not take anything
    bundles: tuple[str, ...]
    owner: Ints  # [N] index into brokers, NOBODY
    epoch: Ints  # [N] 0 where the journal knows nothing of the bundle
    moved_at_ms: Ints  # [N] 0: no round ever moved it
    in_flight: Bools  # [N]
    unowned: Bools  # [N] the journal says free or retired
    displaced: Bools  # [N] a broker other than the owner reported it
    fields: Floats  # [N x F]
    cost: Floats  # [N x R] estimated usage on its broker
    bundle_block: Ints  # [N] why it must not be moved
    quota: MoveQuota = UNLIMITED_QUOTA
    rules: PlacementRules | None = None  # None: no rule of placement is configured

    @property
    def eligible(self) -> Bools:
        """[B] whether the broker takes part in the round, and so in the mean of scores."""
        return np.asarray(self.source_block == ALLOWED)

    def bundles_of(self, broker: int) -> Ints:
        """Indices of the bundles that count as this broker's, by name."""
        return np.flatnonzero(self.owner == broker)

    def place_of(self, bundle: str) -> int | None:
        """The bundle's index, or None for a bundle that the snapshot lacks."""
        return place_of(self.bundles, bundle)


def build(
    state: ClusterState,
    brokers: Columns,
    bundles: Columns,
    at_ms: int,
    settings: PolicySettings,
    lagging: Collection[str] = (),
) -> Snapshot:
    """The snapshot of a moment from the journal's state and the averaged panes of brokers and bundles."""
    frame = tabulate(state, brokers, bundles, at_ms, lagging)
    return from_frame(replace(frame, rule_facts=count_rule_facts(state, frame, settings)), settings)


def from_frame(frame: Frame, settings: PolicySettings) -> Snapshot:
    """The snapshot of a quantised frame; nothing is blocked yet."""
    usage = _unscaled(frame.usage, RESOURCE_SCALES)
    limit = _unscaled(frame.limit, RESOURCE_SCALES)
    totals = frame.totals / np.array(FIELD_SCALES, np.float64)
    reports = frame.broker("reports")
    rows = _Rows(frame, usage, totals, reports)
    usage, totals = rows.count_for_owners(usage, totals)
    weights = np.array(settings.weights.in_order())
    status = frame.bundle("status")
    free = np.full(len(frame.brokers), ALLOWED, np.int64)
    return Snapshot(
        frame=frame,
        at_ms=frame.at_ms,
        weights=weights,
        brokers=frame.brokers,
        incarnation=frame.broker("incarnation"),
        known=frame.broker("registered") == 1,
        alive=frame.broker("alive") == 1,
        reports=reports,
        last_event_ms=frame.broker("last_event_ms"),
        usage=usage,
        limit=limit,
        utilisation=utilisation(usage, limit),
        score=scores(usage, limit, weights),
        totals=totals,
        source_block=free,
        target_block=free,
        bundles=frame.bundles,
        owner=frame.bundle("owner"),
        epoch=frame.bundle("epoch"),
        moved_at_ms=frame.bundle("moved_at_ms"),
        in_flight=status == MOVING,
        unowned=status == UNOWNED,
        displaced=rows.displaced(),
        fields=rows.overwrite_with_mean(rows.fields),
        cost=rows.overwrite_with_mean(rows.cost),
        bundle_block=np.full(len(frame.bundles), ALLOWED, np.int64),
    )


def utilisation(usage: Floats, limit: Floats) -> Floats:
    """Fraction of the limit, never below 0, NaN where either is unknown."""
    return np.asarray(np.maximum(usage, 0.0) / limit)


def scores(usage: Floats, limit: Floats, weights: Floats) -> Ints:
    """The largest utilisation x weight among resources with a weight > 0, in 1 / SCORE_UNIT; last axis: resources.

    Pulsar multiplies by the weight as well (LocalBrokerData.getMaxResourceUsageWithWeight): a weight below 1 says how
    much of a full resource counts as load, a weight of 0 leaves it out.
    """
    counted = weights > 0
    weighted = np.where(counted, utilisation(usage, limit) * weights, np.nan)
    largest = np.max(np.where(np.isfinite(weighted), weighted, -1.0), axis=-1, initial=-1.0)
    units = np.rint(np.minimum(largest * SCORE_UNIT, HIGHEST_SCORE))
    return np.where(largest < 0, NO_SCORE, units).astype(np.int64)


def _unscaled(values: Ints, scales: tuple[int, ...]) -> Floats:
    return np.where(values < 0, np.nan, values / np.array(scales, np.float64))


def _by_column(
    values: Floats | Ints, rows: int, change: Callable[[Any, int], Floats], into: Floats | None = None
) -> Floats:
    """[rows x columns] of each column as `change` makes it, given its index too; one column after the other in memory.

    Columns of zeros stay as they are and cost nothing: lines of `ballast decide` lack half of the fields. `into`: where
    the result is put, which may be the values themselves.
    """
    result = np.zeros((values.shape[1], rows)).T if into is None else into
    for at in range(values.shape[1]):
        if values[:, at].any():
            result[:, at] = change(values[:, at], at)
    return result


class _Rows:
    """The M rows of a frame as floats, with their costs and their share of the reporter's average."""

    def __init__(self, frame: Frame, usage: Floats, totals: Floats, reports: Ints) -> None:
        self.bundle, self.reporter, self.reports = frame.row("bundle"), frame.row("reporter"), frame.row("reports")
        self.count = len(frame.bundles)
        self.owner = frame.bundle("owner")[self.bundle]
        self.fields = _by_column(frame.row_fields, len(self.bundle), lambda column, at: column / FIELD_SCALES[at])
        heard = reports[self.reporter] > 0
        # where the reporter sent no report of itself, the owner's reports say how long a full window is
        window = np.where(heard, reports[self.reporter], reports[self.owner])
        self.share = np.minimum(1.0, self.reports / np.maximum(window, 1))
        self.cost = costs(unit_costs(usage, totals), np.where(heard, self.reporter, -1), self.share, self.fields)
        self._one_each = frame.one_row_each
        self.moved = np.flatnonzero((self.owner != self.reporter) & (self.owner != NOBODY))

    def overwrite_with_mean(self, values: Floats) -> Floats:
        """[N x columns] mean over all reports of a bundle. Overwrites the values where each bundle has one report: a
        million bundles need much memory, and new memory is slow."""
        weight = np.maximum(self._sum(self.reports), 1)
        into = values if self._one_each else None
        return _by_column(values, self.count, lambda column, _: self._sum(self.reports * column) / weight, into)

    def _sum(self, values: Floats | Ints) -> Floats:
        """[N] sums over the reports of a bundle; the values themselves where each has one."""
        return np.asarray(values if self._one_each else np.bincount(self.bundle, values, self.count), np.float64)

    def displaced(self) -> Bools:
        """[N] whether a broker other than the owner reported the bundle."""
        result = np.zeros(self.count, bool)
        result[self.bundle[self.moved]] = True
        return result

    def count_for_owners(self, usage: Floats, totals: Floats) -> tuple[Floats, Floats]:
        """Usage and totals with every bundle's part moved from its reporter to its owner."""
        part = self.share[self.moved, None]
        usage, totals = usage.copy(), totals.copy()
        for table, values in ((usage, part * self.cost[self.moved]), (totals, part * self.fields[self.moved])):
            np.subtract.at(table, self.reporter[self.moved], values)
            np.add.at(table, self.owner[self.moved], values)
        return usage, np.maximum(totals, 0.0)
