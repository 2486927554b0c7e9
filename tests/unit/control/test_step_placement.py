"""Where bundles go when a broker says no, says nothing, or was granted a bundle and died."""

from __future__ import annotations

import pytest

from controller.control.handover import REJECTION_MEMORY_MS
from controller.domain.decision import RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.events import AssignRequest, BrokerEvent, Command
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.ring import initial_bundles
from tests.unit.control.step_driver import StepDriver

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)


def three() -> tuple[StepDriver, Session, Session, Session]:
    """a:1 owns the bundle, b:1 and c:1 own nothing: a tie that goes to b:1."""
    driver = StepDriver()
    a, b, c = driver.join("a:1"), driver.join("b:1"), driver.join("c:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    return driver, a, b, c


def offers(entries: list[Entry]) -> list[str]:
    return [str(e.to).partition("#")[0] for e in entries if e.kind is Kind.OWNERSHIP and e.state == "transferring"]


@pytest.mark.covers("target-agrees")
def test_a_target_that_refused_is_not_offered_an_evacuated_bundle_again_at_once() -> None:
    driver, _, b, c = three()
    assert offers(driver.command("drain", broker="a:1")) == ["b:1"]
    assert offers(driver.say(b, "rejected", WHOLE, reason="full")) == ["c:1"]
    assert offers(driver.say(c, "rejected", WHOLE, reason="full")) == []
    assert offers(driver.wait(REJECTION_MEMORY_MS - 1_000)) == [], "each offer burns an epoch and a journal entry"
    assert offers(driver.wait(2_000)) == ["b:1"]


def test_a_target_that_says_nothing_is_passed_over_for_a_while() -> None:
    driver, _, _, c = three()
    driver.command("drain", broker="a:1")
    assert offers(driver.wait(driver.settings.accept_deadline_ms + 1_000)) == ["c:1"]
    driver.say(c, "accepted", WHOLE)
    assert driver.of(WHOLE).state is State.RELEASING


def test_a_refusal_is_forgotten_once_the_broker_serves_the_bundle() -> None:
    driver, a, b, c = three()
    driver.command("drain", broker="a:1")
    driver.say(b, "rejected", WHOLE, reason="full")
    driver.say(c, "accepted", WHOLE)
    driver.say(a, "released", WHOLE)
    driver.say(c, "serving", WHOLE)
    assert driver.watch.rejections == {}


def test_a_bundle_whose_first_grantee_dies_is_granted_to_the_next_at_once() -> None:
    driver = StepDriver()
    driver.join("a:1")
    driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.lookup(WHOLE)
    first = driver.of(WHOLE).to
    assert first is not None
    assert first.broker == "a:1"
    driver.say(first, "goodbye")
    record = driver.of(WHOLE)
    assert (record.state, record.to and record.to.broker) == (State.ASSIGNING, "b:1")


def test_alarms_are_remembered_for_bundles_in_trouble_only() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.lookup(WHOLE)
    alarms = [e for e in driver.wait(20_000) if e.kind is Kind.ALARM]
    assert len(alarms) == 1, "one complaint an epoch"
    driver.say(a, "serving", WHOLE)
    assert not driver.watch.alarmed


def test_a_silent_owner_is_fenced_off_however_often_the_grantee_changes() -> None:
    """a:1 never says `released`: each later grantee must raise the fence, also once those in between have released."""
    driver, _, b, c = three()
    driver.join("d:1")
    driver.command("unload_bundle", bundle=str(WHOLE), to="b:1")
    driver.say(b, "accepted", WHOLE)
    driver.wait(driver.settings.release_deadline_ms + 1_000)
    assert (driver.of(WHOLE).to, driver.of(WHOLE).fence) == (b, True)
    driver.say(b, "rejected", WHOLE, reason="fenced")
    assert (driver.of(WHOLE).by, driver.of(WHOLE).to, driver.of(WHOLE).fence) == (b, c, True)
    driver.say(b, "released", WHOLE)
    driver.say(c, "rejected", WHOLE, reason="fenced")
    record = driver.of(WHOLE)
    assert record.to is not None
    assert (record.by, record.fence) == (c, True)


def test_an_emptied_brokers_newest_guests_go_to_brokers_that_have_restarted_since() -> None:
    """`b:1` leaves and returns; then `a:1`, which took its bundle meanwhile, leaves: never to `c:1`, which is next."""
    driver, a, b, c = three()
    driver.command("create_namespace", namespace="t/m", bundles=1)
    guest = driver.state.namespaces["t/m"][0]
    driver.own(b, guest)
    driver.own(c, WHOLE)
    driver.say(b, "leaving")
    assert driver.of(guest).to == a
    driver.say(a, "accepted", guest)
    driver.say(b, "released", guest)
    driver.say(a, "serving", guest)
    driver.say(b, "goodbye")
    back = driver.join("b:1", incarnation=2, nonce="n2")
    driver.own(back, WHOLE)
    assert driver.state.holdings.total("c:1") == 0, "placement alone would choose c:1"
    driver.say(a, "leaving")
    assert driver.of(guest).to == driver.sessions["c:1"], "b:1 holds its fair share already"
    driver.say(c, "rejected", guest, reason="full")
    assert driver.of(guest).to == back


def test_what_moved_lately_goes_to_a_restarted_broker_whatever_it_holds() -> None:
    driver, a, b, c = three()
    driver.command("create_namespace", namespace="t/m", bundles=1)
    guest = driver.state.namespaces["t/m"][0]
    driver.own(b, guest)
    driver.own(c, WHOLE)
    driver.round(RoundResult("r1", 60_000, driver.state.seq, "test", (), (), {}, "hash"))
    driver.say(b, "leaving")
    driver.say(a, "accepted", guest)
    driver.say(b, "released", guest)
    driver.say(a, "serving", guest)
    driver.say(b, "goodbye")
    back = driver.join("b:1", incarnation=2, nonce="n2")
    driver.own(back, WHOLE)
    driver.say(a, "leaving")
    assert driver.of(guest).to == back


def test_a_score_from_before_the_restart_counts_no_more() -> None:
    driver, _, _, _ = three()
    scores = tuple({"broker": name, "score": score} for name, score in (("a:1", 0.5), ("b:1", 0.9), ("c:1", 0.4)))
    driver.command("create_namespace", namespace="t/m", bundles=1)
    driver.round(RoundResult("r1", 60_000, driver.state.seq, "test", (), scores, {}, "hash"))
    driver.say(driver.sessions["b:1"], "goodbye")
    back = driver.join("b:1", incarnation=2, nonce="n2")
    driver.lookup(driver.state.namespaces["t/m"][0])
    assert driver.of(driver.state.namespaces["t/m"][0]).to == back


def test_brokers_that_are_drained_in_one_batch_get_nothing_in_it() -> None:
    """Placement has been asked in the batch before: for a bundle that was looked up."""
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=8)
    bundles = initial_bundles("t/n", 8)
    for bundle in bundles[:6]:
        driver.own(a, bundle)
    driver.own(b, bundles[6])
    driver.join("c:1")
    drains = [Command(f"d{name}", "drain", {"broker": f"{name}:1"}, "tester", "test") for name in "ab"]
    driver.run(AssignRequest("a:1", bundles[7]), *drains)
    to = {str(r.to) for r in driver.state.bundles.values() if r.state is State.TRANSFERRING}
    assert to == {str(driver.sessions["c:1"])}, "a drained broker is no shelter for another one's bundles"


def test_who_says_goodbye_gets_nothing_in_the_same_batch() -> None:
    """Placement has been asked in the batch before: for a bundle that its grantee refused."""
    driver = StepDriver()
    a, b, c = driver.join("a:1"), driver.join("b:1"), driver.join("c:1")
    driver.command("create_namespace", namespace="t/n", bundles=4)
    bundles = initial_bundles("t/n", 4)
    for bundle in bundles[:2]:
        driver.own(a, bundle)
    driver.own(c, bundles[2])
    driver.command("unload_bundle", bundle=str(bundles[0]), to="b:1")
    driver.say(b, "accepted", bundles[0])
    record, seq = driver.of(bundles[0]), driver.state.seq
    del driver.sessions["c:1"]
    driver.run(
        BrokerEvent("rejected", b, seq, bundles[0], record.epoch, reason="broker_max_bundles"),
        BrokerEvent("goodbye", c, seq),
    )
    assert c not in driver.state.sessions
    assert all(not r.names(c) for r in driver.state.bundles.values())
    assert driver.of(bundles[2]).state is State.ASSIGNING
