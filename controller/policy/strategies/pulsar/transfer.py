"""Strategy `transfer`: Pulsar's TransferShedder, which chooses its own targets and swaps bundles.

Surprise, kept: a cycle has one reason for the whole cluster, so a single broker that cools down or is silent stops all
of them, and every broker that gives nothing away carries that reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.base import FROM_PULSAR, StrategyOutcome, score_rows
from controller.policy.strategies.decision_log import skip_decision
from controller.policy.strategies.pulsar.extensible_round import ExtensibleRound, Unloaded
from controller.policy.strategies.pulsar.predicted_scores import PredictedScores
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Snapshot
from controller.pulsar.reasons import UnloadReason
from controller.pulsar.shedding.transfer import Outcome, Unload, find_bundles_for_unloading, scheduler_runs

_REASONS = {
    UnloadReason.OVERLOADED: Reason.OVERLOADED,
    UnloadReason.UNDERLOADED: Reason.UNDERLOADED,
    UnloadReason.HIT_COUNT: Reason.HIT_COUNT,
    UnloadReason.NO_BUNDLES: Reason.NO_BUNDLES,
    UnloadReason.COOL_DOWN: Reason.GRACE_PERIOD,
    UnloadReason.OUTDATED_DATA: Reason.OUTDATED_LOAD_DATA,
    UnloadReason.NO_LOAD_DATA: Reason.NO_LOAD_DATA,
    UnloadReason.NO_BROKERS: Reason.NO_BROKERS,
}


class Transfer:
    """See `controller/pulsar/shedding/transfer.py`."""

    name = "transfer"
    rules = 1
    traits = FROM_PULSAR

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `hits`, cycles running in which the cluster was uneven; `averages` by broker; `recently_unloaded`."""
        knobs, hits = settings.pulsar, int(memory.get("hits", 0))
        cluster = ExtensibleRound(snapshot, memory, knobs)
        if scheduler_runs(knobs, is_channel_owner=True, available_brokers=len(cluster.brokers)):
            outcome = find_bundles_for_unloading(cluster.cluster(), hits, knobs)
            idle = None
        else:
            switched_on = knobs.load_balancer_enabled and knobs.load_balancer_shedding_enabled
            outcome, idle = Outcome((), None, hits), Reason.NO_TARGET if switched_on else Reason.SWITCHED_OFF
        return _Decisions(cluster, outcome, idle).outcome()


class _Decisions:
    """One cycle as decisions, skips, scores and memory."""

    def __init__(self, cluster: ExtensibleRound, outcome: Outcome, idle: Reason | None) -> None:
        """`idle`: why Pulsar does not even ask the shedder, if it does not."""
        self._round, self._cycle, self._idle = cluster, outcome, idle
        self._snapshot = cluster.snapshot
        self._predicted = PredictedScores(self._snapshot)

    def outcome(self) -> StrategyOutcome:
        snapshot, cycle = self._snapshot, self._cycle
        moves = [self._move(unload) for unload in cycle.decisions]
        causes = {move.source: move.reason for move in reversed(moves)}  # of several the first
        reasons = {at: causes.get(name) or self._reason(at) for at, name in enumerate(snapshot.brokers)}
        skips = [self._skip(at, reasons[at]) for at, name in enumerate(snapshot.brokers) if name not in causes]
        sources = np.array([name in causes for name in snapshot.brokers], bool)
        hits = np.where(snapshot.eligible, cycle.hits, 0).astype(np.int64)  # Pulsar counts for the whole cluster
        rows = score_rows(snapshot, _units(cycle.average), hits, sources, reasons)
        gone = {move.bundle: Unloaded(snapshot.at_ms, move.source, move.target) for move in cycle.decisions}
        memory = {"hits": cycle.hits, **self._round.kept(gone)}
        return StrategyOutcome((*moves, *skips), rows, memory, self._round.considered())

    def _move(self, unload: Unload) -> Decision:
        snapshot, index = self._snapshot, self._round.index
        at = snapshot.place_of(unload.bundle)
        assert at is not None  # top bundles come from the snapshot
        source, target = index[unload.source], None if unload.target is None else index[unload.target]
        before, after = {}, {}
        if target is not None:
            ends = (unload.source, source), (unload.target or "", target)
            before = {name: self._predicted.score(end) for name, end in ends}
            self._predicted.move(at, source, target)
            after = {name: self._predicted.score(end) for name, end in ends}
        evidence = {**self._seen(unload.source), "cost": self._predicted.cost(at)}
        if unload.target is not None:
            evidence["target_average"] = _units(self._round.averages[unload.target].load)
        return Decision(
            id="",
            kind=DecisionKind.UNLOAD if target is None else DecisionKind.TRANSFER,
            label=Label.SUCCESS,
            reason=_REASONS[unload.reason],
            bundle=unload.bundle,
            source=unload.source,
            target=unload.target,
            epoch=int(snapshot.epoch[at]),
            strategy=Transfer.name,
            evidence=evidence,
            before=before,
            after=after,
        )

    def _skip(self, at: int, reason: Reason) -> Decision:
        name = self._snapshot.brokers[at]
        verdict = self._cycle.verdict
        evidence = {"score": int(self._snapshot.score[at]), **self._seen(name)}
        if verdict is not None:
            evidence["pulsar"] = f"{verdict[0].value}/{verdict[1].value}"
        return skip_decision(name, reason, Transfer.name, evidence)

    def _reason(self, at: int) -> Reason:
        """Why this broker gives nothing away."""
        block = int(self._snapshot.source_block[at])
        if block != ALLOWED:
            return REASONS[block]
        if self._idle is not None:
            return self._idle
        verdict = self._cycle.verdict
        if verdict is None or (verdict[1] is UnloadReason.HIT_COUNT and self._cycle.hits == 0):
            return Reason.BALANCED
        return _REASONS[verdict[1]]

    def _seen(self, broker: str) -> dict[str, Any]:
        """What the cycle judged by, fractions in 1 / SCORE_UNIT; all brokers share mean, spread and hits."""
        average = self._round.averages.get(broker)
        cycle = self._cycle
        seen = {"mean": _units(cycle.average), "std": _units(cycle.std), "std_after": _units(cycle.std_after)}
        seen["hits"] = cycle.hits
        return seen if average is None else {"average": _units(average.load), **seen}


def _units(fraction: float) -> int:
    return round(fraction * SCORE_UNIT) if np.isfinite(fraction) else -1
