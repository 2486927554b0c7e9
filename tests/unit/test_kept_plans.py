"""What became of plans that waited for an operator, folded from the journal, and in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.operations.plans.kept_plans import BEHIND, CARRIES_OUT, MOVE, find_part, fold_plans
from controller.operations.plans.plan_words import entry_text, outcome_text, part_sentence, plan_text
from controller.testbed.demo.calm import unrest
from controller.testbed.demo.screen.events import plan_line
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.plan_driver import ROUND, bundles, decide, move, running
from tests.unit.control.step_driver import StepDriver, with_settings
from tests.unit.control.test_approvals import order

Row = dict[str, Any]
STALE = Reason.STALE_DECISION.value
WAITS = Reason.AWAITING_APPROVAL.value


def waiting(**settings: Any) -> StepDriver:
    """Two moves wait."""
    driver = running(**settings)
    decide(driver, move(driver, 0), move(driver, 1, "c:1"))
    return driver


def told(driver: StepDriver) -> list[Entry]:
    """The entries about plans; one was written in every second since 1970."""
    return [replace(entry, at_ms=1_000 * entry.seq) for entry in driver.journal if entry.kind is Kind.PLAN]


def plan(driver: StepDriver) -> Row:
    (found,) = fold_plans(told(driver))
    return found


def part(driver: StepDriver, at: int = 0, **more: Any) -> Row:
    decision = {"decision_id": f"d{at}", "round_id": ROUND, "challenger": False, "outcome": WAITS, "evidence": {}}
    found = find_part(fold_plans(told(driver)), {**decision, **more}, driver.state.seq)
    assert found is not None
    return found


def said(driver: StepDriver, at: int = 0) -> str:
    """The sentence about a move of the plan, without the times."""
    return " ".join(word for word in part_sentence(part(driver, at)).split() if not word[0].isdigit() and word != "UTC")


def test_a_plan_waits_until_somebody_decides() -> None:
    driver = waiting()
    found = plan(driver)
    line = plan_line(told(driver)[0], lambda round_id: f"decide about {round_id}")
    assert line.startswith(f"plan of round {ROUND}: 2 moves wait for approval")
    assert line.endswith(f"; decide about {ROUND}")
    kept = f"the plan of round {ROUND} waits for an approval, and other moves are held back meanwhile"
    assert unrest([], [], plan=driver.state.plan)[0] == kept
    assert (found["round_id"], found["phase"], found["ended"], found["who"]) == (ROUND, "waiting", None, "")
    assert [one["decision_id"] for one in found["moves"]] == ["d0", "d1"]
    assert {one["outcome"] for one in found["moves"]} == {None}
    assert plan_text(found).startswith("2 moves wait for an operator's approval since 1970-01-01")
    assert said(driver) == "It is not carried out yet: the plan waits for an operator's approval."
    assert outcome_text(part(driver)) == ""


def test_an_approved_plan_names_who_approved_and_what_was_carried_out_or_left_out() -> None:
    driver = waiting()
    driver.own(driver.sessions["c:1"], bundles(driver)[0])
    driver.command("approve", round=ROUND)
    found = plan(driver)
    assert (found["phase"], found["ended"], found["who"], found["why"]) == ("approved", "carried_out", "tester", "test")
    assert found["since_ms"] < found["decided_ms"] < found["ended_ms"]
    assert [one["outcome"] for one in found["moves"]] == [STALE, "executed"]
    text = plan_text(found)
    assert text.startswith("approved by tester at 1970-01-01 ")
    assert text.endswith(
        " UTC (test): 1 of 2 moves carried out; 1 left out: things have changed since it was decided"
    ), text
    assert said(driver, 1) == "tester approved the plan at (test), and this was carried out."
    assert said(driver) == (
        "tester approved the plan at (test), but this was left out: things have changed since it was decided."
    )
    assert outcome_text(part(driver, 1)) == "executed, approved by tester"
    assert outcome_text(part(driver)) == f"{STALE}, approved by tester"


def test_a_declined_plan_stays_declined_when_it_is_forgotten() -> None:
    driver = waiting()
    driver.command("decline", round=ROUND)
    kept = f"the plan of round {ROUND} was declined by tester, which holds others of its size back for a while"
    assert unrest([], [], plan=driver.state.plan)[0] == kept
    line = plan_line(told(driver)[-1], lambda round_id: "decide")
    assert line == f"plan of round {ROUND}: declined by tester: test", "nothing is left to decide"
    driver.wait(driver.settings.approval_ms + 10_000, step_ms=5_000)
    assert driver.state.plan is None
    found = plan(driver)
    assert (found["phase"], found["ended"], found["who"]) == ("declined", "expired", "tester")
    assert plan_text(found).startswith("declined by tester at 1970-01-01 ")
    assert plan_text(found).endswith(" UTC (test)")
    assert said(driver) == "It was not carried out: tester declined the plan at (test)."
    assert outcome_text(part(driver)) == "declined by tester"


def test_an_expired_plan_is_said_to_have_expired() -> None:
    driver = waiting()
    driver.wait(driver.settings.approval_ms + 10_000, step_ms=5_000)
    assert plan_text(plan(driver)).startswith("expired at 1970-01-01 ")
    assert plan_text(plan(driver)).endswith(" UTC: nobody decided about it")
    assert said(driver) == "It was not carried out: nobody decided about the plan before it expired at UTC."
    assert outcome_text(part(driver)) == "expired"


def test_an_overtaken_plan_is_said_to_have_been() -> None:
    driver = waiting()
    driver.command("override", override="freeze", bundle=str(bundles(driver)[0]))
    assert plan_text(plan(driver)).startswith("overtaken by an override or another strategy at 1970-01-01 ")
    assert outcome_text(part(driver)) == "overtaken"


def test_moves_of_an_approved_plan_may_be_still_to_come_or_come_too_late() -> None:
    driver = observed_driver(with_settings(approve_above=1, orders_in_flight=1))
    decide(driver, *(order(driver, at, "c:1" if at else "b:1") for at in (0, 1)))
    driver.command("approve", round=ROUND)
    assert plan_text(plan(driver)).endswith(" UTC (test): 1 of 2 moves carried out; 1 still to come")
    assert said(driver, 1) == "tester approved the plan at (test); this is still to be carried out."
    assert outcome_text(part(driver, 1)) == "approved by tester, to come"
    driver.command("override", override="freeze", bundle=str(BUNDLES[3]))
    assert driver.state.plan is None
    late = "; 1 not in time: the plan was overtaken by an override or another strategy"
    assert plan_text(plan(driver)).endswith(late)
    assert "but an override or another strategy overtook it before this could be carried out" in said(driver, 1)
    assert outcome_text(part(driver, 1)) == "approved by tester, then overtaken"


def test_moves_of_later_rounds_are_behind_the_plan_that_was_kept() -> None:
    driver = waiting()
    later = {"decision_id": "d2", "round_id": "r10060000"}
    found = part(driver, **later)
    assert (found["part"], found["round_id"]) == (BEHIND, ROUND)
    driver.command("approve", round=ROUND)
    plans = fold_plans(told(driver))
    of_later = {"challenger": False, "outcome": WAITS, "evidence": {}, **later}
    assert find_part(plans, of_later, driver.state.seq + 1) is None, "it had ended"
    behind = find_part(plans, of_later, plans[0]["seq"] + 1)
    assert behind is not None
    assert outcome_text(behind) == f"held back by the plan of {ROUND}"
    text = part_sentence(behind)
    assert text.startswith(
        f"It was not carried out: the plan of round {ROUND} went first, which was approved by tester"
    )


def test_the_decision_that_carries_a_move_out_names_the_round_s() -> None:
    driver = waiting()
    driver.command("approve", round=ROUND)
    step = {"approved_by": "tester", "decision": "d1", "round": ROUND}
    found = part(driver, decision_id="step-i-9-0001", round_id="step-i-9", outcome="executed", evidence=step)
    assert (found["part"], found["decision_id"], found["who"], found["why"]) == (CARRIES_OUT, "d1", "tester", "test")
    assert outcome_text(found) == "executed, approved by tester"
    assert part_sentence(found).startswith(
        f"It is d1 of the plan of round {ROUND}, which was approved by tester at 1970"
    )


def test_what_no_plan_holds_back_has_no_part_in_one() -> None:
    driver = waiting()
    plans, decision = fold_plans(told(driver)), {"decision_id": "d0", "round_id": ROUND, "evidence": {}}
    assert find_part(plans, {**decision, "challenger": True, "outcome": None}, 9) is None
    assert find_part(plans, {**decision, "decision_id": "d9", "challenger": False, "outcome": "executed"}, 9) is None
    assert part(driver)["part"] == MOVE


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("approve", ["2 moves wait", "approved by tester: test", "2 moves carried out"]),
        ("decline", ["2 moves wait", "declined by tester: test"]),
    ],
)
def test_each_entry_is_told_in_words(how: str, words: list[str]) -> None:
    driver = waiting()
    driver.command(how, round=ROUND)
    texts = [entry_text(entry) for entry in told(driver)]
    assert [text[: len(start)] for text, start in zip(texts, words, strict=True)] == words
    assert f"{bundles(driver)[0]} a:1 → b:1" in texts[0]


def test_entries_name_the_moves_that_were_left_out() -> None:
    driver = waiting()
    driver.own(driver.sessions["c:1"], bundles(driver)[0])
    driver.command("approve", round=ROUND)
    assert entry_text(told(driver)[-1]) == (
        "1 move carried out; 1 left out: things have changed since it was decided (d0)"
    )
