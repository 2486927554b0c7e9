"""Controllers, agents and operators of another journal on this one's topics: heard, told once, granted nothing."""

from __future__ import annotations

import json

import pytest

from controller.control.strays import MOST_ALARMS
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BadRecord
from controller.domain.events import Command, Heartbeat, Tick, parse_command, parse_heartbeat
from controller.domain.ids import Bundle, Session
from tests.unit.control.step_driver import StepDriver

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)
B = Session("b:1", 1, "n1", 1)


@pytest.fixture
def driver() -> StepDriver:
    """A controller whose journal is `ours`."""
    made = StepDriver()
    started = Entry(made.state.seq + 1, Kind.CONTROLLER_STARTED, "i", 0, 0, data={"journal_id": "ours"})
    made.state = fold(made.state, [started])
    return made


def alarms(driver: StepDriver) -> list[tuple[str | None, str | None, str]]:
    return [(e.reason, e.broker, e.data["journal_id"]) for e in driver.journal if e.kind is Kind.ALARM]


def test_an_agent_of_another_journal_is_neither_registered_nor_granted_anything(driver: StepDriver) -> None:
    for _ in range(3):
        driver.run(Heartbeat(B, 5, {"runtime": "reference"}, "other"))
    assert driver.state.brokers == {}
    assert driver.watch.refused["heartbeat_of_another_journal"] == 3
    assert alarms(driver) == [("stray_agent", "b:1", "other")]
    a = driver.join("a:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    driver.command("unload_bundle", bundle=str(WHOLE), to="b:1")
    assert driver.of(WHOLE).by == a


@pytest.mark.parametrize("journal_id", ["ours", None])
def test_one_that_follows_this_journal_or_names_none_is_registered(driver: StepDriver, journal_id: str | None) -> None:
    driver.run(Heartbeat(B, 0, {"runtime": "reference"}, journal_id))
    assert B in driver.state.sessions
    assert alarms(driver) == []


def test_an_agent_that_has_read_no_journal_waits_and_is_told_of_after_a_lease(driver: StepDriver) -> None:
    beat = parse_heartbeat(
        json.dumps(
            {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n1", "session": 1, "applied_seq": 0, "sent_ms": 0,
             "info": {"runtime": "reference"}, "journal_id": ""}
        ).encode()
    )  # fmt: skip
    assert isinstance(beat, Heartbeat)
    driver.run(beat)
    assert driver.state.brokers == {}
    assert alarms(driver) == []
    for _ in range(9):
        driver.now_ms += 1_000
        driver.run(beat)
    assert alarms(driver) == [("stray_agent", "b:1", "")]
    driver.run(Heartbeat(B, 1, {"runtime": "reference"}, "ours"))
    assert B in driver.state.sessions


def test_a_heartbeat_that_names_another_journal_renews_no_lease(driver: StepDriver) -> None:
    driver.run(Heartbeat(B, 0, {"runtime": "reference"}, "ours"))
    for _ in range(9):
        driver.now_ms += 1_000
        driver.run(Heartbeat(B, 0, {"runtime": "reference"}, "other"))
    assert B not in driver.state.sessions


def test_a_controller_of_another_journal_is_told_once_and_changes_nothing(driver: StepDriver) -> None:
    before = driver.state
    for number in range(5):
        driver.run(Tick(f"stray-{number}", 10_000, "other"))
    assert alarms(driver) == [("stray_controller", None, "other")]
    assert driver.watch.refused["tick_of_another_journal"] == 5
    assert (driver.state.instance, driver.state.mode) == (before.instance, before.mode)
    driver.run(Tick("i", 1, "ours"), Tick("older", 1, None), Tick("stray", 1, "third"))
    assert [journal for _, _, journal in alarms(driver)] == ["other", "third"]


def test_who_invents_journals_does_not_fill_this_one(driver: StepDriver) -> None:
    for number in range(3 * MOST_ALARMS):
        driver.run(Tick("stray", 1, f"j{number}"))
    assert len(alarms(driver)) == MOST_ALARMS


def test_a_journal_without_an_id_knows_no_strays() -> None:
    driver = StepDriver()
    driver.run(Heartbeat(B, 0, {"runtime": "reference"}, "any"), Tick("t", 1, "any"))
    assert B in driver.state.sessions
    assert alarms(driver) == []


def test_records_with_and_without_a_journal_are_read() -> None:
    beat = {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n1", "session": 1, "applied_seq": 0}
    tick = {"v": 1, "kind": "tick", "instance": "i", "seq": 1}
    for record, empty in ((beat, ""), (tick, None)):
        assert [
            parse_heartbeat(json.dumps(record | more).encode()).journal_id
            for more in ({}, {"journal_id": ""}, {"journal_id": None}, {"journal_id": "ours"})
        ] == [None, empty, None, "ours"]
        for bad in (7, "x" * 65, ["ours"], "a\nb"):
            with pytest.raises(BadRecord, match="journal_id"):
                parse_heartbeat(json.dumps(record | {"journal_id": bad}).encode())


def test_a_command_for_another_journal_is_neither_carried_out_nor_answered(driver: StepDriver) -> None:
    for number in range(3):
        driver.run(Command(f"k{number}", "mode", {"mode": "paused"}, "ann@h", "", "other"))
    assert driver.state.mode != "paused"
    assert "k0" not in driver.state.commands
    assert driver.watch.refused["command_for_another_journal"] == 3
    assert alarms(driver) == [("stray_command", None, "other")]
    (told,) = [e for e in driver.journal if e.kind is Kind.ALARM]
    assert {k: told.data[k] for k in ("who", "kind", "command_id")} == {
        "who": "ann@h", "kind": "mode", "command_id": "k0"
    }  # fmt: skip


@pytest.mark.parametrize("journal_id", ["ours", None])
def test_a_command_for_this_journal_or_of_an_older_version_is_carried_out(
    driver: StepDriver, journal_id: str | None
) -> None:
    driver.run(Command("k1", "mode", {"mode": "paused"}, "ann@h", "", journal_id))
    assert driver.state.mode == "paused"
    assert alarms(driver) == []


def test_commands_with_and_without_a_journal_are_read() -> None:
    record = {"v": 1, "id": "c1", "kind": "mode", "args": {}}
    for more, expected in (({}, None), ({"journal_id": ""}, None), ({"journal_id": "ours"}, "ours")):
        assert parse_command(json.dumps(record | more).encode()).journal_id == expected
