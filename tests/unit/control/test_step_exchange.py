"""An exchange of two bundles, decided by a round: both are handed over, or none is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Kind
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from tests.unit.control.step_driver import StepDriver

LOWER, UPPER = Bundle("t/n", 0, 0x80000000), Bundle("t/n", 0x80000000, 0xFFFFFFFF)


def live() -> StepDriver:
    """a:1 owns the lower half, b:1 the upper one; c:1 owns nothing."""
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.join("c:1")
    driver.command("create_namespace", namespace="t/n", bundles=2)
    driver.own(a, LOWER)
    driver.own(b, UPPER)
    driver.command("mode", mode="live")
    return driver


def half(driver: StepDriver, bundle: Bundle, source: str, target: str, other: Bundle) -> Decision:
    return Decision(f"r1-{bundle.lower}", DecisionKind.TRANSFER, Label.SUCCESS, Reason.ABOVE_MEAN, str(bundle), source,
                    target, epoch=driver.of(bundle).epoch, evidence={"swapped_with": str(other)})  # fmt: skip


def halves(driver: StepDriver) -> tuple[Decision, Decision]:
    return half(driver, LOWER, "a:1", "b:1", UPPER), half(driver, UPPER, "b:1", "a:1", LOWER)


def decide(driver: StepDriver, *decisions: Decision) -> list[str]:
    """The outcomes, in order."""
    entries = driver.round(RoundResult("r1", 60_000, driver.state.seq, "test", decisions, (), {}, "hash"))
    assert [e.kind for e in entries if e.kind is Kind.ROUND]
    (evidence,) = driver.evidence[-1:]
    return [evidence.outcomes[decision.id] for decision in decisions]


def states(driver: StepDriver) -> list[State]:
    return [driver.of(LOWER).state, driver.of(UPPER).state]


def test_both_halves_begin() -> None:
    driver = live()
    assert decide(driver, *halves(driver)) == ["executed"] * 2
    assert states(driver) == [State.TRANSFERRING] * 2


@pytest.mark.parametrize("stale", [0, 1])
def test_neither_begins_when_one_bundle_has_moved_on(stale: int) -> None:
    driver = live()
    decisions = list(halves(driver))
    decisions[stale] = replace(decisions[stale], epoch=(decisions[stale].epoch or 0) - 1)
    assert decide(driver, *decisions) == [Reason.STALE_DECISION.value] * 2
    assert states(driver) == [State.OWNED] * 2


def test_neither_begins_when_one_target_is_drained() -> None:
    driver = live()
    decisions = halves(driver)
    assert driver.command("drain", broker="c:1")
    (first, second) = decisions[0], replace(decisions[1], target="c:1")
    assert decide(driver, first, second) == [Reason.BROKER_DRAINED.value] * 2
    assert states(driver) == [State.OWNED] * 2


def test_a_half_without_its_other_half_is_not_begun() -> None:
    driver = live()
    assert decide(driver, halves(driver)[1]) == [Reason.STALE_DECISION.value]
    assert states(driver) == [State.OWNED] * 2


def test_other_decisions_of_the_round_are_carried_out_in_any_case() -> None:
    driver = live()
    decisions = halves(driver)
    stale = replace(decisions[0], epoch=0)
    alone = replace(decisions[1], id="alone", evidence={}, target="c:1")
    assert decide(driver, stale, alone) == [Reason.STALE_DECISION.value, "executed"]
