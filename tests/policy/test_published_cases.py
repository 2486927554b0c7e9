"""V01-V33 with the default strategy, by name. What V25 and V26 ask of the protocol is asserted on the real step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.published.case import Case, outcome, play
from benchmarks.published.cases import CASES
from benchmarks.published.clusters import moves
from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.policy.strategies import STRATEGIES
from tests.unit.control.step_driver import StepDriver

WHOLE = Bundle.parse("t/n/0x00000000_0xffffffff")
BY_NAME = {case.name: case for case in CASES}


@pytest.mark.covers(
    "even-load",
    "rolling-average",
    "absolute-or-relative",
    "target-less-loaded",
    "target-not-cpu-alone",
    "split-single-topic",
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_steady_does_what_a_good_balancer_does(case: Case) -> None:
    played = play(case, "steady")
    assert case.judge(played) is None


def test_all_of_them_are_there() -> None:
    assert list(BY_NAME) == [f"V{number:02d}" for number in range(1, 34)]


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_can_be_shown_in_a_table(strategy: str) -> None:
    told = outcome(BY_NAME["V02"], strategy)
    assert told.startswith("nothing: ") or "→" in told


def test_v08_a_restart_changes_nothing() -> None:
    """The memory goes through JSON after every round, or stays what it was: the same decisions."""
    built = BY_NAME["V08"].build()
    built.settings = replace(built.settings, strategy="steady")
    through_json = play(BY_NAME["V08"], "steady")
    for result in through_json.results:
        kept = built.round()
        assert kept.decisions == result.decisions
        if moves(kept):
            return
        built.later()
    pytest.fail("nothing was decided")


def test_v25_the_assignee_comes_back_and_the_bundle_is_driven_on() -> None:
    driver = StepDriver()
    first = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.lookup(WHOLE)
    assert driver.of(WHOLE).to == first
    again = driver.join("a:1", incarnation=2, nonce="n2")
    driver.wait(20_000)
    record = driver.of(WHOLE)
    assert record.state is State.ASSIGNING
    assert record.to == again
    driver.say(again, "serving", WHOLE)
    assert driver.of(WHOLE).state is State.OWNED


def test_v26_a_decision_of_an_older_epoch_is_void() -> None:
    driver = StepDriver()
    owner = driver.join("a:1")
    driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(owner, WHOLE)
    epoch = driver.of(WHOLE).epoch
    for stale, expected in ((epoch - 1, State.OWNED), (epoch, State.TRANSFERRING)):
        parties = (str(WHOLE), "a:1", "b:1")
        move = Decision("d", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, *parties, epoch=stale)
        driver.round(
            RoundResult(
                f"r{stale}", 60_000 + stale, driver.state.seq, "steady", (move,), (), {"steady": {}}, f"h{stale}"
            )
        )
        assert driver.of(WHOLE).state is expected
