"""What the step itself decides, as decisions with evidence: where bundles go that a round did not send anywhere, and
splits that agents propose.

All of a batch are one attempt, named by the entries that they cause; one that causes none (a proposal that is refused)
is named by the batch's offsets. Their round id is `step-<instance>-<batch>`, and no row of `rounds` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from controller.domain.decision import EXECUTED, OF_STEP, Decision, DecisionKind, Label, Reason
from controller.domain.ids import Session
from controller.domain.ownership import Ownership
from controller.policy.placement.loads import ExpectedLoads
from controller.policy.placement.preference import Candidate


@dataclass(frozen=True, slots=True)
class Choice:
    """Who gets a bundle. `by`: load, count or pin; `candidates`: the brokers compared, the chosen one first."""

    session: Session
    by: str
    candidates: Sequence[Candidate] = ()


Scores = Mapping[str, float]


class Cause(NamedTuple):
    """What an entry names: the decision behind it, and the attempt with which that was written."""

    decision_id: str
    attempt_id: str


@dataclass(slots=True)
class StepEvidence:
    """The decisions of one batch, and what became of each (decision id -> outcome)."""

    instance: str
    batch_id: int
    attempt_id: str
    at_ms: int
    decisions: list[Decision] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)

    @property
    def round_id(self) -> str:
        """What stands in the place of a round's id."""
        return f"{OF_STEP}{self.instance}-{self.batch_id}"

    @property
    def unnamed(self) -> bool:
        """Whether no decision was carried out, so that no entry of its own names the attempt."""
        return EXECUTED not in self.outcomes.values()

    def add(self, kind: DecisionKind, reason: Reason, record: Ownership, outcome: str = EXECUTED, **more: Any) -> Cause:
        """One more decision about a bundle as it stands. `more`: other fields of `Decision`."""
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
        self.decisions.append(decision)
        self.outcomes[decision.id] = outcome
        return Cause(decision.id, self.attempt_id)


def evidence_of(choice: Choice, loads: ExpectedLoads | None, why_no_loads: str, bundle: str) -> dict[str, Any]:
    """What a placement hung on: by what it went, and the best brokers, each with the rule that it lost by."""
    told: dict[str, Any] = {"placed_by": choice.by}
    if loads is not None:
        told |= {"loads_of_round": loads.round_id, "load_known": loads.known(bundle)}
    elif choice.by != "pin":
        told["loads"] = why_no_loads
    if choice.candidates:
        told["candidates"] = [one.to_evidence(choice.candidates[0]) for one in choice.candidates]
    return told


def predicted(choice: Choice, loads: ExpectedLoads | None, record: Ownership) -> tuple[Scores, Scores]:
    """Scores before and after a placement: of the target, and of the source that it leaves."""
    if loads is None:
        return {}, {}
    cost, target = loads.cost(str(record.bundle)), choice.session.broker
    before, after = {target: loads.standing(target).score}, {target: loads.after(target, cost)}
    if record.by is not None:
        source = record.by.broker
        before[source], after[source] = loads.standing(source).score, loads.after(source, tuple(-c for c in cost))
    return before, after
