"""Turns what one of Pulsar's modular shedders chose into decisions: destinations, evidence, skips, scores.

Every strategy of the modular manager ends here. A destination is chosen for each bundle in the order of the shedder's
choice; a bundle without one, or whose destination is its owner, stays (Pulsar logs and goes on). Predicted scores are
Ballast's own and only evidence: Pulsar predicts nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.load import BUNDLE_FIELDS
from controller.policy.decisions import make_transfer
from controller.policy.placement.rules import track_placement
from controller.policy.strategies.base import StrategyOutcome, score_rows
from controller.policy.strategies.decision_log import skip_decision
from controller.policy.strategies.pulsar.modular_round import COMMON_MEMORY, ModularRound, blocked_reason
from controller.policy.strategies.pulsar.predicted_scores import PredictedScores
from controller.policy.view.frame import namespaces_of
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Bools
from controller.pulsar.load.arrays import Ints, Shedding, quantise
from controller.pulsar.placement.strategies import (
    BrokerLoads,
    BundleToPlace,
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    PlacementStrategy,
    RoundRobinBrokerSelector,
)

IDLE_REASONS = (Reason.SWITCHED_OFF, Reason.NO_TARGET)
_TOPICS = BUNDLE_FIELDS.index("topics")
OnShed = Callable[[int, int, BundleToPlace], None]  # called for every bundle shed: row, source, bundle


def idle_outcome(name: str, cluster: ModularRound, memory: Mapping[str, Any]) -> StrategyOutcome | None:
    """The outcome of a round in which Pulsar does not even ask the shedder, or None when it does.

    That is when a knob switches it off, or at most one broker is there. Averages go on; the shedder's memory stays.
    """
    knobs, count = cluster.knobs, len(cluster.brokers)
    off = not (knobs.load_balancer_enabled and knobs.load_balancer_shedding_enabled)
    if not off and count > 1:
        return None
    reasons = dict.fromkeys(range(count), IDLE_REASONS[0] if off else IDLE_REASONS[1])
    kept = {part: value for part, value in memory.items() if part not in COMMON_MEMORY}
    return ModularOutcome(name, cluster, Shedding(reasons=reasons), memory).outcome(kept=kept)


class ModularOutcome:
    """Turns one round's shedding into the strategy's outcome."""

    def __init__(self, name: str, cluster: ModularRound, shedding: Shedding, memory: Mapping[str, Any]) -> None:
        """`memory` is the strategy's of the round before."""
        self._name, self._round, self._shedding, self._before = name, cluster, shedding, memory
        self._snapshot = cluster.snapshot
        self._predicted = PredictedScores(self._snapshot)
        self._moves: list[Decision] = []
        self._stays: list[Decision] = []  # skips of bundles that were shed and found no place
        self._lost: dict[int, Counter[str]] = {}  # place -> why its bundles stayed
        self._placement_memory: dict[str, Any] = {}

    def outcome(
        self,
        hits: Mapping[str, int] | None = None,
        mean: float | None = None,
        kept: Mapping[str, Any] | None = None,
        placement: PlacementStrategy | None = None,
        on_shed: OnShed | None = None,
    ) -> StrategyOutcome:
        """`hits` by broker, `mean` as a fraction, `kept` by the shedder; `placement`: instead of the knob's."""
        if self._shedding.rows:
            self._place(placement, on_shed)
        moved_from = {decision.source for decision in self._moves}
        reasons = {at: self._reason(at, moved_from) for at in range(len(self._snapshot.brokers))}
        skips = [self._skip(at, reasons[at]) for at, b in enumerate(self._snapshot.brokers) if b not in moved_from]
        sources = np.zeros(len(reasons), bool)
        sources[self._round.brokers[self._sources()]] = True
        counted = np.array([(hits or {}).get(broker, 0) for broker in self._snapshot.brokers], np.int64)
        usage = self._round.load.usage
        middle = mean if mean is not None else float(usage.mean()) if len(usage) else 0.0
        rows = score_rows(self._snapshot, quantise(middle), counted, sources, reasons)
        unloaded = {d.bundle: d.source for d in self._moves if d.bundle is not None and d.source is not None}
        memory = {**self._round.kept(unloaded), **(kept or {}), **self._placement_memory}
        return StrategyOutcome((*self._moves, *self._stays, *skips), rows, memory, self._considered())

    def _sources(self) -> list[int]:
        """The brokers that were asked to give something, whether or not they had anything."""
        passive = (Reason.HIT_COUNT, *IDLE_REASONS)
        return sorted({*self._shedding.rows, *(p for p, why in self._shedding.reasons.items() if why not in passive)})

    def _place(self, placement: PlacementStrategy | None, on_shed: OnShed | None) -> None:
        """Choose a destination for every bundle shed and note the moves."""
        cluster, snapshot = self._round, self._snapshot
        loads = cluster.broker_loads()
        chosen_by = self._configured() if placement is None else placement
        selection = cluster.selection(loads, chosen_by)
        spaces, of_space = namespaces_of(snapshot.bundles)
        targets, placement_state = cluster.targets(), track_placement(snapshot)
        shed = [
            (place, row, cluster.bundle(row)) for place, rows in self._shedding.rows.items() for row in rows.tolist()
        ]
        if on_shed is not None:  # the shedder plans all of them before the first is placed
            for place, row, bundle in shed:
                on_shed(row, place, bundle)
        for place, row, bundle in shed:
            at = int(cluster.held[row])
            eligible = targets.copy()
            eligible[place] = True  # Pulsar's candidates include the owner; chosen, the bundle stays
            codes = None if placement_state is None else placement_state.codes(np.array([at]), cluster.brokers)[0]
            if codes is not None:
                eligible &= codes == ALLOWED
            namespace = spaces[of_space[at]]
            choice = selection.select(bundle, namespace, eligible)
            if choice.broker is None or choice.broker == place:
                lost = Reason.NO_TARGET if choice.broker is None or not targets.any() else Reason.WOULD_NOT_IMPROVE
                lost = _ruled_out(codes, targets, place) or lost
                self._lost.setdefault(place, Counter())[lost.value] += 1
                self._stays.append(self._stay(at, place, lost))
                continue
            if placement_state is not None:
                placement_state.move(at, int(cluster.brokers[choice.broker]))
            topics = int(snapshot.fields[at, _TOPICS])
            selection.note_placement(bundle, namespace, choice.broker, topics)
            self._moves.append(self._move(at, row, place, choice.broker, loads))
        self._remember(chosen_by)

    def _configured(self) -> PlacementStrategy:
        """The placement strategy that the knob names, with what it kept; the default for any other name."""
        knobs, draw = self._round.knobs, self._round.draw(self._name)
        name = knobs.load_balancer_load_placement_strategy.rpartition(".")[2]
        if name == LeastResourceUsageWithWeight.__name__:
            return LeastResourceUsageWithWeight(knobs, draw, self._before.get("placement_history"))
        if name == RoundRobinBrokerSelector.__name__:
            kept = self._before.get("round_robin", {})
            return RoundRobinBrokerSelector(kept.get("count", 0), kept.get("order", ()))
        return LeastLongTermMessageRate(knobs, draw)

    def _remember(self, placement: PlacementStrategy) -> None:
        if isinstance(placement, LeastResourceUsageWithWeight):
            placement.on_active_brokers_change(self._round.load.brokers)
            self._placement_memory = {"placement_history": dict(placement.history)}
        elif isinstance(placement, RoundRobinBrokerSelector):
            self._placement_memory = {"round_robin": {"count": placement.count, "order": list(placement.order)}}

    def _move(self, at: int, row: int, source: int, target: int, loads: BrokerLoads) -> Decision:
        load = self._round.load
        evidence = {
            **self._seen(source),
            "short_msg_rate": round(float(load.short_msg_rate[row]) * 1000),
            "short_throughput": round(float(load.short_throughput[row])),
            "target_usage": quantise(load.usage[target]),
            "target_long_msg_rate": round(float(loads.long_msg_rate[target]) * 1000),
            "cost": self._predicted.cost(at),
        }
        ends = int(self._round.brokers[source]), int(self._round.brokers[target])
        before = [self._predicted.score(end) for end in ends]
        self._predicted.move(at, *ends)
        after = [self._predicted.score(end) for end in ends]
        cause = self._shedding.cause
        return make_transfer(
            self._snapshot, at, ends, before, after, reason=cause, strategy=self._name, evidence=evidence
        )

    def _stay(self, at: int, source: int, reason: Reason) -> Decision:
        """A bundle that was shed in vain: there is no destination, or it is the owner."""
        snapshot = self._snapshot
        return Decision(
            id="",
            kind=DecisionKind.SKIP,
            label=Label.SKIP,
            reason=reason,
            bundle=snapshot.bundles[at],
            source=self._round.load.brokers[source],
            epoch=int(snapshot.epoch[at]),
            strategy=self._name,
            evidence={**self._seen(source), "destination_is_owner": reason is Reason.WOULD_NOT_IMPROVE},
        )

    def _skip(self, at: int, reason: Reason) -> Decision:
        place = int(self._round.place[at])
        evidence = self._seen(place) if place >= 0 else {"score": int(self._snapshot.score[at])}
        lost = self._lost.get(place) if place >= 0 else None
        if lost:
            evidence = {**evidence, "bundles_lost": dict(lost)}
        return skip_decision(self._snapshot.brokers[at], reason, self._name, evidence)

    def _reason(self, at: int, moved_from: set[str | None]) -> Reason:
        blocked = blocked_reason(self._snapshot, at)
        if blocked is not None:
            return blocked
        place = int(self._round.place[at])
        if self._snapshot.brokers[at] in moved_from:
            return self._shedding.cause
        if place in self._lost:
            return Reason(self._lost[place].most_common(1)[0][0])
        return self._shedding.reasons.get(place, Reason.BALANCED)

    def _seen(self, place: int) -> dict[str, Any]:
        """The usage the shedder saw, and what it made of it."""
        return {"usage": quantise(self._round.load.usage[place]), **self._shedding.evidence.get(place, {})}

    def _considered(self) -> Bools:
        """[N] all bundles where something was placed (even distribution counts them), else those looked into."""
        snapshot, cluster = self._snapshot, self._round
        if self._shedding.rows:
            return np.ones(len(snapshot.bundles), bool)
        looked = np.zeros(len(cluster.brokers) + 1, bool)
        looked[list(self._shedding.looked_into)] = True
        looked[-1] = False
        return np.asarray(looked[cluster.place[snapshot.owner]])


def _ruled_out(codes: Ints | None, targets: Bools, place: int) -> Reason | None:
    """The rule of placement that most other targets lost by, if none of them is left."""
    if codes is None:
        return None
    others = targets.copy()
    others[place] = False
    lost = codes[others]
    if not len(lost) or (lost == ALLOWED).any():
        return None
    return REASONS[int(np.argmax(np.bincount(lost)))]
