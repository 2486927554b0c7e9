"""Agent groups: each group's leases are judged by what has been read of its own topic."""

from __future__ import annotations

from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.events import Heartbeat, Tick
from controller.domain.ids import Session
from controller.domain.settings.agent_groups import AgentGroups
from tests.unit.control.step_driver import StepDriver, with_settings

GROUPS = AgentGroups((("east", ("a",)), ("west", ("b",))))
LEASE_AND_MARGIN_MS = 7_000


def driver_of_two() -> StepDriver:
    """Brokers a:1 in group east and b:1 in group west, both silent from now on."""
    driver = StepDriver(with_settings(agent_groups=GROUPS, guard_min_brokers=99))
    for broker in ("a:1", "b:1"):
        driver.join(broker)
        driver.silent.add(broker)
    return driver


def tick(driver: StepDriver, group: str, boot_ms: int | None = None, instance: str = "i") -> Tick:
    return Tick(instance, 1, None, driver.now_ms if boot_ms is None else boot_ms, group)


def wait(driver: StepDriver, ms: int, *ticking: str) -> None:
    """Time passes in small batches, in which the controller's ticks come back from the topics of these groups."""
    for _ in range(ms // 500):
        driver.now_ms += 500
        driver.run(*(tick(driver, group) for group in ticking))


def ended(driver: StepDriver) -> list[tuple[str | None, str | None]]:
    return [(entry.broker, entry.reason) for entry in driver.journal if entry.kind is Kind.SESSION_ENDED]


def test_a_group_whose_topic_is_not_read_is_not_judged() -> None:
    driver = driver_of_two()
    wait(driver, 30_000, "", "east")
    assert ended(driver) == [("a:1", "lease")]


def test_leases_of_a_group_restart_when_its_topic_is_read_again() -> None:
    driver = driver_of_two()
    wait(driver, 500, "", "east", "west")
    wait(driver, 30_000, "")
    wait(driver, LEASE_AND_MARGIN_MS, "", "east", "west")
    assert ended(driver) == []
    wait(driver, 1_000, "", "east", "west")
    assert sorted(ended(driver)) == [("a:1", "lease"), ("b:1", "lease")]


def test_a_tick_tells_of_what_was_appended_before_it_was_sent() -> None:
    driver = driver_of_two()
    driver.run(tick(driver, "east"))
    sent_ms = driver.now_ms
    wait(driver, LEASE_AND_MARGIN_MS + 1_000)
    driver.watch.ticked["east"] = driver.now_ms  # ticks came back meanwhile, so it is no outage
    driver.run(tick(driver, "east", boot_ms=sent_ms + LEASE_AND_MARGIN_MS))
    assert ended(driver) == []
    driver.run(tick(driver, "east", boot_ms=sent_ms + LEASE_AND_MARGIN_MS + 1))
    assert ended(driver) == [("a:1", "lease")]


def test_an_agent_can_forge_ticks_of_its_own_topic_and_hurts_nobody_else() -> None:
    driver = driver_of_two()
    wait(driver, 500, "", "west")
    for _ in range(2 * LEASE_AND_MARGIN_MS // 500):
        driver.now_ms += 500
        driver.run(tick(driver, "east", boot_ms=2**50), tick(driver, "west", instance="ghost"))
    assert ended(driver) == [("a:1", "lease")]


def test_brokers_in_no_group_are_judged_by_the_plain_topic() -> None:
    driver = driver_of_two()
    driver.join("c:1")
    driver.silent.add("c:1")
    wait(driver, 30_000, "east", "west")
    assert ("c:1", "lease") not in ended(driver)
    wait(driver, LEASE_AND_MARGIN_MS + 1_000, "", "east", "west")
    assert ("c:1", "lease") in ended(driver)


def test_without_groups_no_tick_is_needed() -> None:
    driver = StepDriver()
    driver.join("a:1")
    driver.silent.add("a:1")
    driver.wait(8_000)
    assert ended(driver) == [("a:1", "lease")]
    assert (driver.watch.ticked, driver.watch.read_until) == ({}, {})


def test_a_tick_in_a_groups_topic_is_no_sign_of_another_controller() -> None:
    driver = driver_of_two()
    started = Entry(driver.state.seq + 1, Kind.CONTROLLER_STARTED, "i", 0, 0, data={"journal_id": "ours"})
    driver.state = fold(driver.state, [started])
    driver.run(Tick("stray", 10_000, "other", 1, "east"))
    assert [entry for entry in driver.journal if entry.kind is Kind.ALARM] == []
    driver.run(Tick("stray", 10_000, "other"))
    assert [entry.reason for entry in driver.journal if entry.kind is Kind.ALARM] == ["stray_controller"]


def test_a_session_that_beats_lives_on() -> None:
    driver = driver_of_two()
    for _ in range(60):
        driver.now_ms += 500
        driver.run(Heartbeat(Session("a:1", 1, "n1", 1), 0), tick(driver, "east"))
    assert ended(driver) == []
