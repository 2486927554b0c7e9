"""`headroom`, the first strategy: relieve brokers that are full or well above the mean, one bundle at a time.

A broker is *hot* when its score is >= overloaded_threshold or >= the mean of the eligible brokers + difference, and a
*source* when it is hot in `consecutive_rounds` rounds running. The hottest source comes first. Its best pair of bundle
and target is moved in the model, and so on, until the source is below the threshold and below the mean + target_margin,
or nothing helps, or the round's budget is spent.

A pair's rank is one integer: pairs that leave the source at or above the mean come first, then those that leave it
closest to the mean, then by the target's lower score, then by bundle name and broker id. No two are equal, so every
machine chooses alike, and the evidence lists the best twenty with the rule that each lost by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.domain.load import RESOURCE_SCALES, RESOURCES, SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.constraints import exceeds_caps, pairs_exceed_caps
from controller.policy.placement.repair import Repair, repair_placements
from controller.policy.strategies.base import StrategyOutcome, Traits, count_hits, hits_to_memory, score_rows
from controller.policy.strategies.decision_log import DecisionLog
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS, count_reasons, most_common_reason
from controller.policy.view.snapshot import Bools, Snapshot
from controller.policy.what_if import Model

MIN_GAIN = 10  # a move must take at least a tenth of a point off the pair's maximum
MOST_TARGETS = 128  # the least loaded ones; those after them only add load to a fuller broker
PAIRS_LISTED = 20
_BITS = 16  # of a score or distance within a rank; larger ones count as equally bad
_TOP = (1 << _BITS) - 1


class Headroom:
    """See the module's text."""

    name = "headroom"
    rules = 3
    traits = Traits(knobs=())

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `hits`, broker id -> [incarnation, consecutive rounds]."""
        model = Model(snapshot)
        mean = model.means()
        hits = count_hits(snapshot, _hot(snapshot, mean, settings), memory)
        plan = _Round(snapshot, settings, model, hits)
        plan.choose_moves()
        rows = score_rows(snapshot, mean, hits, plan.sources, plan.log.reasons)
        kept = {"hits": hits_to_memory(snapshot, hits)}
        return StrategyOutcome(plan.log.decisions(), rows, kept, plan.log.considered())


def _hot(snapshot: Snapshot, mean: Ints, settings: PolicySettings) -> Bools:
    """[B] whose score is a hit in this round; `mean`: [B] of those that each can share work with."""
    shed = settings.shed
    full = snapshot.score >= round(shed.overloaded_threshold * SCORE_UNIT)
    return np.asarray(snapshot.eligible & (full | (snapshot.score >= mean + round(shed.difference * SCORE_UNIT))))


class _Round:
    """One round: the model with the moves chosen so far, and the log of why each broker ended as it did."""

    def __init__(self, snapshot: Snapshot, settings: PolicySettings, model: Model, hits: Ints) -> None:
        self.snapshot, self.settings, self.model, self.hits = snapshot, settings, model, hits
        self.overloaded = round(settings.shed.overloaded_threshold * SCORE_UNIT)
        self.margin = round(settings.shed.target_margin * SCORE_UNIT)
        self.sources = np.asarray(snapshot.eligible & (hits >= settings.shed.consecutive_rounds))
        self.log = DecisionLog(
            snapshot, Headroom.name, lambda at: Reason.HIT_COUNT if hits[at] > 0 else Reason.BALANCED, self._seen
        )

    def choose_moves(self) -> None:
        """Choose all moves of the round."""
        repair = Repair(
            lambda source: self._budget_spent(), self._open_targets, self.overloaded, self.log.deny, self._transfer
        )
        repair_placements(self.snapshot, self.model.placement_state, repair)
        active = self.sources.copy()
        while active.any():
            source = int(np.argmax(np.where(active, self.model.score, -1)))  # the first of equals: the smaller id
            if self._budget_spent():
                for at in np.flatnonzero(active).tolist():
                    self.log.deny(at, Reason.BUDGET_SPENT)
                break
            active[source] = self._relieve(source) and self._wants_relief(source)

    def _budget_spent(self) -> bool:
        return len(self.log.moves) >= self.settings.shed.max_moves_per_round

    def _wants_relief(self, source: int) -> bool:
        score, mean = int(self.model.score[source]), int(self.model.means()[source])
        return score >= self.overloaded or score >= mean + self.margin

    def _relieve(self, source: int) -> bool:
        """Make the source's best move; False when there is none, with the reason noted."""
        self.log.visited[source] = True
        held = np.flatnonzero(self.model.owner == source)
        if not len(held):
            self.log.deny(source, Reason.NO_BUNDLES)
            return False
        block = self.model.bundle_block[held]
        movable = held[block == ALLOWED]
        evidence: dict[str, Any] = {"bundles": len(held), "bundles_lost": count_reasons(block[block != ALLOWED])}
        targets, evidence["targets_lost"] = self._plausible_targets(source, movable)
        if not len(targets):
            self.log.deny(source, _no_target(evidence["targets_lost"]), evidence)
            return False
        if not len(movable):
            self.log.deny(source, most_common_reason(block), evidence)
            return False
        pairs = _judge_pairs(self.model, source, movable, targets, self.settings)
        evidence["pairs"] = pairs.best_first(self.snapshot.bundles, self.snapshot.brokers)
        if self.model.placement_state is not None:
            evidence["pairs_lost"] = count_reasons(pairs.rule[pairs.rule != ALLOWED])
        best = pairs.best()
        if best is None:
            self.log.deny(source, pairs.obstacle(), evidence)
            return False
        bundle, target = int(pairs.bundles[best[0]]), int(pairs.targets[best[1]])
        reason = Reason.OVERLOADED if self.model.score[source] >= self.overloaded else Reason.ABOVE_MEAN
        self._transfer(bundle, source, target, reason, {**evidence, "cost": self._cost(bundle)})
        return True

    def _transfer(self, bundle: int, source: int, target: int, reason: Reason, evidence: Mapping[str, Any]) -> None:
        """Make the move in the model and note it."""
        evidence = {**self._seen(source), **evidence}
        before = self.model.fractions((source, target))
        self.model.move(bundle, target)
        self.log.transfer(bundle, source, target, before, self.model.fractions((source, target)), reason, evidence)

    def _open_targets(self, bundle: int) -> tuple[Ints, Ints]:
        targets = np.flatnonzero(self.snapshot.target_block == ALLOWED)
        return targets, self.model.target_after(np.array([bundle]), targets)[0]

    def _plausible_targets(self, source: int, bundles: Ints) -> tuple[Ints, dict[str, int]]:
        """The least loaded targets that some of the bundles might fit, and how many others lost by which rule."""
        model, block = self.model, self.snapshot.target_block.copy()
        block[source] = CODES[Reason.STALE_DECISION]  # itself: left out below and not counted
        if model.placement_state is not None and len(bundles):
            reached = np.logical_or.reduce(model.placement_state.targets_of(bundles))
            block = np.where((block == ALLOWED) & ~reached, CODES[Reason.ISOLATION], block)
        rules = (
            (exceeds_caps(model.totals, self.settings.caps, reached=True), Reason.BROKER_CAP),
            (model.score >= int(model.means()[source]) + self.margin, Reason.TARGET_ABOVE_MEAN),
            (model.score > model.score[source] - MIN_GAIN, Reason.WOULD_NOT_IMPROVE),
        )
        for hit, reason in rules:
            block = np.where((block == ALLOWED) & hit, CODES[reason], block)
        others = np.arange(len(block)) != source
        lost = count_reasons(block[others & (block != ALLOWED)])
        left = np.flatnonzero(block == ALLOWED)
        least = left[np.argsort(model.score[left], kind="stable")[:MOST_TARGETS]]
        return np.sort(least), lost

    def _seen(self, at: int) -> dict[str, Any]:
        """What the broker is judged by, in 1 / SCORE_UNIT: the model's mean and score at this point."""
        mean = int(self.model.means()[at])
        seen = {"score": int(self.model.score[at]), "mean": mean, "hits": int(self.hits[at])}
        # when the mean itself is over the threshold, moves only share out the shortage: the cluster needs brokers
        return {**seen, "under_provisioned": True} if mean >= self.overloaded else seen

    def _cost(self, bundle: int) -> dict[str, int]:
        """What the bundle is estimated to use, quantised as in RESOURCE_SCALES."""
        cost = np.rint(self.snapshot.cost[bundle] * np.array(RESOURCE_SCALES))
        return {name: int(value) for name, value in zip(RESOURCES, cost.tolist(), strict=True)}


@dataclass(frozen=True, eq=False)
class _Pairs:
    """n bundles of one source x t targets. Scores in 1 / SCORE_UNIT."""

    bundles: Ints  # [n]
    targets: Ints  # [t]
    source_after: Ints  # [n]
    target_after: Ints  # [n x t]
    rule: Ints  # [n x t] ALLOWED or the index into REASONS of the rule that the pair fails
    rank: Ints  # [n x t] smaller is better, no two equal

    def best(self) -> tuple[int, int] | None:
        """Index of the best allowed pair, as (row, column)."""
        if not (self.rule == ALLOWED).any():
            return None
        at = int(np.argmin(np.where(self.rule == ALLOWED, self.rank, np.iinfo(np.int64).max)))
        return divmod(at, len(self.targets))

    def obstacle(self) -> Reason:
        """The rule that the best-ranked pair fails among those whose bundle may move at all."""
        return REASONS[int(self.rule.flat[int(np.argmin(self.rank))])]

    def best_first(self, bundles: tuple[str, ...], brokers: tuple[str, ...]) -> list[dict[str, Any]]:
        """The best PAIRS_LISTED pairs in order, with predicted scores and the rule each lost by."""
        count = min(PAIRS_LISTED, self.rank.size)
        if count == 0:
            return []
        flat = self.rank.ravel()
        first = np.argpartition(flat, count - 1)[:count]
        rows = []
        for at in first[np.argsort(flat[first])].tolist():
            row, column = divmod(at, len(self.targets))
            code = int(self.rule[row, column])
            rows.append(
                {
                    "bundle": bundles[self.bundles[row]],
                    "target": brokers[self.targets[column]],
                    "source_after": int(self.source_after[row]),
                    "target_after": int(self.target_after[row, column]),
                    "lost_by": "" if code == ALLOWED else REASONS[code].value,
                }
            )
        return rows


def _judge_pairs(model: Model, source: int, bundles: Ints, targets: Ints, settings: PolicySettings) -> _Pairs:
    """Judge every pair against the model as it stands. Needs at least one bundle and one target."""
    mean = int(model.means()[source])
    margin = round(settings.shed.target_margin * SCORE_UNIT)
    before = int(model.score[source])
    source_after = model.source_after(source, bundles)
    target_after = model.target_after(bundles, targets)
    after = source_after[:, None]
    over_cap = pairs_exceed_caps(model.totals, targets, model.snapshot.fields, bundles, settings.caps)
    rules = (
        (over_cap, Reason.BROKER_CAP),
        (target_after >= mean + margin, Reason.TARGET_ABOVE_MEAN),
        (np.maximum(after, target_after) > before - MIN_GAIN, Reason.WOULD_NOT_IMPROVE),
        # more than half the gap would only make the target the next source
        (target_after > after + margin, Reason.WOULD_NOT_IMPROVE),
    )
    rule = np.select([hit for hit, _ in rules], [CODES[reason] for _, reason in rules], ALLOWED)
    if model.placement_state is not None:
        forbidden = model.placement_state.codes(bundles, targets)
        rule = np.where(forbidden != ALLOWED, forbidden, rule)
    below = np.asarray(after < mean, np.int64)
    distance = np.minimum(np.abs(after - mean), _TOP)
    order = np.arange(rule.size, dtype=np.int64).reshape(rule.shape)
    rank = (((below << _BITS | distance) << _BITS | np.minimum(target_after, _TOP)) << 30) | order
    return _Pairs(bundles, targets, source_after, target_after, rule, rank)


def _no_target(lost: Mapping[str, int]) -> Reason:
    """Why no broker can take anything: a soft rule where one alone stood in the way, else that there is none."""
    soft = (Reason.TARGET_ABOVE_MEAN.value, Reason.WOULD_NOT_IMPROVE.value, Reason.BROKER_CAP.value)
    standing = [name for name in soft if lost.get(name)]
    return Reason(standing[0]) if standing else Reason.NO_TARGET
