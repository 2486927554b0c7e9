"""The Prometheus metrics of rounds: how balanced the cluster is, what rounds decide and why, what their moves bring.

Counted once a round, when it is journaled, with work that grows with brokers and decisions and never with bundles.
Moves of a plan that waits for an operator are counted as refused when it begins to wait and when it is declined, and
never again while later rounds stand behind it; once they are approved, they are counted like a round's. Challengers'
rounds move nothing and are not counted.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections import deque
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.control.context import Evidence
from controller.control.step_decisions import StepEvidence
from controller.domain.decision import EXECUTED, PLACEMENT, PROPOSAL, Decision, DecisionKind, Reason
from controller.domain.entries import Entry, Kind
from controller.operations.balance_score import balance_score_of
from controller.policy.usage.judged import Judged
from controller.process.metrics import BrokerGauge
from controller.service.rounds.pulsar_metrics import PulsarMetrics

MOVES = (DecisionKind.TRANSFER, DecisionKind.UNLOAD)
OF_STEP_ITSELF = (PLACEMENT, PROPOSAL)  # in place of a strategy; all other decisions of a step are a plan's
_OF_PLANS = frozenset({Reason.AWAITING_APPROVAL.value, Reason.PLAN_DECLINED.value})  # outcomes behind a kept plan
JUDGED_KEPT = 50  # ends of moves behind the mean reliefs
INSIDE, OUTSIDE = "inside", "outside"


class RoundMetrics:
    """Written by the thread of the batches, and `count_judged` by the one that listens to the worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        r = registry
        self.balance = Gauge(
            "ballast_balance_score", "100: brokers equally loaded; near 0: one has all the load", registry=r
        )
        self.scores = BrokerGauge("ballast_broker_score", "Load of the worst resource, fraction of its limit", r)
        self.moves = Counter("ballast_round_moves", "Moves that rounds have begun", ["reason"], registry=r)
        self.splits = Counter("ballast_round_splits", "Splits that rounds have begun", ["reason"], registry=r)
        self.refused = Counter(
            "ballast_round_refused",
            "Moves and splits that were decided and not begun; a waiting plan once, and again if declined",
            ["outcome"],
            registry=r,
        )
        self.skips = Counter("ballast_round_skips", "Brokers that a round took nothing off", ["reason"], registry=r)
        self.judged = Counter(
            "ballast_moves_judged", "Ends of moves, by how usage changed against the prediction", ["result"], registry=r
        )
        self.predicted = Gauge(
            "ballast_moves_predicted_relief_ratio", "CPU that moves were to take off a source, of its limit", registry=r
        )
        self.realised = Gauge(
            "ballast_moves_realised_relief_ratio", "CPU that the same moves did take off, of its limit", registry=r
        )
        self.pulsar = PulsarMetrics(r)
        self._reliefs: deque[tuple[float, float]] = deque(maxlen=JUDGED_KEPT)  # predicted, realised
        for gauge in (self.balance, self.predicted, self.realised):
            gauge.set(math.nan)  # unknown before the first round

    def count_round(self, evidence: Evidence) -> None:
        """Count a journaled round."""
        result = evidence.result
        if result.challenger:
            return
        scores = {str(row["broker"]): float(row["score"]) for row in result.scores if row.get("score") is not None}
        comparable = [scores[row["broker"]] for row in result.scores if row.get("eligible") and row["broker"] in scores]
        score = balance_score_of(comparable)
        self.balance.set(math.nan if score is None else score)
        self.scores.show(scores)
        begun = [decision for decision in result.decisions if evidence.outcomes.get(decision.id) == EXECUTED]
        _count(self.moves, Tally(one.reason.value for one in begun if one.kind in MOVES))
        _count(self.splits, Tally(one.reason.value for one in begun if one.kind is DecisionKind.SPLIT))
        counted_before = _OF_PLANS if evidence.behind else frozenset[str]()
        not_begun = (found for found in evidence.outcomes.values() if found not in (EXECUTED, Reason.IN_TURN.value))
        _count(self.refused, Tally(found for found in not_begun if found not in counted_before))
        _count(self.skips, Tally(one.reason.value for one in result.decisions if _is_skip(one)))
        self.pulsar.count_round(begun, comparable)

    def count_declined(self, entries: Sequence[Entry]) -> None:
        """Count the moves of plans that an operator has declined, by the entries of a commit."""
        dropped = sum(int(entry.data.get("dropped", 0)) for entry in entries if entry.kind is Kind.PLAN)
        _count(self.refused, Tally({Reason.PLAN_DECLINED.value: dropped} if dropped else {}))

    def count_approved(self, decided: StepEvidence) -> None:
        """Count the moves of a round that waited for an operator, when a batch carries them out or leaves them out."""
        approved = [one for one in decided.decisions if one.strategy not in OF_STEP_ITSELF]
        begun = [one for one in approved if decided.outcomes[one.id] == EXECUTED]
        _count(self.moves, Tally(one.reason.value for one in begun))
        _count(self.refused, Tally(found for one in approved if (found := decided.outcomes[one.id]) != EXECUTED))
        self.pulsar.count_round(begun, ())

    def count_judged(self, judged: Sequence[Judged]) -> None:
        """Count ends of moves that can be judged now, or never. Reliefs are those of sources."""
        for end in judged:
            if end.realised is None:
                self.judged.labels(end.why_not).inc()
                continue
            self.judged.labels(INSIDE if end.inside else OUTSIDE).inc()
            if end.predicted < 0:
                self._reliefs.append((-end.predicted, -end.realised))
        if self._reliefs:
            predicted, realised = zip(*self._reliefs, strict=True)
            self.predicted.set(sum(predicted) / len(predicted))
            self.realised.set(sum(realised) / len(realised))


def _is_skip(decision: Decision) -> bool:
    return decision.kind is DecisionKind.SKIP


def _count(counter: Counter, found: Tally[str]) -> None:
    for value, times in found.items():
        counter.labels(value).inc(times)
