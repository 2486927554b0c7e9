"""Decisions of the step itself, with evidence: placements outside of rounds, and splits that agents propose.

All decisions of a batch are one attempt, which their entries name; if there are none, because every proposal was
refused, the batch's offsets entry names it. Their round id is `step-<instance>-<batch>`, which no row of `rounds` has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from controller.domain.decision import EXECUTED, OF_STEP, Decision, DecisionKind, Label, Reason
from controller.domain.ids import Session
from controller.domain.ownership import Ownership
from controller.policy.placement.loads import ExpectedLoads
from controller.policy.placement.preference import Candidate


@dataclass(frozen=True, slots=True)
class Choice:
    """The session that gets a bundle. `by`: load, count or pin; `candidates`: the brokers compared, the chosen one
    first."""

    session: Session
    by: str
    candidates: Sequence[Candidate] = ()


Scores = Mapping[str, float]


class Cause(NamedTuple):
    """The decision behind an entry, and the attempt with which it was written."""

    decision_id: str
    attempt_id: str


@dataclass(slots=True)
class StepEvidence:
    """The decisions of one batch and their outcomes (decision id -> outcome)."""

    instance: str
    batch_id: int
    attempt_id: str
    at_ms: int
    decisions: list[Decision] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)

    @property
    def round_id(self) -> str:
        """The id in place of a round's."""
        return f"{OF_STEP}{self.instance}-{self.batch_id}"

    @property
    def unnamed(self) -> bool:
        """Whether no decision was carried out, so that no ownership entry names the attempt."""
        return EXECUTED not in self.outcomes.values()

    def add(self, kind: DecisionKind, reason: Reason, record: Ownership, outcome: str = EXECUTED, **more: Any) -> Cause:
        """Add a decision about a bundle in its present state. `more`: other fields of `Decision`."""
        decision = Decision(
            id=f"{self.round_id}-{len(self.decisions):04d}",
            kind=kind,
            label=Label.SUCCESS if outcome == EXECUTED else Label.SKIP,
            reason=reason,
            bundle=str(record.bundle),
            source=record.by.broker if record.by is not None else None,
            epoch=record.epoch,
            **more,
        )
        return self._keep(decision, outcome)

    def adopt(self, decision: Decision, outcome: str, evidence: Mapping[str, Any]) -> Cause:
        """Add a decision that a round has made, as one of this batch."""
        label = Label.SUCCESS if outcome == EXECUTED else Label.SKIP
        number = f"{self.round_id}-{len(self.decisions):04d}"
        return self._keep(replace(decision, id=number, label=label, evidence=evidence), outcome)

    def _keep(self, decision: Decision, outcome: str) -> Cause:
        self.decisions.append(decision)
        self.outcomes[decision.id] = outcome
        return Cause(decision.id, self.attempt_id)


def describe_choice(choice: Choice, loads: ExpectedLoads | None, why_no_loads: str, bundle: str) -> dict[str, Any]:
    """The evidence of a placement: its basis, and the best candidates, each with the rule by which it lost."""
    evidence: dict[str, Any] = {"placed_by": choice.by}
    if loads is not None:
        evidence |= {"loads_of_round": loads.round_id, "load_known": loads.known(bundle)}
    elif choice.by != "pin":
        evidence["loads"] = why_no_loads
    if choice.candidates:
        evidence["candidates"] = [one.to_evidence(choice.candidates[0]) for one in choice.candidates]
    return evidence


def predict_scores(choice: Choice, loads: ExpectedLoads | None, record: Ownership) -> tuple[Scores, Scores]:
    """Scores of target and source before and after a placement."""
    if loads is None:
        return {}, {}
    cost, target = loads.cost(str(record.bundle)), choice.session.broker
    before, after = {target: loads.standing(target).score}, {target: loads.after(target, cost)}
    if record.by is not None:
        source = record.by.broker
        before[source], after[source] = loads.standing(source).score, loads.after(source, tuple(-c for c in cost))
    return before, after
