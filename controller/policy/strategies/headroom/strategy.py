"""The first strategy: relieve brokers that are full or well above the mean, one bundle at a time, where there is room.

A broker is *hot* when its score is >= overloaded_threshold or >= the mean of the eligible brokers + difference, and a
*source* when it is so in `consecutive_rounds` rounds running. A round without data on a broker neither adds a hit nor
takes one; acting takes none either. The hottest source comes first; its best pair of bundle and target (pairs.py) is
moved in the model, and so on, until the source is below the threshold and below the mean + target_margin, or nothing
helps, or the round's budget is spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.load import RESOURCE_SCALES, RESOURCES, SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.decisions import make_transfer
from controller.policy.placement.repair import choose_repair_target, repair_placement
from controller.policy.strategies import hit_counts
from controller.policy.strategies.base import StrategyOutcome, score_rows
from controller.policy.strategies.headroom.pairs import Pairs, evaluate, plausible_targets
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, REASONS, count_reasons, most_common_reason
from controller.policy.view.snapshot import Snapshot
from controller.policy.what_if import Model


class Headroom:
    """See the module's text."""

    name = "headroom"
    rules = 2

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `hits`, broker id -> [incarnation, rounds running]."""
        model = Model(snapshot)
        hits = hit_counts.count(snapshot, hot(snapshot, model.means(), settings), memory)
        run = _Run(snapshot, settings, model, hits)
        moves = run.choose_moves()
        rows = score_rows(snapshot, run.mean, run.hits, run.sources, run.reasons)
        considered = np.append(run.visited, False)[snapshot.owner]
        return StrategyOutcome(
            (*moves, *run.skips()), rows, {"hits": hit_counts.remembered(snapshot, hits)}, considered
        )


def hot(snapshot: Snapshot, mean: int | Ints, settings: PolicySettings) -> NDArray[np.bool_]:
    """[B] whose score is a hit in this round; `mean`: of all, or [B] of those each can share work with."""
    shed = settings.shed
    full = snapshot.score >= round(shed.overloaded_threshold * SCORE_UNIT)
    return np.asarray(snapshot.eligible & (full | (snapshot.score >= mean + round(shed.difference * SCORE_UNIT))))


class _Run:
    """One round of this strategy: the model and why each broker ended as it did."""

    def __init__(self, snapshot: Snapshot, settings: PolicySettings, model: Model, hits: Ints) -> None:
        self.snapshot, self.settings, self.model, self.hits = snapshot, settings, model, hits
        self.mean = model.means()
        self.sources = np.asarray(snapshot.eligible & (hits >= settings.shed.consecutive_rounds))
        self.reasons = {at: self._reason_at_first(at) for at in range(len(snapshot.brokers))}
        self.evidence: dict[int, dict[str, Any]] = {}
        self.moved_from: set[int] = set()
        self.visited = np.zeros(len(snapshot.brokers), bool)  # whose bundles were looked into

    def _reason_at_first(self, at: int) -> Reason:
        block = int(self.snapshot.source_block[at])
        if block != ALLOWED:
            return REASONS[block]
        return Reason.HIT_COUNT if self.hits[at] > 0 else Reason.BALANCED

    def choose_moves(self) -> list[Decision]:
        """Moves in the order they were chosen; what each source was denied goes into `reasons` and `evidence`."""
        moves: list[Decision] = []
        repair_placement(self.snapshot, lambda bundle: self._send_home(bundle, moves))
        active = self.sources.copy()
        while active.any():
            source = int(np.argmax(np.where(active, self.model.score, -1)))  # the first of equals: the smaller id
            if len(moves) >= self.settings.shed.max_moves_per_round:
                self._deny(np.flatnonzero(active), Reason.BUDGET_SPENT)
                break
            move = self._best_move(source)
            if move is None:
                active[source] = False
                continue
            moves.append(move)
            active[source] = self._wants_relief(source)
        return moves

    def skips(self) -> list[Decision]:
        """One skip for every broker that gave nothing away, with the reason."""
        return [
            Decision(
                id="",
                kind=DecisionKind.SKIP,
                label=Label.SKIP,
                reason=self.reasons[at],
                source=broker,
                strategy=Headroom.name,
                evidence=self.evidence.get(at) or self._seen(at),
            )
            for at, broker in enumerate(self.snapshot.brokers)
            if at not in self.moved_from
        ]

    def _wants_relief(self, source: int) -> bool:
        shed = self.settings.shed
        score = int(self.model.score[source])
        above = int(self.model.means()[source]) + round(shed.target_margin * SCORE_UNIT)
        return score >= round(shed.overloaded_threshold * SCORE_UNIT) or score >= above

    def _deny(self, sources: Ints, reason: Reason, evidence: Mapping[str, Any] | None = None) -> None:
        """Note why sources get nothing (more). One that has moved already keeps the reason it moved for."""
        for at in sources.tolist():
            if at not in self.moved_from:
                self.reasons[at] = reason
                self.evidence[at] = {**self._seen(at), **(evidence or {})}

    def _best_move(self, source: int) -> Decision | None:
        """The source's best move, done in the model; None when there is none, with the reason noted."""
        self.visited[source] = True
        here = np.array([source])
        held = np.flatnonzero(self.model.owner == source)
        if not len(held):
            self._deny(here, Reason.NO_BUNDLES)
            return None
        block = self.model.bundle_block[held]
        movable = held[block == ALLOWED]
        evidence: dict[str, Any] = {"bundles": len(held), "bundles_lost": count_reasons(block[block != ALLOWED])}
        targets, evidence["targets_lost"] = plausible_targets(self.model, source, self.settings, movable)
        if not len(targets):
            self._deny(here, _no_target(evidence["targets_lost"]), evidence)
            return None
        if not len(movable):
            self._deny(here, most_common_reason(block), evidence)
            return None
        pairs = evaluate(self.model, source, movable, targets, self.settings)
        best = pairs.best()
        evidence["pairs"] = pairs.shown(self.snapshot.bundles, self.snapshot.brokers)
        if self.model.placement_state is not None:
            evidence["pairs_lost"] = count_reasons(pairs.rule[pairs.rule != ALLOWED])
        if best is None:
            self._deny(here, pairs.obstacle(), evidence)
            return None
        return self._move(source, pairs, best, evidence)

    def _move(self, source: int, pairs: Pairs, best: tuple[int, int], evidence: Mapping[str, Any]) -> Decision:
        bundle, target = int(pairs.bundles[best[0]]), int(pairs.targets[best[1]])
        full = self.model.score[source] >= round(self.settings.shed.overloaded_threshold * SCORE_UNIT)
        reason = Reason.OVERLOADED if full else Reason.ABOVE_MEAN
        evidence = {**self._seen(source), **evidence, "cost": self._cost(bundle)}
        return self._transfer(bundle, (source, target), reason, evidence)

    def _transfer(self, bundle: int, way: tuple[int, int], reason: Reason, evidence: Mapping[str, Any]) -> Decision:
        """The decision, done in the model."""
        before = self.model.fractions(way)
        self.model.move(bundle, way[1])
        after = self.model.fractions(way)
        if way[0] not in self.moved_from:
            self.reasons[way[0]] = reason
        self.moved_from.add(way[0])
        return make_transfer(
            self.snapshot, bundle, way, before, after, reason=reason, strategy=Headroom.name, evidence=evidence
        )

    def _send_home(self, bundle: int, moves: list[Decision]) -> bool:
        """A bundle that isolation forbids where it is goes where it may be; False: nowhere, now."""
        model, source = self.model, int(self.model.owner[bundle])
        here = np.array([source])
        if model.placement_state is None or len(moves) >= self.settings.shed.max_moves_per_round:
            self._deny(here, Reason.BUDGET_SPENT)
            return False
        targets = np.flatnonzero(self.snapshot.target_block == ALLOWED)
        after = model.target_after(np.array([bundle]), targets)[0]
        ceiling = round(self.settings.shed.overloaded_threshold * SCORE_UNIT)
        target, why = choose_repair_target(model.placement_state, bundle, targets, after, ceiling)
        if target is None:
            self._deny(here, why)
            return False
        policy = {"isolation": model.placement_state.rules.policy_name(bundle)}
        moves.append(self._transfer(bundle, (source, target), why, {**self._seen(source), **policy}))
        return True

    def _seen(self, at: int) -> dict[str, Any]:
        """What the strategy judged this broker by, in 1 / SCORE_UNIT: the model's mean and score at this point."""
        mean = int(self.model.means()[at])
        seen = {"score": int(self.model.score[at]), "mean": mean, "hits": int(self.hits[at])}
        # when the mean itself is over the threshold, moving only shares out the shortage: the cluster needs brokers
        full = mean >= round(self.settings.shed.overloaded_threshold * SCORE_UNIT)
        return {**seen, "under_provisioned": True} if full else seen

    def _cost(self, bundle: int) -> dict[str, int]:
        """What the bundle was reckoned to use, quantised as in RESOURCE_SCALES."""
        cost = np.rint(self.snapshot.cost[bundle] * np.array(RESOURCE_SCALES))
        return {name: int(value) for name, value in zip(RESOURCES, cost.tolist(), strict=True)}


def _no_target(lost: Mapping[str, int]) -> Reason:
    """Why no broker can take anything: a soft rule where one alone stood in the way, else that there is none."""
    soft = (Reason.TARGET_ABOVE_MEAN.value, Reason.WOULD_NOT_IMPROVE.value, Reason.BROKER_CAP.value)
    standing = [name for name in soft if lost.get(name)]
    return Reason(standing[0]) if standing else Reason.NO_TARGET
