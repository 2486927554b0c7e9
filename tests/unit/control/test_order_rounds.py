"""A round's decisions about observed bundles become orders, or say why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.ids import Bundle
from controller.domain.observed import OrderKind
from tests.unit.control.observed_driver import BUNDLES, RING, ObservedDriver, observed_driver
from tests.unit.control.step_driver import with_settings

FIRST, SECOND, THIRD, FOURTH = BUNDLES


def decision(driver: ObservedDriver, bundle: Bundle, target: str | None, **more: object) -> Decision:
    seen = driver.state.observed.bundles[str(bundle)]
    fields = {"kind": DecisionKind.TRANSFER, "reason": Reason.ABOVE_MEAN, "epoch": seen.seq, **more}
    return Decision(
        f"r-{bundle.lower}", label=Label.SUCCESS, bundle=str(bundle), source=seen.broker, target=target, **fields
    )  # type: ignore[arg-type]


def decide(driver: ObservedDriver, *decisions: Decision, at_ms: int = 10_000_000) -> list[str]:
    driver.round(RoundResult(f"r{at_ms}", at_ms, driver.state.seq, "test", decisions, (), {}, "hash"))
    (evidence,) = driver.evidence[-1:]
    return [evidence.outcomes[one.id] for one in decisions]


def test_a_move_becomes_an_order_that_names_the_decision() -> None:
    driver = observed_driver()
    move = decision(driver, FIRST, "b:1")
    assert decide(driver, move) == ["executed"]
    order = driver.state.observed.orders[str(FIRST)]
    assert (order.id, order.decision_id, order.target) == (move.id, move.id, "b:1")
    ended = driver.end_order(FIRST, "moved", owner="b:1")[-1]
    assert ended.decision_id == move.id


def test_a_split_becomes_an_order() -> None:
    driver = observed_driver()
    split = decision(driver, FIRST, None, kind=DecisionKind.SPLIT, boundary=77, reason=Reason.SPLIT_MSG_RATE)
    assert decide(driver, split) == ["executed"]
    order = driver.state.observed.orders[str(FIRST)]
    assert (order.kind, order.boundary) == (OrderKind.SPLIT, 77)


def test_a_decision_on_an_older_observation_is_void() -> None:
    driver = observed_driver()
    move = decision(driver, FIRST, "c:1")
    driver.tell("b:1", "observed", added=[str(FIRST)])
    assert decide(driver, move) == [Reason.STALE_DECISION.value]


def test_pulsar_s_own_moves_have_their_grace_period_too() -> None:
    driver = observed_driver()
    decide(driver, at_ms=10_000_000)
    driver.tell("b:1", "observed", added=[str(FIRST)])
    assert decide(driver, decision(driver, FIRST, "c:1"), at_ms=10_060_000) == [Reason.GRACE_PERIOD.value]
    assert decide(driver, decision(driver, FIRST, "c:1"), at_ms=13_000_000) == ["executed"]


def test_a_bundle_that_backs_off_is_left_alone_until_its_time() -> None:
    driver = observed_driver()
    driver.command("unload_bundle", bundle=str(FIRST), to="b:1")
    driver.end_order(FIRST, "stayed", owner="a:1", ended_at_ms=10_000_000, sent=False)
    assert decide(driver, decision(driver, FIRST, "b:1"), at_ms=10_060_000) == [Reason.BACKING_OFF.value]
    assert decide(driver, decision(driver, FIRST, "b:1"), at_ms=10_180_000) == ["executed"]


def test_of_a_swap_both_are_ordered_or_none() -> None:
    driver = observed_driver(with_settings(orders_in_flight=1))
    one = decision(driver, FIRST, "b:1", evidence={"swapped_with": str(SECOND)})
    other = decision(driver, SECOND, "a:1", evidence={"swapped_with": str(FIRST)})
    assert decide(driver, one, other) == [Reason.IN_TURN.value] * 2
    assert not driver.state.observed.orders
    driver = observed_driver()
    assert decide(driver, one, other) == ["executed"] * 2


@pytest.mark.parametrize(("manager", "outcome"), [("modular", Reason.RANGE_IN_USE.value), ("extensible", "executed")])
def test_a_swap_of_equal_ranges_would_write_two_destinations_for_one_text(manager: str, outcome: str) -> None:
    driver, other = observed_driver(manager=manager), Bundle("t/other", FIRST.lower, FIRST.upper)
    driver.tell("a:1", "ring", namespace="t/other", boundaries=list(RING))
    driver.tell("b:1", "observed", added=[str(other)])
    here = decision(driver, FIRST, "b:1", evidence={"swapped_with": str(other)})
    there = replace(decision(driver, other, "a:1", evidence={"swapped_with": str(FIRST)}), id="r-other")
    assert decide(driver, here, there) == [outcome] * 2


def test_another_balancer_stops_a_round_and_says_so() -> None:
    driver = observed_driver()
    driver.configure("c:1", shedding=True)
    assert decide(driver, decision(driver, FIRST, "b:1")) == [Reason.ANOTHER_BALANCER.value]


class TestTurns:
    """As many orders are open as may be: the others wait, and are then carried out as decisions of the step."""

    def moves(self, driver: ObservedDriver) -> list[Decision]:
        return [decision(driver, FIRST, "b:1"), decision(driver, FOURTH, "c:1")]

    def waiting(self, **settings: object) -> ObservedDriver:
        """Of a round's two moves off one broker the second one waits."""
        driver = observed_driver(with_settings(orders_per_broker=1, **settings))
        assert decide(driver, *self.moves(driver)) == ["executed", Reason.IN_TURN.value]
        return driver

    def test_the_next_is_sent_once_an_order_has_ended(self) -> None:
        driver = self.waiting()
        driver.run()
        assert list(driver.state.observed.orders) == [str(FIRST)]
        driver.end_order(FIRST, "moved", owner="b:1")
        order = driver.state.observed.orders[str(FOURTH)]
        assert (order.source, order.target) == ("a:1", "c:1")
        assert driver.decided is not None
        (told,) = driver.decided.decisions
        assert order.decision_id == told.id
        assert (told.evidence["round"], told.evidence["decision"]) == ("r10000000", f"r-{FOURTH.lower}")
        assert driver.decided.outcomes == {told.id: "executed"}

    def test_both_halves_of_a_swap_wait_for_room_for_both(self) -> None:
        driver = observed_driver(with_settings(orders_per_broker=2))
        single = decision(driver, FOURTH, "c:1")
        one = decision(driver, FIRST, "b:1", evidence={"swapped_with": str(SECOND)})
        other = decision(driver, SECOND, "a:1", evidence={"swapped_with": str(FIRST)})
        assert decide(driver, single, one, other) == ["executed", *[Reason.IN_TURN.value] * 2]
        driver.end_order(FOURTH, "moved", owner="c:1")
        assert sorted(driver.state.observed.orders) == sorted([str(FIRST), str(SECOND)])

    def test_what_has_changed_meanwhile_is_not_sent(self) -> None:
        driver = self.waiting()
        driver.tell("b:1", "observed", added=[str(FOURTH)])
        driver.end_order(FIRST, "moved", owner="b:1")
        driver.run()
        assert not driver.state.observed.orders

    def test_another_mode_strategy_or_override_ends_the_wait(self) -> None:
        for kind, args in (("mode", {"mode": "shadow"}), ("strategy", {"strategy": "steady"})):
            driver = self.waiting()
            driver.command(kind, **args)
            driver.end_order(FIRST, "moved", owner="b:1")
            driver.command("mode", mode="live")
            assert not driver.state.observed.orders

    def test_the_next_round_decides_anew_unless_it_could_not_judge_the_brokers_yet(self) -> None:
        for reason, sent in ((Reason.BALANCED, False), (Reason.SETTLING, True)):
            driver = self.waiting()
            skip = Decision("s", DecisionKind.SKIP, Label.SKIP, reason, None, "a:1")
            driver.round(RoundResult("r2", 10_020_000, driver.state.seq, "test", (skip,), (), {}, "hash"))
            driver.end_order(FIRST, "moved", owner="b:1")
            assert bool(driver.state.observed.orders) is sent

    def test_nothing_waits_for_more_than_a_minute(self) -> None:
        driver = self.waiting()
        driver.wait(65_000, 5_000)
        assert list(driver.state.observed.orders) == [str(FIRST)]
        driver.end_order(FIRST, "moved", owner="b:1")
        assert not driver.state.observed.orders
