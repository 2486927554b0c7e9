"""What the controller shows of its cluster after a batch."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from controller.control.watch import LAG_ALLOWANCE_MS
from controller.domain.events import Heartbeat
from controller.domain.settings.placement import PlacementSettings
from controller.service.metrics import ControlMetrics
from controller.service.state_metrics import FOLLOWERS_MS
from tests.unit.control.observed_driver import BUNDLES, observed_driver
from tests.unit.control.step_driver import StepDriver

RULES = PlacementSettings()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> ControlMetrics:
    return ControlMetrics(registry)


def show(metrics: ControlMetrics, driver: StepDriver, lagging: int = 0) -> None:
    metrics.show_state(driver.state, driver.watch)
    metrics.state.show_followers(driver.state, driver.watch, lagging, RULES, driver.now_ms)


def test_a_bundle_whose_owner_died_is_an_orphan_until_it_is_placed(
    metrics: ControlMetrics, registry: CollectorRegistry
) -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    (bundle,) = driver.state.namespaces["t/n"]
    driver.own(a, bundle)
    show(metrics, driver)
    assert registry.get_sample_value("ballast_bundles_orphaned") == 0
    driver.say(a, "goodbye")
    metrics.count_committed(driver.journal)
    show(metrics, driver)
    assert registry.get_sample_value("ballast_bundles_orphaned") == 1
    assert registry.get_sample_value("ballast_sessions_ended_total", {"reason": "goodbye"}) == 1
    assert registry.get_sample_value("ballast_sessions_ended_total", {"reason": "lease"}) == 0
    assert registry.get_sample_value("ballast_mode", {"mode": "live"}) == 1
    assert registry.get_sample_value("ballast_mode", {"mode": "shadow"}) == 0
    driver.join("b:1")
    decided = driver.decided
    assert decided is not None
    metrics.count_placed(decided)
    show(metrics, driver)
    assert registry.get_sample_value("ballast_bundles_orphaned") == 0
    assert registry.get_sample_value("ballast_placements_total", {"reason": "104_orphaned"}) == 1


def test_a_handover_that_fails_is_counted_by_why(metrics: ControlMetrics, registry: CollectorRegistry) -> None:
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    (bundle,) = driver.state.namespaces["t/n"]
    driver.own(a, bundle)
    driver.command("unload_bundle", bundle=str(bundle), to="b:1")
    driver.say(b, "rejected", bundle, reason="no room, says this agent")
    metrics.count_committed(driver.journal)
    found = {why: registry.get_sample_value("ballast_handovers_failed_total", {"why": why}) for why in (
        "rejected", "deadline", "target_ended")}  # fmt: skip
    assert found == {"rejected": 1, "deadline": 0, "target_ended": 0}


def test_lag_is_what_an_agent_should_have_applied(metrics: ControlMetrics, registry: CollectorRegistry) -> None:
    driver = StepDriver()
    for broker in ("a:1", "b:1"):
        driver.join(broker)
    old = driver.state.seq
    driver.silent.add("b:1")
    for number in range(3):
        driver.command("create_namespace", namespace=f"t/n{number}", bundles=1)
    driver.now_ms += 2 * LAG_ALLOWANCE_MS
    driver.run(Heartbeat(driver.sessions["b:1"], old))
    driver.now_ms += LAG_ALLOWANCE_MS - 1_000
    driver.run(Heartbeat(driver.sessions["b:1"], old))
    show(metrics, driver, lagging=1)
    lag = registry.get_sample_value("ballast_broker_lag_entries", {"broker": "b:1"})
    assert registry.get_sample_value("ballast_broker_lag_entries", {"broker": "a:1"}) == 0
    assert lag is not None
    assert lag >= 3
    assert registry.get_sample_value("ballast_brokers_lagging") == 1
    driver.say(driver.sessions["b:1"], "goodbye")
    show(metrics, driver)
    assert registry.get_sample_value("ballast_broker_lag_entries", {"broker": "b:1"}) == lag, "not counted again yet"
    driver.now_ms += FOLLOWERS_MS
    show(metrics, driver)
    assert registry.get_sample_value("ballast_broker_lag_entries", {"broker": "b:1"}) is None


def test_orders_that_may_not_be_sent_and_those_in_doubt(metrics: ControlMetrics, registry: CollectorRegistry) -> None:
    driver = observed_driver()
    show(metrics, driver)
    assert registry.get_sample_value("ballast_orders_suspended") == 0
    driver.command("unload_bundle", bundle=str(BUNDLES[0]), to="b:1")
    driver.end_order(BUNDLES[0], "failed")
    metrics.count_committed(driver.journal)
    driver.now_ms += FOLLOWERS_MS
    show(metrics, driver)
    assert registry.get_sample_value("ballast_orders_in_doubt") == 1
    assert registry.get_sample_value("ballast_orders_ended_total", {"outcome": "failed"}) == 1
    assert registry.get_sample_value("ballast_orders_ended_total", {"outcome": "moved"}) == 0
    driver.tell("a:1", "fact", key="denied", value={"why": "403 on unload"})
    show(metrics, driver)
    assert registry.get_sample_value("ballast_orders_suspended") == 1
