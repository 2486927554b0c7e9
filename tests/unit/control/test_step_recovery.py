"""What a controller was told and had not done yet when it was killed: the next one finds it in the journal."""

from __future__ import annotations

import pytest

from controller.domain.apply import fold
from controller.domain.decision import RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode, encode
from tests.unit.control.step_driver import StepDriver

SILENT = ("a:1", "b:1", "c:1")


def frozen() -> StepDriver:
    """Five brokers, three of them silent for good: the guard holds their leases."""
    driver = StepDriver()
    for name in "abcde":
        driver.join(f"{name}:1")
    driver.silent.update(SILENT)
    driver.wait(10_000)
    assert driver.state.frozen
    return driver


def ended(driver: StepDriver) -> set[str]:
    return {e.broker or "" for e in driver.journal if e.kind is Kind.SESSION_ENDED}


def patience_ms(driver: StepDriver) -> int:
    return driver.settings.lease_ms + driver.settings.margin_ms


def test_a_thaw_outlives_the_controller_that_accepted_it() -> None:
    driver = frozen()
    driver.command("thaw")
    assert ended(driver) == set(), "the judgement comes with the next batch"
    driver.restart()
    driver.wait(patience_ms(driver) + 1_000)
    assert ended(driver) == set(SILENT)
    assert not driver.state.frozen
    assert not driver.state.thawing


def test_a_restart_does_not_thaw_by_itself() -> None:
    """Nobody has come back: a fresh lease for everybody is no news of anybody."""
    driver = frozen()
    before = len([e for e in driver.journal if e.kind is Kind.GUARD])
    driver.restart()
    driver.wait(patience_ms(driver) + 5_000)
    assert driver.state.frozen
    assert ended(driver) == set()
    assert len([e for e in driver.journal if e.kind is Kind.GUARD]) == before


def test_who_had_ended_before_the_guard_froze_still_counts_as_silent_after_a_restart() -> None:
    """Two of five end, the third freezes the guard: forgotten, it would be one of the three that live, and thaw it."""
    driver = StepDriver()
    for name in "abcde":
        driver.join(f"{name}:1")
    for silent in ("a:1", "b:1", "c:1"):
        driver.silent.add(silent)
        driver.wait(3_000)
    driver.wait(8_000)
    assert driver.state.frozen
    assert ended(driver) == {"a:1", "b:1"}
    driver.restart()
    driver.wait(patience_ms(driver) + 5_000)
    assert driver.state.frozen
    assert ended(driver) == {"a:1", "b:1"}
    driver.command("thaw")
    driver.wait(1_000)
    assert ended(driver) == {"a:1", "b:1", "c:1"}


def test_after_a_restart_the_guard_thaws_once_they_are_heard() -> None:
    driver = frozen()
    driver.restart()
    driver.silent.clear()
    driver.wait(patience_ms(driver) + 1_000)
    assert not driver.state.frozen
    assert ended(driver) == set()


def test_brokers_that_return_make_a_thaw_pointless() -> None:
    driver = frozen()
    driver.silent.clear()
    driver.command("thaw")
    driver.wait(1_000)
    assert not driver.state.frozen
    assert ended(driver) == set()
    driver.silent.update(SILENT)
    driver.wait(10_000)
    assert driver.state.frozen, "an earlier thaw must not count for a later failure"


@pytest.mark.covers("force-evaluation")
def test_a_wanted_round_stays_wanted_until_one_has_seen_the_wish() -> None:
    driver = StepDriver()
    driver.command("round_now")
    wish = next(e for e in driver.journal if e.data.get("kind") == "round_now")
    assert (driver.state.round_wanted, driver.state.round_wanted_seq) == (wish.command_id, wish.seq)
    driver.restart()
    driver.round(_round("1000", 1_000, state_seq=wish.seq - 1))
    assert driver.state.round_wanted == wish.command_id, "that round was computed before the command"
    driver.round(_round("1000-now", 1_000, state_seq=wish.seq))
    assert driver.state.round_wanted == ""


def test_a_challenger_answers_no_wish() -> None:
    driver = StepDriver()
    driver.command("round_now")
    driver.round(_round("1000", 1_000, state_seq=driver.state.seq, challenger=True))
    assert driver.state.round_wanted


def test_wishes_survive_a_base_snapshot_and_older_snapshots_have_none() -> None:
    driver = frozen()
    driver.command("thaw")
    driver.command("round_now")
    assert decode(encode(driver.state)) == driver.state
    old = (
        encode(ClusterState(seq=4))
        .replace('"thawing":false,', "")
        .replace(',"round_wanted":"","round_wanted_seq":0', "")
    )
    assert "wanted" not in old
    assert decode(old) == ClusterState(seq=4)


def test_a_rejected_command_is_no_wish() -> None:
    refused = Entry(1, Kind.COMMAND_REJECTED, "i", 0, 0, command_id="c", data={"kind": "thaw"})
    assert not fold(ClusterState(frozen=True), [refused]).thawing


def _round(round_id: str, at_ms: int, state_seq: int, challenger: bool = False) -> RoundResult:
    return RoundResult(round_id, at_ms, state_seq, "headroom", (), (), {}, "hash", challenger)
