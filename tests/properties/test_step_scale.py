"""What a batch does when much comes at once: how many entries, in what order, in how many batches. No times here."""

from __future__ import annotations

import pytest

from controller.control import assignment
from controller.control.assignment import FIRST_GRANTS_BESIDE_RESCUES, FIRST_GRANTS_IN_FLIGHT, RESCUES_PER_BATCH
from controller.domain.entries import Entry, Kind
from controller.domain.events import AssignRequest, BrokerEvent, Event
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from tests.unit.control.step_driver import StepDriver


def grants(entries: list[Entry]) -> list[Entry]:
    return [e for e in entries if e.kind is Kind.OWNERSHIP and e.state == State.ASSIGNING.value]


def serving(entries: list[Entry], driver: StepDriver) -> list[Event]:
    """The grantees' answers."""
    return [
        BrokerEvent("serving", Session.parse(e.to or ""), driver.state.seq, Bundle.parse(e.bundle or ""), e.epoch)
        for e in grants(entries)
    ]


def two_with(bundles: int) -> StepDriver:
    driver = StepDriver()
    driver.join("a:1")
    driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=bundles)
    return driver


def look_up_all(driver: StepDriver, namespace: str) -> list[Event]:
    return [AssignRequest("a:1", bundle) for bundle in driver.state.namespaces[namespace]]


def test_thousands_of_lookups_are_answered_a_bounded_number_at_a_time() -> None:
    driver = two_with(4_000)
    entries = driver.run(*look_up_all(driver, "t/n"))
    batches, answered = 1, len(grants(entries))
    assert answered == FIRST_GRANTS_IN_FLIGHT
    while driver.watch.lookups:
        driver.now_ms += 300
        entries = driver.run(*serving(entries, driver))
        assert len(entries) <= 2 * FIRST_GRANTS_IN_FLIGHT, "a batch stays short"
        batches, answered = batches + 1, answered + len(grants(entries))
    assert (batches, answered) == (4_000 / FIRST_GRANTS_IN_FLIGHT, 4_000)
    driver.run(*serving(entries, driver))
    owned = [r.by.broker for r in driver.state.bundles.values() if r.by]
    assert (owned.count("a:1"), owned.count("b:1")) == (2_000, 2_000)


def test_lookups_wait_while_brokers_take_what_they_were_granted() -> None:
    driver = two_with(3_000)
    driver.run(*look_up_all(driver, "t/n"))
    assert driver.run() == []
    assert len(driver.watch.lookups) == 3_000 - FIRST_GRANTS_IN_FLIGHT


def test_a_dead_brokers_bundles_are_granted_before_any_lookup_of_the_same_batch() -> None:
    driver = two_with(2_000)
    entries = driver.run(*look_up_all(driver, "t/n"))
    while entries:
        entries = driver.run(*serving(entries, driver))
    driver.join("c:1")
    lost = {b for b, r in driver.state.bundles.items() if r.by == driver.sessions["a:1"]}
    driver.command("create_namespace", namespace="t/new", bundles=10_000)
    driver.silent.add("a:1")
    for pause_ms in (driver.settings.lease_ms, driver.settings.margin_ms):
        driver.now_ms += pause_ms
        assert driver.run() == []
    driver.now_ms += 1
    granted = [str(e.bundle) for e in grants(driver.run(*look_up_all(driver, "t/new")))]
    assert len(lost) == 1_000
    assert set(granted[: len(lost)]) == lost, "a rescue waits for nobody"
    assert len(granted) <= len(lost) + FIRST_GRANTS_BESIDE_RESCUES
    assert len(grants(driver.run())) == 0, "nor do lookups overtake the answers to it"


def test_the_batch_that_ends_a_lease_grants_more_than_a_laggard_may_be_behind() -> None:
    """Its own entries made every broker a laggard: after 1,000 of them the rest waited for new heartbeats."""
    driver = two_with(3_000)
    entries = driver.run(*look_up_all(driver, "t/n"))
    while entries:
        entries = driver.run(*serving(entries, driver))
    victim = driver.sessions["a:1"]
    assert len(driver.state.holdings.bundles_naming(victim)) > driver.settings.lag_limit_entries
    driver.run(BrokerEvent("goodbye", victim, driver.state.seq))
    assert not driver.watch.orphans
    assert len(driver.state.holdings.bundles_naming(driver.sessions["b:1"])) == 3_000


def test_a_mass_failover_takes_as_many_batches_as_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "RESCUES_PER_BATCH", 100)
    driver = two_with(1_000)
    entries = driver.run(*look_up_all(driver, "t/n"))
    driver.run(*serving(entries, driver))
    counts = [len(grants(driver.run(BrokerEvent("goodbye", driver.sessions.pop("a:1"), driver.state.seq))))]
    while driver.watch.orphans:
        counts.append(len(grants(driver.run())))
    assert counts == [100] * 5
    assert RESCUES_PER_BATCH >= 1_000


def test_a_lookup_waits_for_the_first_broker_instead_of_being_forgotten() -> None:
    driver = StepDriver()
    driver.command("create_namespace", namespace="t/n", bundles=2)
    assert driver.run(*look_up_all(driver, "t/n")) == []
    session = Session("a:1", 1, "n1", 1)
    driver.join("a:1")
    assert {r.to for r in driver.state.bundles.values()} == {session}
    assert driver.watch.lookups == {}


def test_a_batch_of_heartbeats_leaves_the_state_object_as_it_is() -> None:
    """No entry, no copy: with 100,000 bundles a copy costs more than the heartbeats."""
    driver = two_with(4)
    before = driver.state
    assert driver.run() == []
    assert driver.state is before
