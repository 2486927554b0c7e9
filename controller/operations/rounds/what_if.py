"""What another strategy would have decided in a stored round, as rows like those of the table `decisions`.

If it decided that round beside the strategy in charge, as a challenger, that plan is the answer, because it was made
with the strategy's own memory. Otherwise the strategy decides the stored rounds up to that one, beginning without
memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.domain.decision import Decision, DecisionKind
from controller.domain.reasons.words import describe_decision_row
from controller.operations.evidence_view import EvidenceView
from controller.operations.plans.kept_plans import MOVE_KINDS
from controller.operations.reading import NothingNamed
from controller.policy.plan import Plan
from controller.policy.replay import decide_as
from controller.policy.strategies import get

WARM_UP = 3  # earlier rounds that a strategy sees before the one it is asked about
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A plan for a stored round.

    `of_round`: the row of the strategy that was in charge. `decisions`: rows, in their order. `scores`: broker -> score
    at the round's start, unknown ones left out. `verdicts`: broker -> its reason code. `stored`: decided at that time.
    """

    of_round: Row
    strategy: str
    rules: int
    decisions: Sequence[Row]
    scores: Mapping[str, float]
    verdicts: Mapping[str, str]
    stored: bool
    note: str

    @property
    def actions(self) -> list[Row]:
        """What it would do, in order."""
        return [row for row in self.decisions if row["kind"] != DecisionKind.SKIP.value]

    def count(self) -> Row:
        """The figures of a row of `rounds`: moves, splits, skips."""
        kinds = [row["kind"] for row in self.decisions]
        moves = sum(kind in MOVE_KINDS for kind in kinds)
        return {"moves": moves, "splits": kinds.count("split"), "skips": kinds.count("skip")}

    def scores_after(self) -> dict[str, float]:
        """The scores at the round's start, with what each action is predicted to change. Strategies judge brokers by
        estimates of their own: only what they expect of a move compares with another's."""
        after, exchanged = dict(self.scores), set()
        for row in self.actions:
            if row["evidence"].get("swapped_with") in exchanged:
                continue  # both halves of an exchange tell of the whole
            exchanged.add(row["bundle"])
            for broker, score in row["after"].items():
                after[broker] = max(0.0, after.get(broker, 0.0) + score - row["before"].get(broker, 0.0))
        return after


def plan_in_charge(view: EvidenceView, round_id: str) -> Alternative:
    """The plan that the strategy in charge made. Raises NothingNamed."""
    leading = _leading(view)
    row = leading[_place_of(leading, round_id)]
    return _stored_plan(view, row, row, "")


def plan_by(view: EvidenceView, round_id: str, strategy: str) -> Alternative:
    """The plan of this strategy. Raises NothingNamed, ConfigError for an unknown strategy, BadRecord."""
    name = get(strategy).name
    leading = _leading(view)
    place = _place_of(leading, round_id)
    of_round = leading[place]
    if name == of_round["strategy"]:
        return _stored_plan(view, of_round, of_round, f"{name} was in charge of this round: this is what it decided.")
    beside = [r for r in view.rounds() if r["round_id"] == round_id and r["challenger"] and r["strategy"] == name]
    if beside:
        note = f"{name} was a challenger in this round: this is what it decided then, with a memory of its own."
        return _stored_plan(view, of_round, beside[0], note)
    chosen = list(reversed(leading[place : place + WARM_UP + 1]))  # oldest first
    stored = view.inputs([row["attempt_id"] for row in chosen], chosen[0]["wall_ms"], chosen[-1]["wall_ms"])
    seen = [stored[row["attempt_id"]] for row in chosen if row["attempt_id"] in stored]
    note = (
        f"{name} saw this round and {len(seen) - 1} before it, began without memory, and moved nothing in between. It "
        f"saw the bundles that {of_round['strategy']} had considered: the stored round names no others."
    )
    return _made_plan(of_round, name, decide_as(seen, name), note)


def _leading(view: EvidenceView) -> list[Row]:
    return [row for row in view.rounds() if not row["challenger"]]


def _place_of(leading: Sequence[Row], round_id: str) -> int:
    for at, row in enumerate(leading):
        if row["round_id"] == round_id:
            return at
    raise NothingNamed(f"no round is named {round_id}: `ballast rounds` lists those that are kept")


def _stored_plan(view: EvidenceView, of_round: Row, row: Row, note: str) -> Alternative:
    found = view.decisions(round_id=row["round_id"], from_ms=row["at_ms"], up_to_ms=row["at_ms"])
    scores = view.scores(row)
    return Alternative(
        of_round,
        row["strategy"],
        row["rules"],
        [decision for decision in found if decision["attempt_id"] == row["attempt_id"]],
        {score["broker"]: score["score"] for score in scores if score["score"] is not None},
        {score["broker"]: score["reason"] or "" for score in scores},
        stored=True,
        note=note,
    )


def _made_plan(of_round: Row, name: str, plan: Plan, note: str) -> Alternative:
    scores = plan.outcome.scores
    return Alternative(
        of_round,
        name,
        get(name).rules,
        [_row_of(decision, of_round, name) for decision in plan.decisions],
        {str(score["broker"]): score["score"] for score in scores if score.get("score") is not None},
        {str(score["broker"]): str(score.get("reason") or "") for score in scores},
        stored=False,
        note=note,
    )


def _row_of(found: Decision, of_round: Row, strategy: str) -> Row:
    """A decision that was never stored, as a row of the table would be."""
    plain = json.loads(json.dumps([found.evidence, found.before, found.after], default=lambda value: value.item()))
    row: Row = {
        "decision_id": None,
        "round_id": of_round["round_id"],
        "at_ms": of_round["at_ms"],
        **{name: getattr(found, name).value for name in ("kind", "label", "reason")},
        "band": found.reason.band,
        **{name: getattr(found, name) for name in ("bundle", "source", "target", "epoch", "boundary")},
        "strategy": strategy,
        "challenger": True,
        "outcome": None,
        **dict(zip(("evidence", "before", "after"), plain, strict=True)),
    }
    return {**row, "reason_words": describe_decision_row(row), "outcome_words": None}
