"""Strategy and overrides by command: journaled, folded, kept by the next controller, obeyed by what comes after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.settings.policy import PolicySettings, SplitSettings
from controller.domain.state_codec import decode, encode
from controller.policy.round import as_commanded
from tests.unit.control.step_driver import StepDriver, with_settings

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)
LOWER, UPPER = WHOLE.split_at(WHOLE.middle())
CONFIGURED = PolicySettings(strategy="headroom", challengers=("threshold",))


def running(*brokers: str, mode: str = "live", **settings: Any) -> StepDriver:
    driver = StepDriver(with_settings(**settings), mode=mode)
    for broker in brokers or ("a:1", "b:1", "c:1"):
        driver.join(broker)
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(driver.sessions["a:1"], WHOLE)
    return driver


def kinds(entries: list[Entry]) -> list[Kind]:
    return [e.kind for e in entries]


def transfer(
    driver: StepDriver, target: str, seq: int | None = None, at_ms: int = 60_000, **changes: Any
) -> RoundResult:
    decision = Decision(
        "r-1", DecisionKind.TRANSFER, Label.SUCCESS, Reason.OVERLOADED, str(WHOLE), "a:1", target,
        epoch=driver.of(WHOLE).epoch,
    )  # fmt: skip
    seq = driver.state.seq if seq is None else seq
    return RoundResult(f"r{at_ms}", at_ms, seq, "headroom", (replace(decision, **changes),), (), {}, "hash")


def outcome(driver: StepDriver) -> str:
    ((found,),) = (evidence.outcomes.values() for evidence in driver.evidence)
    return found


def chosen(driver: StepDriver) -> tuple[str, tuple[str, ...]]:
    settings = as_commanded(CONFIGURED, driver.state)
    return settings.strategy, settings.challengers


@pytest.mark.covers("manager-changeable")
def test_a_strategy_by_command_takes_over_and_the_next_controller_keeps_it() -> None:
    driver = running()
    assert chosen(driver) == ("headroom", ("threshold",))
    entries = driver.command("strategy", strategy="uniform")
    assert kinds(entries) == [Kind.COMMAND_ACCEPTED, Kind.STRATEGY]
    assert chosen(driver) == ("uniform", ("threshold",))
    driver.restart()
    assert chosen(driver) == ("uniform", ("threshold",))
    driver.state = decode(encode(driver.state))
    assert chosen(driver) == ("uniform", ("threshold",))
    driver.command("strategy", strategy="configured")
    assert chosen(driver) == ("headroom", ("threshold",))


def test_challengers_by_command() -> None:
    driver = running()
    driver.command("strategy", challengers=["uniform", "overload", "uniform"])
    assert chosen(driver) == ("headroom", ("uniform", "overload"))
    driver.command("strategy", strategy="overload")  # who takes over stops being a challenger
    assert chosen(driver) == ("overload", ("uniform",))
    driver.command("strategy", challengers=[])
    assert chosen(driver) == ("overload", ())
    driver.command("strategy", strategy="threshold", challengers="configured")
    assert chosen(driver) == ("threshold", ())
    driver.command("strategy", strategy="configured")
    assert chosen(driver) == ("headroom", ("threshold",))
    driver.state = decode(encode(driver.state))
    assert driver.state.challengers is None


def test_another_name_of_a_strategy_is_journaled_by_its_own() -> None:
    driver = running()
    driver.command("strategy", strategy="first")
    assert driver.state.strategy == "headroom"


def test_a_strategy_that_this_version_lacks_counts_as_not_chosen() -> None:
    driver = running()
    driver.state.strategy, driver.state.challengers = "of_the_future", ("uniform", "of_the_past")
    assert chosen(driver) == ("headroom", ("uniform",))


@pytest.mark.parametrize(
    ("kind", "args", "needle"),
    [
        ("strategy", {}, "needs strategy, challengers or both"),
        ("strategy", {"strategy": "best"}, "'best' is none of"),
        ("strategy", {"strategy": 7}, "printable text"),
        ("strategy", {"challengers": "uniform"}, "list of names"),
        ("strategy", {"challengers": ["best"]}, "'best' is none of"),
        ("strategy", {"challengers": [1]}, "list of names"),
        ("override", {}, "needs override"),
        ("override", {"override": "hold"}, "none of pin, avoid, freeze, exclude_namespace"),
        ("override", {"override": "pin", "bundle": str(WHOLE)}, "needs broker"),
        ("override", {"override": "pin", "bundle": str(WHOLE), "broker": "z:1"}, "known: a:1, b:1, c:1"),
        ("override", {"override": "pin", "bundle": str(LOWER), "broker": "a:1"}, "no bundle of any namespace"),
        ("override", {"override": "pin", "namespace": "t/n", "broker": "a:1"}, "not a namespace"),
        ("override", {"override": "freeze", "bundle": str(WHOLE), "broker": "a:1"}, "takes no broker"),
        ("override", {"override": "freeze", "bundle": "x"}, "0xLLLLLLLL"),
        ("override", {"override": "exclude_namespace", "namespace": "t/none"}, "does not exist"),
        ("override", {"override": "exclude_namespace", "namespace": "t/n", "bundle": str(WHOLE)}, "not both"),
        ("override", {"override": "freeze", "bundle": str(WHOLE), "until_ms": -1}, "has passed"),
        ("override", {"override": "freeze", "bundle": str(WHOLE), "until_ms": 59_000}, "has passed"),
        ("override", {"override": "freeze", "bundle": str(WHOLE), "until_ms": "soon"}, "whole number"),
        ("end_override", {"id": "c99"}, "no override has the id c99; newest: none"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_rejected_with_a_reason(kind: str, args: dict[str, Any], needle: str) -> None:
    driver = running()
    driver.round(transfer(driver, "a:1"))  # record time is 60,000 now
    entries = driver.command(kind, **args)
    assert kinds(entries) == [Kind.COMMAND_REJECTED]
    assert needle in str(entries[0].reason)


def test_a_round_computed_before_the_strategy_changed_moves_nothing() -> None:
    driver = running()
    before = driver.state.seq
    driver.command("strategy", strategy="uniform")
    driver.round(transfer(driver, "b:1", seq=before))
    assert outcome(driver) == Reason.STALE_DECISION.value
    assert driver.of(WHOLE).state is State.OWNED
    driver.round(transfer(driver, "b:1", at_ms=120_000))
    assert outcome(driver) == "executed"


def test_an_override_is_kept_until_it_is_ended() -> None:
    driver = running()
    entries = driver.command("override", override="pin", bundle=str(WHOLE), broker="b:1")
    assert kinds(entries) == [Kind.COMMAND_ACCEPTED, Kind.OVERRIDE]
    (wish,) = driver.state.overrides.values()
    assert (wish.kind, wish.bundle, wish.broker, wish.who, wish.why) == ("pin", str(WHOLE), "b:1", "tester", "test")
    assert wish.seq == entries[1].seq
    assert decode(encode(driver.state)).overrides == driver.state.overrides
    driver.restart()
    driver.command("end_override", id=wish.id)
    assert not driver.state.overrides


def test_an_override_that_runs_out_is_ended_by_the_round_that_finds_it() -> None:
    driver = running()
    driver.command("override", override="freeze", bundle=str(WHOLE), until_ms=90_000)
    assert not [e for e in driver.round(transfer(driver, "a:1", at_ms=60_000)) if e.kind is Kind.OVERRIDE]
    entries = driver.round(transfer(driver, "b:1", at_ms=90_000))
    assert [(e.kind, e.reason) for e in entries if e.kind is Kind.OVERRIDE] == [(Kind.OVERRIDE, "expired")]
    assert not driver.state.overrides
    assert outcome(driver) == "executed"  # that very round knew it


@pytest.mark.parametrize(("first", "second", "needle"), [
    ({"override": "pin", "broker": "b:1"}, {"override": "pin", "broker": "c:1"}, "has pin"),
    ({"override": "freeze"}, {"override": "freeze"}, "has freeze"),
    ({"override": "avoid", "broker": "b:1"}, {"override": "avoid", "broker": "b:1"}, "has avoid"),
    ({"override": "avoid", "broker": "b:1"}, {"override": "pin", "broker": "b:1"}, "same broker"),
    ({"override": "pin", "broker": "b:1"}, {"override": "avoid", "broker": "b:1"}, "same broker"),
])  # fmt: skip
def test_wishes_that_cannot_both_hold(first: dict[str, Any], second: dict[str, Any], needle: str) -> None:
    driver = running()
    driver.command("override", bundle=str(WHOLE), **first)
    entries = driver.command("override", bundle=str(WHOLE), **second)
    assert kinds(entries) == [Kind.COMMAND_REJECTED]
    assert needle in str(entries[0].reason)


def test_a_bundle_may_avoid_two_brokers() -> None:
    driver = running()
    for broker in ("b:1", "c:1"):
        driver.command("override", override="avoid", bundle=str(WHOLE), broker=broker)
    assert len(driver.state.overrides) == 2


def orphaned(driver: StepDriver, broker: str = "a:1") -> None:
    """The broker says goodbye; what it served is assigned in the same batch."""
    driver.say(driver.sessions.pop(broker), "goodbye")


def test_an_orphan_goes_where_it_is_pinned() -> None:
    for pinned in ("b:1", "c:1"):
        driver = running()
        driver.command("override", override="pin", bundle=str(WHOLE), broker=pinned)
        orphaned(driver)
        to = driver.of(WHOLE).to
        assert to is not None
        assert to.broker == pinned


def test_an_orphan_goes_somewhere_while_the_broker_it_is_pinned_to_is_away() -> None:
    driver = running()
    driver.command("override", override="pin", bundle=str(WHOLE), broker="a:1")
    orphaned(driver)
    assert driver.of(WHOLE).to is not None


def test_an_orphan_avoids_brokers_as_long_as_there_are_others() -> None:
    driver = running()
    for broker in ("b:1", "c:1"):
        driver.command("override", override="avoid", namespace="t/n", broker=broker)
    driver.join("d:1")
    orphaned(driver)
    assert driver.of(WHOLE).to == driver.sessions["d:1"]
    orphaned(driver, "d:1")
    assert driver.of(WHOLE).to in (driver.sessions["b:1"], driver.sessions["c:1"])


def test_a_drain_empties_a_broker_also_of_what_is_pinned_there() -> None:
    driver = running()
    driver.command("override", override="pin", bundle=str(WHOLE), broker="a:1")
    driver.command("drain", broker="a:1")
    record = driver.of(WHOLE)
    assert record.state is State.TRANSFERRING
    assert record.to != driver.sessions["a:1"]


def moved_by_a_round() -> StepDriver:
    """The bundle came from a:1 to b:1 in the round at 60 s."""
    driver = running()
    driver.round(transfer(driver, "b:1"))
    driver.say(driver.sessions["b:1"], "accepted", WHOLE)
    driver.say(driver.sessions["a:1"], "released", WHOLE)
    driver.say(driver.sessions["b:1"], "serving", WHOLE)
    assert driver.of(WHOLE).moved_at_ms == 60_000
    return driver


@pytest.mark.parametrize(
    ("reason", "expected"), [(Reason.OVERLOADED, Reason.GRACE_PERIOD.value), (Reason.OVERRIDDEN, "executed")]
)
def test_an_override_s_move_does_not_wait_for_the_grace_period(reason: Reason, expected: str) -> None:
    driver = moved_by_a_round()
    driver.round(transfer(driver, "a:1", at_ms=120_000, source="b:1", reason=reason))
    assert outcome(driver) == expected


@pytest.mark.parametrize("wish", [{"override": "freeze", "bundle": str(WHOLE)},
                                  {"override": "exclude_namespace", "namespace": "t/n"}])  # fmt: skip
def test_a_proposed_split_of_what_is_frozen_is_not_done(wish: dict[str, Any]) -> None:
    driver = running(split=SplitSettings())
    driver.command("override", **wish)
    owner = driver.sessions["a:1"]
    driver.say(owner, "split_proposed", WHOLE, boundary=WHOLE.middle())
    assert driver.of(WHOLE).state is State.OWNED
    (identity,) = driver.state.overrides
    driver.command("end_override", id=identity)
    driver.say(owner, "split_proposed", WHOLE, boundary=WHOLE.middle())
    assert driver.of(WHOLE).state is State.SPLITTING


def test_an_override_holds_for_the_halves_of_a_split() -> None:
    driver = running()
    driver.command("override", override="pin", bundle=str(WHOLE), broker="c:1")
    driver.command("split_bundle", bundle=str(WHOLE))
    driver.say(driver.sessions["a:1"], "split_done", WHOLE)
    orphaned(driver)
    assert {driver.of(half).to for half in (LOWER, UPPER)} == {driver.sessions["c:1"]}
