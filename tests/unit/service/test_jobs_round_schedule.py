"""Rounds lie on the reports' own clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.service.rounds.schedule import Progress, Schedule

LIVE = Schedule(interval_ms=60_000, late_allowance_ms=2_000, pane_ms=10_000)
REPLAY = Schedule(interval_ms=10_000, late_allowance_ms=2_000, pane_ms=10_000, every=True)
T0 = 1_800_000_000_000


def test_nothing_is_due_without_reports() -> None:
    assert LIVE.next_due(0, None) is None
    assert LIVE.now(None) is None


@pytest.mark.covers("shedding-interval")
@pytest.mark.parametrize(("newest", "due"), [(T0 + 62_000, None), (T0 + 62_001, T0 + 60_000)])
def test_a_round_waits_for_a_report_newer_than_its_allowance(newest: int, due: int | None) -> None:
    assert LIVE.next_due(T0, Progress(T0 - 500_000, newest)) == due


@pytest.mark.covers("keeps-balancing")
def test_a_lagging_live_controller_skips_to_the_newest_round() -> None:
    assert LIVE.next_due(T0, Progress(T0 - 500_000, T0 + 303_000)) == T0 + 300_000


def test_a_replay_takes_every_round_in_order() -> None:
    progress = Progress(T0 + 3_000, T0 + 45_000)
    at, seen = 0, []
    while (due := REPLAY.next_due(at, progress)) is not None:
        seen.append(due)
        at = due
    assert seen == [T0 + 10_000, T0 + 20_000, T0 + 30_000, T0 + 40_000]


def test_the_same_round_is_never_due_twice() -> None:
    assert LIVE.next_due(T0 + 60_000, Progress(T0, T0 + 63_000)) is None


@pytest.mark.covers("keeps-balancing")
def test_after_a_commanded_round_the_grid_goes_on() -> None:
    assert LIVE.next_due(T0 + 70_000, Progress(T0, T0 + 123_000)) == T0 + 120_000


def test_no_round_before_the_first_report() -> None:
    assert LIVE.next_due(0, Progress(T0 + 100, T0 + 30_000)) is None


@pytest.mark.covers("force-evaluation")
def test_a_commanded_round_takes_the_newest_complete_pane() -> None:
    assert LIVE.now(Progress(T0, T0 + 34_000)) == T0 + 30_000
    assert LIVE.now(Progress(T0 + 1, T0 + 5_000)) is None


def test_an_early_round_keeps_its_distance_to_the_one_before() -> None:
    early = replace(LIVE, least_ms=20_000)
    assert early.early(T0, Progress(T0 - 500_000, T0 + 22_000)) is None
    assert early.early(T0, Progress(T0 - 500_000, T0 + 22_001)) == T0 + 20_000
    assert early.early(T0, Progress(T0 - 500_000, T0 + 41_000)) == T0 + 30_000, "the newest complete pane"
    assert early.early(T0, None) is None
    assert early.early(0, Progress(T0, T0 + 62_000)) is None, "the first round is a usual one"


def test_there_are_no_early_rounds_where_they_are_off_or_in_replays() -> None:
    progress = Progress(T0 - 500_000, T0 + 50_000)
    assert LIVE.early(T0, progress) is None
    assert replace(REPLAY, least_ms=1_000).early(T0, progress) is None
