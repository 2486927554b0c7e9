"""Processes that are restarted, replaced or long cut off, and brokers that cannot be emptied: nobody else pays."""

from __future__ import annotations

from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent, Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.settings.placement import IsolationPolicy, PlacementSettings
from tests.unit.control.step_driver import StepDriver, with_settings

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)
DAY_MS = 86_400_000


def test_brokers_that_are_all_restarted_at_once_are_no_mass_failure() -> None:
    """Killed and started again together: the new processes live, so nothing speaks against ending the old leases."""
    driver = StepDriver()
    names = [f"{name}:1" for name in "abcde"]
    old = {name: driver.join(name) for name in names}
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(old["a:1"], WHOLE)
    driver.wait(1_000)
    for name in names:
        driver.join(name, incarnation=2, nonce="n2")
    driver.wait(10_000)
    assert not driver.state.frozen
    assert set(driver.state.sessions) == set(driver.sessions.values())
    record = driver.of(WHOLE)
    assert record.state is State.ASSIGNING
    assert record.to in driver.sessions.values()


def test_the_guard_thaws_when_enough_come_back_as_new_processes() -> None:
    driver = StepDriver()
    names = [f"{name}:1" for name in "abcde"]
    for name in names:
        driver.join(name)
    driver.silent.update(names[:3])
    driver.wait(10_000)
    assert driver.state.frozen
    for name in names[:2]:
        driver.join(name, incarnation=2, nonce="n2")
    driver.wait(1_000)
    assert not driver.state.frozen
    assert set(driver.state.sessions) == {driver.sessions[name] for name in (*names[:2], *names[3:])}


def test_a_replaced_process_that_leaves_does_not_take_its_successor_along() -> None:
    """`leaving` of the old process, read after the new one had registered under the same broker id."""
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    newer = Session("a:1", 2, "n2", 1)
    driver.sessions["a:1"] = newer
    driver.run(Heartbeat(newer, 0), Heartbeat(a, 0), BrokerEvent("leaving", a, driver.state.seq))
    assert driver.state.session_of("a:1") == newer
    assert not driver.state.brokers["a:1"].leaving
    driver.say(b, "goodbye")
    driver.sessions.pop("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.lookup(WHOLE)
    assert driver.of(WHOLE).to == newer


def test_what_a_replaced_process_observed_does_not_count() -> None:
    driver = StepDriver()
    old = driver.join("p:1", runtime="pulsar")
    newer = Session("p:1", 2, "n2", 1)
    driver.run(Heartbeat(newer, 0, {"runtime": "pulsar"}), Heartbeat(old, 0))
    driver.sessions["p:1"] = newer
    driver.say(newer, "ring", data={"namespace": "t/n", "boundaries": [0, 0xFFFFFFFF]})
    driver.say(newer, "observed", serving={str(WHOLE): 1})
    driver.run(Heartbeat(old, 0), BrokerEvent("observed", old, driver.state.seq, serving={}))
    assert driver.state.observed.bundles[str(WHOLE)].broker == "p:1"


def test_an_agent_cut_off_from_kafka_for_days_is_registered_when_it_is_back() -> None:
    """Without Kafka each lease begins another session, so the numbers run on; the controller heard of none of them."""
    driver = StepDriver()
    a = driver.join("a:1")
    driver.silent.add("a:1")
    driver.wait(8_000)
    missed = 3 * DAY_MS // driver.settings.lease_ms
    back = a._replace(number=a.number + missed)
    assert [e.kind for e in driver.run(Heartbeat(back, driver.state.seq))] == [Kind.REGISTERED]


def test_bundles_that_cannot_leave_a_drained_broker_keep_no_other_broker_from_being_emptied() -> None:
    """`p1` is the only broker its tenant may use: its bundles stay. `x1` leaves all the same."""
    alpha = IsolationPolicy("alpha", ("alpha/.*",), ("p1",), ())
    driver = StepDriver(with_settings(placement=PlacementSettings(isolation=(alpha,))))
    driver.join("p1:1")
    x1 = driver.join("x1:1")
    for namespace, bundles in (("beta/a", 4), ("alpha/a", 64)):
        driver.command("create_namespace", namespace=namespace, bundles=bundles)
        for bundle in driver.state.namespaces[namespace]:
            driver.lookup(bundle)
            grantee = driver.of(bundle).to
            assert grantee is not None
            driver.say(grantee, "serving", bundle)
    x2 = driver.join("x2:1")
    driver.command("drain", broker="p1:1")
    driver.say(x1, "leaving")
    moving = [driver.of(bundle) for bundle in driver.state.namespaces["beta/a"]]
    assert [(r.state, r.by, r.to) for r in moving] == [(State.TRANSFERRING, x1, x2)] * 4
