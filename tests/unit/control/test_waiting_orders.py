"""The rest of a namespace's unload: it waits while it is refused for what passes, and never ends in silence."""

from __future__ import annotations

import pytest

from controller.control.order_commands import MOST_REFUSED_MS
from controller.domain.entries import Entry, Kind
from controller.domain.state import METADATA
from tests.unit.control.observed_driver import BUNDLES, NAMESPACE, RING, ObservedDriver, observed_driver

FIRST, SECOND, THIRD, FOURTH = BUNDLES


def unloading() -> ObservedDriver:
    """Two of the three bundles that b:1 does not own are on their way to it, and the last one waits."""
    driver = observed_driver()
    driver.command("unload_namespace", namespace=NAMESPACE, to="b:1")
    assert set(driver.state.observed.orders) == {str(FIRST), str(THIRD)}
    return driver


def end_open(driver: ObservedDriver) -> None:
    for bundle in (FIRST, THIRD):
        if str(bundle) in driver.state.observed.orders:
            driver.end_order(bundle, "moved", owner="b:1")


def is_ordered(driver: ObservedDriver) -> bool:
    driver.run()
    order = driver.state.observed.orders.get(str(FOURTH))
    return order is not None and order.target == "b:1"


def alarms(driver: ObservedDriver) -> list[Entry]:
    return [entry for entry in driver.journal if entry.kind is Kind.ALARM]


def join(driver: ObservedDriver, broker: str, incarnation: int = 1, nonce: str = "agent") -> None:
    driver.join(
        broker, incarnation=incarnation, nonce=nonce, authority=METADATA, runtime="pulsar", can_fence=False
    )  # fmt: skip


def test_it_waits_for_the_configuration_of_a_new_broker() -> None:
    driver = unloading()
    join(driver, "d:1")
    end_open(driver)
    assert not is_ordered(driver)
    driver.configure("d:1")
    assert is_ordered(driver)


def test_it_waits_while_a_broker_does_not_answer_or_the_cluster_refuses_credentials() -> None:
    for key in ("suspect:b:1", "suspect:a:1", "denied"):
        driver = unloading()
        driver.tell("a:1", "fact", key=key, value={"why": "x"})
        end_open(driver)
        assert not is_ordered(driver)
        driver.tell("a:1", "fact", key=key, value=None)
        assert is_ordered(driver)
        assert alarms(driver) == []


def test_it_waits_until_a_restarted_agent_has_observed_the_cluster_again() -> None:
    driver = unloading()
    for broker in ("a:1", "b:1", "c:1"):
        driver.tell(broker, "goodbye")
        driver.sessions.pop(broker)
        assert not is_ordered(driver)
    for broker in ("a:1", "b:1", "c:1"):
        join(driver, broker, incarnation=2, nonce="agent2")
    assert not is_ordered(driver)
    driver.observe("a:1", FIRST, FOURTH)
    assert is_ordered(driver)
    assert alarms(driver) == []


@pytest.mark.parametrize("why", ["shadow", "drained", "isolated"])
def test_what_does_not_pass_ends_it_with_an_alarm_that_names_command_and_bundles(why: str) -> None:
    driver = unloading()
    command = next(entry for entry in driver.journal if entry.data.get("kind") == "unload_namespace")
    if why == "shadow":
        driver.command("mode", mode="shadow")
    elif why == "drained":
        driver.command("drain", broker="b:1")
    else:
        policy = {"namespaces": [NAMESPACE], "primary": ["a"], "secondary": []}
        driver.tell("a:1", "fact", key="isolation:p", value=policy)
    (alarm,) = alarms(driver)
    reasons = {"shadow": "301_shadow_mode", "drained": "305_broker_drained", "isolated": "310_isolation"}
    assert (alarm.command_id, alarm.bundle, alarm.reason) == (command.command_id, str(FOURTH), reasons[why])
    assert alarm.data["not_moved"] == [str(FOURTH)]
    assert alarm.data["count"] == 1
    assert alarm.data["why"]
    end_open(driver)
    driver.run()
    assert len(alarms(driver)) == 1


def test_a_bundle_that_is_no_more_is_told_as_well() -> None:
    driver = unloading()
    driver.tell("a:1", "ring", namespace=NAMESPACE, boundaries=sorted({*RING, FOURTH.middle()}))
    (alarm,) = alarms(driver)
    assert alarm.data["not_moved"] == [str(FOURTH)]
    assert "split" in alarm.data["why"]


def test_a_bundle_that_pulsar_took_there_itself_is_no_alarm() -> None:
    driver = unloading()
    driver.tell("a:1", "observed", removed=[str(FOURTH)])
    driver.tell("b:1", "observed", added=[str(FOURTH)])
    end_open(driver)
    assert not is_ordered(driver)
    assert (alarms(driver), driver.watch.queued_orders) == ([], {})


def test_nobody_expects_it_after_an_hour() -> None:
    driver = unloading()
    driver.tell("a:1", "fact", key="suspect:b:1", value={"why": "x"})
    end_open(driver)
    driver.watch.queued_orders[str(FOURTH)].refused_ms = driver.now_ms - MOST_REFUSED_MS
    driver.run()
    (alarm,) = alarms(driver)
    assert (alarm.reason, alarm.data["why"]) == ("415_suspect_broker", "b:1 does not answer")
