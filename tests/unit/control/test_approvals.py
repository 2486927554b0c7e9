"""Rounds with more moves than `approve_above` wait for an operator; what presses does not."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.decision import (
    Decision,
    DecisionKind,
    Gains,
    KeptPlan,
    Label,
    PlanPhase,
    Reason,
    RoundResult,
)
from controller.domain.entries import Entry, Kind
from controller.domain.ownership import State
from controller.domain.reasons.words import describe_reason
from controller.domain.state import JOURNAL
from controller.domain.state_codec import decode, encode
from tests.unit.control.observed_driver import BUNDLES, ObservedDriver, observed_driver
from tests.unit.control.plan_driver import ROUND, bundles, decide, move, running
from tests.unit.control.step_driver import StepDriver, with_settings

WAITS = Reason.AWAITING_APPROVAL.value


def plan(driver: StepDriver) -> KeptPlan:
    assert driver.state.plan is not None
    return driver.state.plan


def last_plan_entry(driver: StepDriver) -> Entry:
    return [entry for entry in driver.journal if entry.kind is Kind.PLAN][-1]


def states(driver: StepDriver) -> list[State]:
    return [driver.of(bundle).state for bundle in bundles(driver)]


def refused(driver: StepDriver, kind: str, **args: Any) -> str:
    (entry,) = driver.command(kind, **args)
    assert entry.kind is Kind.COMMAND_REJECTED
    return str(entry.reason)


def test_a_small_plan_waits_for_nobody() -> None:
    driver = running()
    assert decide(driver, move(driver, 0)) == ["executed"]
    assert driver.state.plan is None


def test_without_the_setting_no_plan_waits() -> None:
    driver = running(approve_above=None)
    assert decide(driver, *(move(driver, at) for at in range(4))) == ["executed"] * 4


def test_a_large_plan_waits_and_is_carried_out_once_approved() -> None:
    driver = running()
    assert decide(driver, move(driver, 0), move(driver, 1, "c:1")) == [WAITS] * 2
    assert states(driver) == [State.OWNED] * 4
    assert (plan(driver).round_id, plan(driver).phase, len(plan(driver).moves)) == (ROUND, PlanPhase.WAITING, 2)
    entries = driver.command("approve", round=ROUND)
    assert [e.kind for e in entries] == [
        Kind.COMMAND_ACCEPTED, Kind.PLAN, Kind.OWNERSHIP, Kind.OWNERSHIP, Kind.PLAN,
    ]  # fmt: skip
    assert states(driver) == [State.TRANSFERRING, State.TRANSFERRING, State.OWNED, State.OWNED]
    assert driver.state.plan is None
    assert last_plan_entry(driver).data["outcomes"] == {"d0": "executed", "d1": "executed"}


def test_approved_moves_have_evidence_that_names_the_round_s_decision_and_who_approved() -> None:
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1))
    entries = driver.command("approve", round=ROUND)
    moved = [e for e in entries if e.kind is Kind.OWNERSHIP]
    decided = driver.decided
    assert decided is not None
    assert [e.decision_id for e in moved] == [one.id for one in decided.decisions]
    assert {e.attempt_id for e in moved} == {decided.attempt_id}
    assert [one.evidence["decision"] for one in decided.decisions] == ["d0", "d1"]
    assert {one.evidence["approved_by"] for one in decided.decisions} == {"tester"}
    assert {one.strategy for one in decided.decisions} == {"s"}


def test_an_approved_move_is_void_once_its_bundle_has_moved_on() -> None:
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1))
    driver.own(driver.sessions["c:1"], bundles(driver)[0])
    driver.command("approve", round=ROUND)
    assert states(driver)[:2] == [State.OWNED, State.TRANSFERRING]
    assert last_plan_entry(driver).data["outcomes"] == {"d0": Reason.STALE_DECISION.value, "d1": "executed"}


def test_moves_off_a_broker_over_its_limit_do_not_wait() -> None:
    driver = running()
    assert decide(driver, move(driver, 0), move(driver, 1), score=0.85) == ["executed"] * 2
    assert driver.state.plan is None


def test_what_an_override_asks_for_does_not_wait() -> None:
    driver = running()
    wanted = move(driver, 0, reason=Reason.OVERRIDDEN)
    assert decide(driver, wanted, move(driver, 1)) == ["executed", WAITS]


def test_a_split_does_not_wait() -> None:
    driver = running()
    bundle = bundles(driver)[2]
    split = Decision(
        "d2", DecisionKind.SPLIT, Label.SUCCESS, Reason.SPLIT_TOPICS, str(bundle), "a:1", epoch=driver.of(bundle).epoch
    )
    assert decide(driver, move(driver, 0), move(driver, 1), split) == [WAITS, WAITS, "executed"]


def test_while_a_plan_waits_nothing_else_is_moved_and_it_stays_the_one_that_waits() -> None:
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1))
    assert decide(driver, move(driver, 2), at_ms=10_060_000) == [WAITS]
    assert decide(driver, move(driver, 2), at_ms=10_120_000, score=0.9) == ["executed"]
    assert plan(driver).round_id == ROUND


def test_a_declined_plan_keeps_others_of_its_size_back_but_not_small_ones() -> None:
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1))
    driver.command("decline", round=ROUND)
    assert (plan(driver).phase, plan(driver).moves, plan(driver).who) == (PlanPhase.DECLINED, (), "tester")
    again = decide(driver, move(driver, 0), move(driver, 1), at_ms=10_060_000)
    assert again == [Reason.PLAN_DECLINED.value] * 2
    assert decide(driver, move(driver, 2), at_ms=10_120_000) == ["executed"]
    driver.wait(driver.settings.approval_ms + 10_000, step_ms=5_000)
    assert decide(driver, move(driver, 0), move(driver, 1), at_ms=10_800_000) == [WAITS] * 2


def test_a_plan_that_nobody_decides_about_expires() -> None:
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1))
    driver.wait(driver.settings.approval_ms, step_ms=5_000)
    assert driver.state.plan is not None
    driver.wait(10_000, step_ms=5_000)
    assert driver.state.plan is None
    assert last_plan_entry(driver).data == {"round_id": ROUND, "ended": "expired"}
    assert "its plan is over" in refused(driver, "approve", round=ROUND)


def test_a_restarted_controller_keeps_the_plan_and_gives_it_its_whole_time() -> None:
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1))
    kept = plan(driver)
    driver.wait(driver.settings.approval_ms - 5_000, step_ms=5_000)
    driver.state = decode(encode(driver.state))
    assert driver.state.plan == kept
    driver.restart()
    driver.wait(driver.settings.approval_ms - 5_000, step_ms=5_000)
    driver.command("approve", round=ROUND)
    assert states(driver)[:2] == [State.TRANSFERRING] * 2


def test_an_override_or_another_strategy_overtakes_a_plan() -> None:
    driver = running()
    decide(driver, move(driver, 0), move(driver, 1))
    driver.command("override", override="freeze", bundle=str(bundles(driver)[0]))
    assert driver.state.plan is None
    assert last_plan_entry(driver).data["ended"] == "overtaken"


def test_only_the_plan_that_waits_can_be_decided_about_once_and_only_live() -> None:
    driver = running()
    assert "no plan waits" in refused(driver, "approve", round=ROUND)
    decide(driver, move(driver, 0), move(driver, 1))
    assert ROUND in refused(driver, "decline", round="r1")
    driver.command("mode", mode="paused")
    assert "paused" in refused(driver, "approve", round=ROUND)
    driver.command("decline", round=ROUND)
    assert "no plan waits" in refused(driver, "decline", round=ROUND)


def test_a_swap_waits_and_is_carried_out_as_a_whole() -> None:
    driver = running()
    driver.own(driver.sessions["b:1"], bundles(driver)[1])
    one, other = map(str, bundles(driver)[:2])
    away = move(driver, 0, evidence={"swapped_with": other})
    back = Decision(
        "d1", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, other, "b:1", "a:1",
        epoch=driver.of(other).epoch, evidence={"swapped_with": one},
    )  # fmt: skip
    assert decide(driver, away, back) == [WAITS] * 2
    driver.own(driver.sessions["c:1"], bundles(driver)[1])
    driver.command("approve", round=ROUND)
    assert driver.of(one).state is State.OWNED  # the other half is void


def test_no_entry_is_written_that_stops_an_agent_of_version_0_1_0() -> None:
    driver = running()
    driver.join("old:1")  # it does not say who decides ownership
    assert decide(driver, move(driver, 0), move(driver, 1)) == [WAITS] * 2
    assert not [entry for entry in driver.journal if entry.kind is Kind.PLAN]
    driver.join("old:1", incarnation=2, authority=JOURNAL)
    assert decide(driver, move(driver, 0), move(driver, 1), at_ms=10_060_000) == [WAITS] * 2
    assert plan(driver).round_id == "r10060000"


def test_in_shadow_a_round_says_what_would_have_waited() -> None:
    driver = running(mode="shadow")
    assert decide(driver, move(driver, 0), move(driver, 1)) == [Reason.SHADOW_MODE.value] * 2
    (entry,) = [e for e in driver.journal if e.kind is Kind.ROUND]
    assert entry.data["would_wait"] == 2
    assert driver.state.plan is None


def test_of_an_approved_plan_orders_go_as_earlier_ones_end() -> None:
    driver = observed_driver(with_settings(approve_above=1, orders_in_flight=1))
    moves = [order(driver, at, "c:1" if at else "b:1") for at in (0, 1)]
    assert decide(driver, *moves) == [WAITS] * 2
    driver.command("approve", round=ROUND)
    assert list(driver.state.observed.orders) == [str(BUNDLES[0])]
    assert (plan(driver).phase, [one.id for one in plan(driver).moves]) == (PlanPhase.APPROVED, ["d1"])
    assert decide(driver, order(driver, 3, "c:1"), at_ms=10_060_000) == [Reason.IN_TURN.value]
    driver.end_order(BUNDLES[0], "moved", owner="b:1")
    assert list(driver.state.observed.orders) == [str(BUNDLES[1])]
    assert driver.state.plan is None


def order(driver: ObservedDriver, at: int, target: str) -> Decision:
    seen = driver.state.observed.bundles[str(BUNDLES[at])]
    what = str(BUNDLES[at]), seen.broker, target, seen.seq
    return Decision(f"d{at}", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, *what)


def missed(driver: StepDriver, score: float = 0.5) -> list[Entry]:
    """The entries of a round that tells that moves bring too little."""
    scores = ({"broker": "a:1", "score": score},)
    result = RoundResult("r1", 1, driver.state.seq, "s", (), scores, {}, "hash", missed=Gains(50, 5.0, 0.6))
    return [entry for entry in driver.round(result) if entry.kind in (Kind.ALARM, Kind.MODE)]


def test_moves_that_bring_too_little_raise_an_alarm_with_the_figures() -> None:
    (alarm,) = missed(running())
    assert alarm.data == {"moves": 50, "predicted": 5.0, "realised": 0.6}
    assert describe_reason(alarm.reason, alarm.data) == "50 moves brought 12 % of what was predicted"


def test_they_end_mode_live_only_if_that_is_configured_and_no_broker_is_over_its_limit() -> None:
    driver = running(shadow_when_missed=True)
    assert [entry.kind for entry in missed(driver, score=0.85)] == [Kind.ALARM]
    driver = running(shadow_when_missed=True)
    assert [entry.kind for entry in missed(driver)] == [Kind.ALARM, Kind.MODE]
    assert driver.state.mode == "shadow"


@pytest.mark.parametrize("phase", list(PlanPhase))
def test_a_kept_plan_is_stored_as_plain_values(phase: PlanPhase) -> None:
    moves = (
        Decision("d", DecisionKind.UNLOAD, Label.SUCCESS, Reason.ABOVE_MEAN, "t/n/0x0_0x1", "a", None, 3),
        Decision(
            "e", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, "t/n/0x1_0x2", "a", "b", 4,
            evidence={"swapped_with": "t/n/0x0_0x1"},
        ),
    )  # fmt: skip
    kept = KeptPlan("r", 5, phase, moves, 7, 6, "me", "because")
    assert KeptPlan.from_json(kept.to_json()) == kept
