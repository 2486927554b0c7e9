"""The hand-over, row by row of the ownership table."""

from __future__ import annotations

import pytest

from controller.domain.entries import Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from tests.unit.control.step_driver import StepDriver

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)


@pytest.fixture
def three() -> tuple[StepDriver, Session, Session, Session]:
    """Three brokers; the one bundle of t/n is owned by the first."""
    driver = StepDriver()
    a, b, c = driver.join("a:1"), driver.join("b:1"), driver.join("c:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    return driver, a, b, c


def state_of(driver: StepDriver) -> tuple[State, Session | None, Session | None]:
    record = driver.of(WHOLE)
    return record.state, record.by, record.to


def begin_transfer(driver: StepDriver, to: Session) -> None:
    driver.command("unload_bundle", bundle=str(WHOLE), to=to.broker)
    assert driver.of(WHOLE).state is State.TRANSFERRING


def begin_release(driver: StepDriver, to: Session) -> None:
    begin_transfer(driver, to)
    driver.say(to, "accepted", WHOLE)
    assert driver.of(WHOLE).state is State.RELEASING


@pytest.mark.covers("initial-assignment", "assignment-decided-locally")
def test_never_owned_waits_for_its_first_lookup() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.wait(3000)
    assert driver.of(WHOLE).state is State.FREE
    driver.lookup(WHOLE)
    assert state_of(driver) == (State.ASSIGNING, None, a)
    driver.say(a, "serving", WHOLE)
    assert state_of(driver) == (State.OWNED, a, None)


@pytest.mark.covers("unit-of-move", "ownership-transfer", "ownership-recorded", "bundle-unload", "moves-by-transfer")
def test_transfer_from_end_to_end(three) -> None:
    driver, a, b, _ = three
    epoch = driver.of(WHOLE).epoch
    begin_release(driver, b)
    assert driver.of(WHOLE).epoch == epoch + 1
    driver.say(a, "released", WHOLE)
    assert driver.of(WHOLE).released
    driver.say(b, "serving", WHOLE)
    assert state_of(driver) == (State.OWNED, b, None)
    assert driver.of(WHOLE).epoch == epoch + 1


@pytest.mark.covers("target-agrees")
@pytest.mark.parametrize("how", ["rejected", "deadline", "target_ends"])
def test_a_transfer_that_fails_leaves_the_owner_at_the_next_epoch(three, how: str) -> None:
    driver, a, b, _ = three
    epoch = driver.of(WHOLE).epoch
    begin_transfer(driver, b)
    if how == "rejected":
        driver.say(b, "rejected", WHOLE, reason="304_broker_cap")
    elif how == "deadline":
        driver.wait(6000)
    else:
        driver.say(b, "goodbye")
    assert state_of(driver) == (State.OWNED, a, None)
    assert driver.of(WHOLE).epoch == epoch + 2


def test_owner_that_ends_while_transferring_frees_the_bundle_which_is_assigned_at_once(three) -> None:
    driver, a, b, _ = three
    begin_transfer(driver, b)
    entries = driver.say(a, "goodbye")
    assert [e.state for e in entries if e.kind is Kind.OWNERSHIP] == ["free", "assigning"]


def test_owner_that_ends_while_releasing_leaves_it_to_the_target_alone(three) -> None:
    driver, a, b, _ = three
    begin_release(driver, b)
    epoch = driver.of(WHOLE).epoch
    entries = driver.say(a, "goodbye")
    assert [e.state for e in entries if e.kind is Kind.OWNERSHIP] == ["assigning"], "never free: b may serve already"
    assert state_of(driver) == (State.ASSIGNING, None, b)
    assert driver.of(WHOLE).epoch == epoch + 1


@pytest.mark.parametrize("state", [State.TRANSFERRING, State.RELEASING, State.SPLITTING])
def test_only_the_party_that_is_asked_answers(three, state: State) -> None:
    """Of two brokers and a stranger, each says whatever an agent can say, at the newest epoch."""
    driver, a, b, c = three
    if state is State.SPLITTING:
        driver.command("split_bundle", bundle=str(WHOLE))
    else:
        (begin_transfer if state is State.TRANSFERRING else begin_release)(driver, b)
    before = state_of(driver)
    asked = {
        State.TRANSFERRING: {(b, "accepted"), (b, "rejected")},
        State.RELEASING: {(a, "released"), (b, "serving"), (b, "rejected")},
        State.SPLITTING: {(a, "split_done"), (a, "rejected")},
    }
    for session in (a, b, c):
        for kind in ("accepted", "rejected", "serving", "released", "fenced", "split_done"):
            if (session, kind) not in asked[state]:
                assert driver.say(session, kind, WHOLE) == [], f"{session} says {kind}"
    assert state_of(driver) == before


def test_target_that_ends_while_releasing_gives_it_back(three) -> None:
    driver, a, b, _ = three
    begin_release(driver, b)
    driver.say(b, "goodbye")
    assert state_of(driver) == (State.ASSIGNING, None, a)


def test_late_answers_change_nothing(three) -> None:
    driver, a, b, c = three
    begin_release(driver, b)
    old = driver.of(WHOLE).epoch - 1
    for session, kind in ((a, "released"), (b, "serving"), (b, "accepted")):
        assert driver.say(session, kind, WHOLE, epoch=old) == []
    assert driver.say(c, "serving", WHOLE) == []
    stranger = Session("a:1", 1, "other", 1)
    assert driver.say(stranger, "released", WHOLE) == []
    assert state_of(driver) == (State.RELEASING, a, b)


def test_silent_grantee_must_release_before_the_next_one_serves(three) -> None:
    driver, a, b, c = three
    driver.say(a, "goodbye")
    driver.sessions.pop("a:1")
    first = driver.of(WHOLE).to
    assert first in (b, c)
    driver.wait(6000)
    other = c if first == b else b
    assert state_of(driver) == (State.RELEASING, first, other)


def test_silent_grantee_without_an_alternative_is_waited_for() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.lookup(WHOLE)
    entries = driver.wait(20_000)
    assert state_of(driver) == (State.ASSIGNING, None, a)
    assert [e.reason for e in entries if e.kind is Kind.ALARM] == ["no_eligible_broker"]


def test_hung_owner_is_fenced_out(three) -> None:
    driver, a, b, _ = three
    begin_release(driver, b)
    epoch = driver.of(WHOLE).epoch
    driver.wait(11_000)
    record = driver.of(WHOLE)
    assert (record.state, record.by, record.to, record.fence) == (State.RELEASING, a, b, True)
    assert record.epoch == epoch + 1
    driver.say(b, "serving", WHOLE)
    assert state_of(driver) == (State.OWNED, b, None)


def test_hung_owner_whose_runtime_cannot_fence_raises_an_alarm_and_waits() -> None:
    driver = StepDriver()
    a, b, _ = (driver.join(f"{name}:1", can_fence=False) for name in "abc")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    begin_release(driver, b)
    entries = driver.wait(40_000)
    assert state_of(driver) == (State.RELEASING, a, b)
    assert [e.reason for e in entries if e.kind is Kind.ALARM] == ["cannot_fence"]


@pytest.mark.covers("bundle-unload", "unload-before-overload", "moves-by-transfer")
def test_unload_to_nobody_frees_and_reassigns(three) -> None:
    driver, a, _, _ = three
    driver.command("unload_bundle", bundle=str(WHOLE))
    assert state_of(driver) == (State.RELEASING, a, None)
    entries = driver.say(a, "released", WHOLE)
    assert [e.state for e in entries if e.kind is Kind.OWNERSHIP] == ["free", "assigning"]


def test_unload_of_a_hung_owner_is_fenced_by_somebody_else(three) -> None:
    driver, a, _, _ = three
    driver.command("unload_bundle", bundle=str(WHOLE))
    driver.wait(11_000)
    fencer = driver.of(WHOLE).fencer
    assert fencer is not None
    assert fencer != a
    entries = driver.say(fencer, "fenced", WHOLE)
    assert [e.state for e in entries if e.kind is Kind.OWNERSHIP] == ["free", "assigning"]


def test_grantee_that_refuses_is_not_asked_again_at_once(three) -> None:
    driver, a, _, _ = three
    driver.say(a, "goodbye")
    driver.sessions.pop("a:1")
    first = driver.of(WHOLE).to
    assert first is not None
    driver.say(first, "rejected", WHOLE, reason="304_broker_cap")
    second = driver.of(WHOLE).to
    assert second is not None
    assert second.broker not in ("a:1", first.broker)


def test_bundle_missing_from_a_newer_inventory_is_released_first(three) -> None:
    driver, a, _, _ = three
    stale = driver.of(WHOLE).seq - 1
    assert driver.say(a, "inventory", applied_seq=stale, serving={}) == []
    assert driver.say(a, "inventory", serving={str(WHOLE): 1}) == []
    driver.say(a, "inventory", serving={})
    assert state_of(driver) == (State.RELEASING, a, None)
