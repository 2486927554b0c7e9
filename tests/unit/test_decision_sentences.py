"""Decisions as sentences: who is hot, whose broker is gone, and what another strategy would have done."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.observed import Adoption, AdoptionPhase
from controller.operations.adoption_text import adoption_sentence
from controller.ui.views.words import sentences_of

BUNDLE = "t/n/0x00000000_0x10000000"
MOVE: dict[str, Any] = {
    "decision_id": "17-0000", "kind": "transfer", "reason": "102_above_mean", "bundle": BUNDLE, "source": "b1",
    "target": "b4", "boundary": None, "challenger": False, "outcome": "executed", "order": None, "before": {},
    "after": {}, "evidence": {"score": 6_110, "mean": 3_530},
}  # fmt: skip
ASSIGN = {**MOVE, "kind": "assign", "reason": "104_orphaned", "source": None, "evidence": {}}
SPLIT = {**MOVE, "kind": "split", "target": None, "boundary": 2**27, "reason": "115_split_to_balance", "evidence": {}}
LEFT = {**MOVE, "kind": "skip", "bundle": None, "target": None, "reason": "100_balanced", "outcome": None}
MADE_UP = {"decision_id": None, "challenger": True, "outcome": None}  # by "what would it have done"


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (MOVE, f"Moved {BUNDLE} from b1 to b4: b1 was at 61.1 % against 35.3 % on average."),
        ({**MOVE, "evidence": {}}, f"Moved {BUNDLE} from b1 to b4: b1 was above the mean."),
        ({**MOVE, "evidence": {"gap_points": 20, "partner": "b4"}}, f"Moved {BUNDLE} from b1 to b4: b1 was 20.0 points "
                                                                    "above b4."),
        (
            {**MOVE, "reason": "101_overloaded", "evidence": {"limits": {"topics": 1_100}}},
            f"Moved {BUNDLE} from b1 to b4: b1 had topics at 110 % of its limit.",
        ),
        ({**MOVE, "reason": "101_overloaded"}, f"Moved {BUNDLE} from b1 to b4: b1 was at 61.1 % against 35.3 % on "
                                               "average: overloaded."),
        ({**MOVE, "reason": "107_drained"}, f"Moved {BUNDLE} from b1 to b4: b1 was being emptied."),
        ({**MOVE, "reason": "106_commanded"}, f"Moved {BUNDLE} from b1 to b4: an operator's command."),
        (ASSIGN, f"Assigned {BUNDLE} to b4: the broker that had it is gone."),
        (LEFT, "Took nothing off b1: not hot: at 61.1 % against 35.3 % on average."),
        ({**MOVE, "outcome": "301_shadow_mode"}, f"Wanted to move {BUNDLE} from b1 to b4: b1 was at 61.1 % against "
                                                 "35.3 % on average."),
        ({**MOVE, **MADE_UP}, f"Would have moved {BUNDLE} from b1 to b4: b1 was at 61.1 % against 35.3 % on average."),
        ({**SPLIT, **MADE_UP}, f"Would have split {BUNDLE} at 0x08000000: too big to move whole: cut, so that a part "
                               "can move."),
        ({**LEFT, **MADE_UP}, "Would have taken nothing off b1: not hot: at 61.1 % against 35.3 % on average."),
        ({**LEFT, **MADE_UP, "bundle": BUNDLE}, f"Would have left {BUNDLE} on b1: not hot: at 61.1 % against 35.3 % on "
                                                "average."),
    ],
)  # fmt: skip
def test_a_sentence_says_whom_its_reason_is_about(decision: dict[str, Any], said: str) -> None:
    assert sentences_of(decision)[0] == said


def test_only_a_challenger_that_decided_is_said_to_have() -> None:
    challenger = {**MOVE, "challenger": True, "outcome": None}
    assert "A challenger decided it, so nothing was carried out." in sentences_of(challenger)
    assert len(sentences_of({**MOVE, **MADE_UP})) == 1


@pytest.mark.parametrize(
    ("adoption", "said"),
    [
        (None, "Nobody is known to have adopted the cluster."),
        (
            Adoption(AdoptionPhase.ADOPTED, {}, 9, 60_000, "anna", "try it"),
            "The cluster was adopted by anna at 1970-01-01 00:01:00 UTC: try it.",
        ),
        (
            Adoption(AdoptionPhase.RELEASED, {}, 9, 60_000),
            "The cluster was released at 1970-01-01 00:01:00 UTC.",
        ),
        (
            Adoption(AdoptionPhase.RELEASING, {}, 9, 60_000, "anna"),
            "The cluster is being released (`ballast pulsar release --apply` goes on with it) by anna at 1970-01-01 "
            "00:01:00 UTC.",
        ),
    ],
)  # fmt: skip
def test_who_is_in_charge_of_a_cluster_is_a_sentence(adoption: Adoption | None, said: str) -> None:
    assert adoption_sentence(adoption) == said


def test_a_move_whose_plan_was_approved_is_told_as_made() -> None:
    decided = {"phase": "approved", "who": "anna", "why": "looked fine", "decided_ms": 60_000}
    plan = {"part": "move", "round_id": "17", **decided, "ended": "carried_out", "outcome": "executed"}
    waited = {**MOVE, "outcome": "210_awaiting_approval", "plan": plan}
    first, became = sentences_of(waited)
    assert first.startswith(f"Moved {BUNDLE} from b1 to b4")
    assert became == "anna approved the plan at 1970-01-01 00:01:00 UTC (looked fine), and this was carried out."
    moved_on = {**waited, "plan": {**plan, "outcome": "408_state_has_moved_on"}}
    assert sentences_of(moved_on)[0].startswith(f"Wanted to move {BUNDLE}")
