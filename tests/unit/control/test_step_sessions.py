"""Sessions, leases, the guard, drained and leaving brokers."""

from __future__ import annotations

import pytest

from controller.control.step import Batch, step
from controller.control.watch import LAG_ALLOWANCE_MS
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent, Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from tests.unit.control.step_driver import StepDriver, with_settings

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)


def alive(driver: StepDriver) -> set[str]:
    return {str(s) for s in driver.state.sessions}


def ended(driver: StepDriver) -> list[tuple[str | None, str | None]]:
    return [(e.session, e.reason) for e in driver.journal if e.kind is Kind.SESSION_ENDED]


@pytest.mark.covers("broker-dies", "ownership-ends-with-session")
def test_lease_ends_after_lease_and_margin_and_not_before() -> None:
    driver = StepDriver()
    driver.join("a:1")
    driver.silent.add("a:1")
    driver.wait(7000)
    assert ended(driver) == []
    driver.wait(500)
    assert ended(driver) == [("a:1#1.n1.1", "lease")]


def test_a_lease_that_ended_never_lives_again() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.silent.add("a:1")
    driver.wait(8000)
    driver.run(Heartbeat(a, 0))
    assert alive(driver) == set()
    driver.run(Heartbeat(a._replace(number=2), 0))
    assert alive(driver) == {"a:1#1.n1.2"}


def test_a_session_that_has_ended_says_nothing_more() -> None:
    """Were its late `leaving` journaled, the next session of the process would leave as well."""
    driver = StepDriver()
    a = driver.join("a:1")
    driver.silent.add("a:1")
    driver.wait(8_000)
    assert driver.say(a, "leaving") == []
    assert driver.watch.refused == {"event_of_ended_session": 1}
    driver.join("a:1", number=2)
    assert not driver.state.brokers["a:1"].leaving


def test_next_session_of_the_same_process_ends_the_one_before() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    driver.run(Heartbeat(a._replace(number=2), 0))
    assert ended(driver) == [("a:1#1.n1.1", "superseded")]
    assert driver.of(WHOLE).to == a._replace(number=2)


def test_first_nonce_of_an_incarnation_wins() -> None:
    driver = StepDriver()
    driver.join("a:1")
    driver.run(Heartbeat(Session("a:1", 1, "n2", 1), 0))
    driver.run(Heartbeat(Session("a:1", 1, "n2", 5), 0))
    assert alive(driver) == {"a:1#1.n1.1"}


def test_newer_incarnation_waits_for_the_older_ones_end() -> None:
    driver = StepDriver()
    old = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(old, WHOLE)
    new = driver.join("a:1", incarnation=2, nonce="n2")
    assert alive(driver) == {str(old), str(new)}
    assert driver.of(WHOLE).by == old
    driver.wait(8000)
    assert alive(driver) == {str(new)}
    assert driver.of(WHOLE).to == new
    driver.run(Heartbeat(old, 0))
    assert alive(driver) == {str(new)}


def test_restarted_controller_gives_everybody_one_fresh_lease() -> None:
    driver = StepDriver()
    driver.join("a:1")
    driver.silent.add("a:1")
    driver.wait(6000)
    driver.now_ms += 3_600_000
    driver.restart()
    driver.wait(7000)
    assert ended(driver) == []
    driver.wait(500)
    assert len(ended(driver)) == 1


def assert_d_ends_after(driver: StepDriver, ms: int) -> None:
    """One of them stays silent: its session ends so much later, within a second, and no other."""
    driver.silent.add("d:1")
    driver.run()
    driver.wait(ms)
    assert ended(driver) == []
    driver.wait(1_000)
    assert [reason for _, reason in ended(driver)] == ["lease"]


def test_after_an_outage_of_kafka_everybody_has_one_fresh_lease() -> None:
    """Nothing was read for 25 s. The first to be heard again is no proof that the others are dead."""
    driver = StepDriver()
    for name in "abcd":
        driver.join(f"{name}:1")
    driver.wait(5_000)
    driver.now_ms += 25_000
    assert_d_ends_after(driver, 7_000)


def test_the_fresh_lease_begins_when_the_records_have_been_read() -> None:
    """A batch is judged as of the end of the one before, which tables may have held up until amid the outage.
    Found by the simulated deployment."""
    driver = StepDriver()
    for name in "abcd":
        driver.join(f"{name}:1")
    driver.silent.update(f"{name}:1" for name in "abcd")
    driver.now_ms += 20_000
    driver.read_later_ms = 5_000
    driver.run()
    driver.now_ms, driver.read_later_ms = driver.now_ms + driver.read_later_ms, 0
    driver.silent.clear()
    driver.silent.add("d:1")
    driver.wait(6_500)
    assert ended(driver) == [], "d:1 may have been unable to speak until then"
    driver.wait(1_500)
    assert [reason for _, reason in ended(driver)] == ["lease"]


def test_a_controller_that_starts_while_kafka_is_away_gives_a_fresh_lease_afterwards() -> None:
    """Nobody could be heard since its start: that is no proof that anybody is dead."""
    driver = StepDriver()
    for name in "abcd":
        driver.join(f"{name}:1")
    driver.restart()
    driver.now_ms += 7_500
    assert_d_ends_after(driver, 6_500)


def test_a_frozen_guard_outlives_an_outage_of_kafka() -> None:
    driver = StepDriver()
    for name in "abcde":
        driver.join(f"{name}:1")
    driver.silent.update({"a:1", "b:1", "c:1"})
    driver.wait(10_000)
    driver.now_ms += 25_000
    driver.run()
    driver.wait(20_000)
    assert driver.state.frozen
    assert ended(driver) == []


def test_a_deadline_stands_still_while_nothing_can_be_read() -> None:
    driver = StepDriver()
    driver.join("a:1")
    driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.lookup(WHOLE)
    assert driver.of(WHOLE).state is State.ASSIGNING
    driver.now_ms += 25_000
    driver.run()
    assert driver.of(WHOLE).state is State.ASSIGNING, "the answer may lie in what is still to be read"
    later = driver.wait(driver.settings.assign_deadline_ms + 1_000)
    assert [e.bundle for e in later if e.kind is Kind.OWNERSHIP][:1] == [str(WHOLE)], "and then it is too late"


def test_leases_are_not_judged_on_input_that_was_not_read_to_its_end() -> None:
    """Its heartbeats may be in what is still to be read."""
    driver = StepDriver()
    a = driver.join("a:1")
    driver.silent.add("a:1")
    driver.wait(7_000)
    driver.now_ms += 500
    for read_to_end, found in ((False, []), (True, [str(a)])):
        batch = Batch([], {}, 99, "i", 0, read_to_end=read_to_end)
        entries = step(driver.state, driver.watch, batch, driver.now_ms, driver.settings).entries
        assert [entry.session for entry in entries] == found


def test_guard_freezes_when_too_many_fall_silent_and_thaws_when_they_return() -> None:
    driver = StepDriver()
    for name in "abcde":
        driver.join(f"{name}:1")
    driver.silent.update({"a:1", "b:1", "c:1"})
    driver.wait(10_000)
    assert driver.state.frozen
    assert ended(driver) == []
    driver.silent.clear()
    driver.wait(1000)
    assert not driver.state.frozen
    assert ended(driver) == []


def test_guard_thaws_by_command_and_by_time() -> None:
    for by_command in (True, False):
        driver = StepDriver(with_settings(guard_thaw_after_ms=60_000))
        for name in "abcde":
            driver.join(f"{name}:1")
        driver.silent.update({"a:1", "b:1", "c:1"})
        driver.wait(10_000)
        assert driver.state.frozen
        if by_command:
            driver.command("thaw")
            driver.wait(1000)
        else:
            driver.wait(61_000)
        assert not driver.state.frozen
        assert len(ended(driver)) == 3


def test_one_of_four_is_no_mass_failure_and_neither_is_one_of_two() -> None:
    for names in ("abcd", "ab"):
        driver = StepDriver()
        for name in names:
            driver.join(f"{name}:1")
        driver.silent.add("a:1")
        driver.wait(8000)
        assert len(ended(driver)) == 1
        assert not driver.state.frozen


@pytest.mark.parametrize(
    ("names", "silent", "trips"),
    [
        ("abc", "ab", True),  # the fewest brokers that the breaker judges
        ("abc", "a", False),  # 33 %
        ("ab", "ab", False),  # too few to judge
        ("abcde", "ab", False),  # exactly 40 %
        ("abcde", "abc", True),
        ("abc", "abc", True),
    ],
)
def test_the_breaker_trips_above_two_fifths_of_three_brokers_or_more(names: str, silent: str, trips: bool) -> None:
    driver = StepDriver()
    for name in names:
        driver.join(f"{name}:1")
    driver.silent.update(f"{name}:1" for name in silent)
    driver.wait(8_000)
    assert (driver.state.frozen, len(ended(driver))) == (trips, 0 if trips else len(silent))


@pytest.mark.parametrize(("apart_ms", "trips"), [(40_000, True), (70_000, False)])
def test_the_breaker_counts_brokers_that_fell_silent_within_a_minute(apart_ms: int, trips: bool) -> None:
    driver = StepDriver()
    for name in "abc":
        driver.join(f"{name}:1")
    driver.silent.add("a:1")
    driver.wait(8_000)
    assert len(ended(driver)) == 1
    driver.wait(apart_ms)
    driver.silent.add("b:1")
    driver.wait(8_000)
    assert (driver.state.frozen, len(ended(driver))) == (trips, 1 if trips else 2)


def test_a_broker_that_has_come_back_is_not_counted_as_silent() -> None:
    driver = StepDriver()
    for name in "abcd":
        driver.join(f"{name}:1")
    for incarnation in (2, 3, 4):
        driver.silent.add("a:1")
        driver.wait(8000)
        driver.join("a:1", incarnation, f"n{incarnation}")
    driver.silent.add("b:1")
    driver.wait(8000)
    assert not driver.state.frozen, "one of four is silent now"
    assert len(ended(driver)) == 4


def test_a_broker_that_came_back_and_left_is_not_counted_as_silent_either() -> None:
    driver = StepDriver()
    for name in "abcd":
        driver.join(f"{name}:1")
    driver.silent.add("a:1")
    driver.wait(8_000)
    back = driver.join("a:1", 2, "n2")
    driver.wait(1_000)
    driver.run(BrokerEvent("goodbye", back, driver.state.seq), beats=False)
    del driver.sessions["a:1"]
    driver.silent.add("b:1")
    driver.wait(8_000)
    assert not driver.state.frozen, "one of three is silent now"
    assert len(ended(driver)) == 2 + 1


def test_what_a_dead_broker_owned_does_not_go_to_one_that_may_be_dying() -> None:
    driver = StepDriver()
    sessions = {name: driver.join(f"{name}:1") for name in "abcdef"}
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(sessions["a"], WHOLE)
    for name in "cdef":
        driver.command("drain", broker=f"{name}:1")  # so that b is the only one that may get anything
    driver.silent.add("a:1")
    driver.wait(1_000)
    driver.silent.add("b:1")
    driver.command("undrain", broker="f:1")
    driver.wait(7_000)
    assert sessions["a"] not in driver.state.sessions
    assert driver.state.bundles[str(WHOLE)].to == sessions["f"]


@pytest.mark.covers("broker-leaves")
def test_drained_broker_is_emptied_by_transfers_and_gets_nothing() -> None:
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    driver.command("drain", broker="a:1")
    assert (driver.of(WHOLE).state, driver.of(WHOLE).to) == (State.TRANSFERRING, b)
    driver.say(b, "accepted", WHOLE)
    driver.say(a, "released", WHOLE)
    driver.say(b, "serving", WHOLE)
    driver.say(b, "goodbye")
    driver.sessions.pop("b:1")
    driver.wait(1000)
    assert driver.of(WHOLE).state is State.FREE
    driver.command("undrain", broker="a:1")
    driver.wait(1000)
    assert driver.of(WHOLE).to == a


@pytest.mark.covers("broker-leaves")
def test_leaving_broker_hands_over_first_and_its_next_process_is_welcome() -> None:
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    driver.say(a, "leaving")
    assert (driver.of(WHOLE).state, driver.of(WHOLE).to) == (State.TRANSFERRING, b)
    driver.join("a:1", incarnation=2, nonce="n2")
    assert not driver.state.brokers["a:1"].leaving


def test_lagging_broker_is_no_target() -> None:
    """`a:1` would be chosen: it holds as little as `b:1`, and its name comes first."""
    driver = StepDriver(with_settings(lag_limit_entries=5))
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    stuck_at = driver.state.seq
    for _ in range(8):
        driver.command("round_now")
    driver.now_ms += LAG_ALLOWANCE_MS
    driver.watch.applied[a] = stuck_at
    del driver.sessions["a:1"]
    driver.run(Heartbeat(a, stuck_at))
    assert driver.watch.lagging(driver.state, driver.settings) == {"a:1"}, "and rounds are told so"
    driver.lookup(WHOLE)
    assert driver.of(WHOLE).to == b


def test_what_was_committed_a_moment_ago_makes_nobody_a_laggard() -> None:
    driver = StepDriver(with_settings(lag_limit_entries=5))
    a = driver.join("a:1")
    applied_seq = driver.state.seq
    driver.command("create_namespace", namespace="t/n", bundles=1)
    for _ in range(6):
        driver.command("round_now")
    driver.now_ms += LAG_ALLOWANCE_MS - 1
    driver.watch.applied[a] = applied_seq
    del driver.sessions["a:1"]
    driver.run(Heartbeat(a, applied_seq))
    driver.lookup(WHOLE)
    assert driver.of(WHOLE).to == a


def test_a_heartbeat_counts_from_the_moment_it_was_read() -> None:
    driver = StepDriver()
    a = driver.join("a:1")
    planned_ms = driver.now_ms
    late = Batch([Heartbeat(a, 0)], {}, 98, "i", 0, read_ms=planned_ms + 5_000)
    step(driver.state, driver.watch, late, planned_ms, driver.settings)
    empty = Batch([], {}, 99, "i", 0)
    step(driver.state, driver.watch, empty, planned_ms + 6_000, driver.settings)
    lease = driver.settings.lease_ms + driver.settings.margin_ms
    assert step(driver.state, driver.watch, empty, planned_ms + 5_000 + lease, driver.settings).entries == []
    assert step(driver.state, driver.watch, empty, planned_ms + 5_001 + lease, driver.settings).entries != []


def test_an_outage_may_have_begun_while_something_else_held_the_controller_up() -> None:
    """Kafka went away after the records had been read; the tables came back before it, and the next records later."""
    driver = StepDriver()
    driver.join("a:1")
    read_ms = driver.now_ms + 100
    held_up = Batch([], {}, 98, "i", 0, read_ms=read_ms)
    step(driver.state, driver.watch, held_up, driver.now_ms, driver.settings)
    lease_ms, margin_ms = driver.settings.lease_ms, driver.settings.margin_ms
    asked_ms, back_ms = read_ms + lease_ms - 1_000, read_ms + lease_ms + 2_500
    late = Batch([], {}, 99, "i", 0, read_ms=back_ms)
    assert step(driver.state, driver.watch, late, asked_ms, driver.settings).entries == []
    whole_ms = lease_ms + margin_ms
    for later_ms, ended in ((2_000, False), (lease_ms, False), (whole_ms, False), (whole_ms + 1, True)):
        at_ms = back_ms + later_ms
        result = step(driver.state, driver.watch, Batch([], {}, 100, "i", 0, read_ms=at_ms), at_ms, driver.settings)
        assert bool(result.entries) == ended


def test_brokers_that_leave_do_not_count_for_the_breaker() -> None:
    """Two of five leave, and one of those that stay dies: that is one failure, not three."""
    driver = StepDriver()
    sessions = {name: driver.join(f"{name}:1") for name in "abcde"}
    for name in "ab":
        driver.run(BrokerEvent("goodbye", sessions[name], driver.state.seq), beats=False)
        del driver.sessions[f"{name}:1"]
    driver.silent.add("c:1")
    driver.wait(8_000)
    assert not driver.state.frozen
    assert sessions["c"] not in driver.state.sessions
