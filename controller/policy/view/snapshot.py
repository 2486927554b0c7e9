"""The arrays a strategy sees: one moment of the whole cluster, moves under way counted as done.

`build` is the way in from tables; `from_frame` the one that a replay takes too. Sufficiency and constraints return a
copy with `*_block` filled in; a strategy never looks at anything else. All arrays are aligned with `brokers` (sorted
ids) or `bundles` (sorted names), columns with `RESOURCES` and `BUNDLE_FIELDS`.

A short average covers a minute, and a bundle may have changed hands within it. So each report "broker r carried bundle
b" counts for the bundle's owner: the part of r's average that came from b is taken off r and put on the owner.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from controller.domain.load import FIELD_SCALES, RESOURCE_SCALES, SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.view.costs import Floats, costs, unit_costs
from controller.policy.view.frame import MOVING, NOBODY, UNOWNED, Columns, Frame, Ints, tabulate
from controller.policy.view.journal_counts import rule_facts
from controller.policy.view.placement_rules import PlacementRules
from controller.policy.view.quota import UNBOUND, Room
from controller.policy.view.reason_codes import ALLOWED

NO_SCORE = -1


@dataclass(frozen=True, eq=False)
class Snapshot:
    """B brokers, N bundles. `score` in 1 / SCORE_UNIT, NO_SCORE when no weighted resource is known."""

    frame: Frame
    at_ms: int
    weights: Floats  # [R]
    brokers: tuple[str, ...]
    incarnation: Ints  # [B]
    known: NDArray[np.bool_]  # [B] the journal has a registration
    alive: NDArray[np.bool_]  # [B] its session's lease lives
    reports: Ints  # [B] in the short window
    last_event_ms: Ints  # [B] 0: never heard of
    usage: Floats  # [B x R] NaN unknown
    limit: Floats  # [B x R] NaN unknown
    utilisation: Floats  # [B x R] fraction of the limit, NaN unknown
    score: Ints  # [B]
    totals: Floats  # [B x F]
    source_block: Ints  # [B] why it may not give anything away
    target_block: Ints  # [B] why it may not take anything
    bundles: tuple[str, ...]
    owner: Ints  # [N] index into brokers, NOBODY
    epoch: Ints  # [N] 0 where the journal knows nothing of the bundle
    moved_at_ms: Ints  # [N] 0: no round ever moved it
    in_flight: NDArray[np.bool_]  # [N]
    unowned: NDArray[np.bool_]  # [N] the journal says free or retired
    displaced: NDArray[np.bool_]  # [N] somebody other than the owner reported it
    fields: Floats  # [N x F]
    cost: Floats  # [N x R] estimated usage on its broker
    bundle_block: Ints  # [N] why it may not be moved
    room: Room = UNBOUND  # how many moves pacing lets a strategy choose
    rules: PlacementRules | None = None  # which bundle may go to which broker; None: nothing is configured

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """[B] whose scores make the mean: those that may take part in the round at all."""
        return np.asarray(self.source_block == ALLOWED)

    def bundles_of(self, broker: int) -> Ints:
        """Indices of the bundles that count as this broker's, by name."""
        return np.flatnonzero(self.owner == broker)

    def place_of(self, bundle: str) -> int | None:
        """The bundle's index, if it is known."""
        at = bisect_left(self.bundles, bundle)
        return at if at < len(self.bundles) and self.bundles[at] == bundle else None


def build(
    state: ClusterState,
    brokers: Columns,
    bundles: Columns,
    at_ms: int,
    settings: PolicySettings,
    lagging: Collection[str] = (),
) -> Snapshot:
    """The snapshot of a moment from the journal's state and the columns of broker_load and bundle_load."""
    frame = tabulate(state, brokers, bundles, at_ms, lagging)
    return from_frame(replace(frame, rule_facts=rule_facts(state, frame, settings)), settings)


def from_frame(frame: Frame, settings: PolicySettings) -> Snapshot:
    """The snapshot of a quantised frame; nothing is blocked yet."""
    usage = _unscaled(frame.usage, RESOURCE_SCALES)
    limit = _unscaled(frame.limit, RESOURCE_SCALES)
    totals = frame.totals / np.array(FIELD_SCALES, np.float64)
    reports = frame.broker_facts[:, 6]
    rows = _Rows(frame, usage, totals, reports)
    usage, totals = rows.counted_for_owners(usage, totals)
    weights = np.array(settings.weights.in_order())
    status = frame.bundle_facts[:, 1]
    free = np.full(len(frame.brokers), ALLOWED, np.int64)
    return Snapshot(
        frame=frame,
        at_ms=frame.at_ms,
        weights=weights,
        brokers=frame.brokers,
        incarnation=frame.broker_facts[:, 0],
        known=frame.broker_facts[:, 1] == 1,
        alive=frame.broker_facts[:, 2] == 1,
        reports=reports,
        last_event_ms=frame.broker_facts[:, 7],
        usage=usage,
        limit=limit,
        utilisation=utilisation(usage, limit),
        score=scores(usage, limit, weights),
        totals=totals,
        source_block=free,
        target_block=free,
        bundles=frame.bundles,
        owner=frame.bundle_facts[:, 0],
        epoch=frame.bundle_facts[:, 2],
        moved_at_ms=frame.bundle_facts[:, 3],
        in_flight=status == MOVING,
        unowned=status == UNOWNED,
        displaced=rows.displaced(),
        fields=rows.mean(rows.fields),
        cost=rows.mean(rows.cost),
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
    return np.where(largest < 0, NO_SCORE, np.rint(largest * SCORE_UNIT)).astype(np.int64)


def _unscaled(values: Ints, scales: tuple[int, ...]) -> Floats:
    return np.where(values < 0, np.nan, values / np.array(scales, np.float64))


class _Rows:
    """The M rows of a frame as floats, with their costs and what of the reporter's average they made up."""

    def __init__(self, frame: Frame, usage: Floats, totals: Floats, reports: Ints) -> None:
        self.bundle, self.reporter, self.reports = frame.row_facts.T
        self.count = len(frame.bundles)
        self.owner = frame.bundle_facts[:, 0][self.bundle]
        self.fields = frame.row_fields / np.array(FIELD_SCALES, np.float64)
        heard = reports[self.reporter] > 0
        # of a reporter that says nothing of itself, the owner's reports tell how long a full window is
        window = np.where(heard, reports[self.reporter], reports[self.owner])
        self.share = np.minimum(1.0, self.reports / np.maximum(window, 1))
        self.cost = costs(unit_costs(usage, totals), np.where(heard, self.reporter, -1), self.share, self.fields)
        self._one_each = len(self.bundle) == self.count and bool((self.bundle == np.arange(self.count)).all())
        self.moved = np.flatnonzero((self.owner != self.reporter) & (self.owner != NOBODY))

    def mean(self, values: Floats) -> Floats:
        """[N x columns] mean over a bundle's reports, whoever sent them."""
        if self._one_each:  # the same operations on the same numbers, without adding up anything
            return np.asarray(self.reports[:, None] * values / np.maximum(self.reports, 1)[:, None])
        weight = np.bincount(self.bundle, self.reports, self.count)
        sums = [np.bincount(self.bundle, self.reports * values[:, c], self.count) for c in range(values.shape[1])]
        return np.column_stack(sums) / np.maximum(weight, 1)[:, None]

    def displaced(self) -> NDArray[np.bool_]:
        """[N] whether somebody other than the owner reported the bundle."""
        result = np.zeros(self.count, bool)
        result[self.bundle[self.moved]] = True
        return result

    def counted_for_owners(self, usage: Floats, totals: Floats) -> tuple[Floats, Floats]:
        """Usage and totals with every bundle's part moved from who reported it to who owns it."""
        part = self.share[self.moved, None]
        usage, totals = usage.copy(), totals.copy()
        for table, values in ((usage, part * self.cost[self.moved]), (totals, part * self.fields[self.moved])):
            np.subtract.at(table, self.reporter[self.moved], values)
            np.add.at(table, self.owner[self.moved], values)
        return usage, np.maximum(totals, 0.0)
