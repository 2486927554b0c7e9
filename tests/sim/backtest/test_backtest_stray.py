"""Which times of a recording lie apart from the others, and which pauses are part of it."""

from __future__ import annotations

import random

from controller.backtest.recording.stray import APART_MS, find_strays

NOW_MS = 1_795_224_750_000
MINUTE = [NOW_MS + 1_000 * at for at in range(60)]


def test_one_report_at_another_time_is_a_stray() -> None:
    for other_ms in (1, NOW_MS - 2 * APART_MS, NOW_MS + 40 * 365 * APART_MS):
        strays = find_strays([*MINUTE, other_ms])
        assert [at_ms for at_ms in (*MINUTE, other_ms) if strays.holds(at_ms)] == [other_ms]
        assert f"({other_ms} ms)" in strays.refusal(16, other_ms).text


def test_a_recording_of_few_reports_and_one_of_two_have_strays() -> None:
    assert find_strays([NOW_MS, NOW_MS + 5, 1]).holds(1)
    assert [at_ms for at_ms in (NOW_MS, 1) if find_strays([NOW_MS, 1]).holds(at_ms)] == [1], "the later one counts"
    assert not find_strays([NOW_MS]).holds(NOW_MS)
    assert not find_strays([]).holds(NOW_MS)


def test_a_broker_whose_clock_was_not_set_at_first_has_strays() -> None:
    unset = [1_000 * at for at in range(40)]
    strays = find_strays([*unset, *(NOW_MS + 1_000 * at for at in range(600))])
    assert all(map(strays.holds, unset))


def test_parts_with_a_pause_of_days_all_count() -> None:
    parts = [[ms + 3 * APART_MS * day for ms in MINUTE[: 10 + 10 * day]] for day in range(4)]
    assert not find_strays([ms for part in parts for ms in part]).parts
    assert not find_strays(range(NOW_MS, NOW_MS + 30 * APART_MS, APART_MS)).parts, "a report a day is a recording"


def test_the_order_of_reports_makes_no_difference() -> None:
    times = [*MINUTE, 5, NOW_MS - 9 * APART_MS, NOW_MS + 9 * APART_MS]
    shuffled = random.Random(5).sample(times, len(times))
    assert find_strays(shuffled) == find_strays(times)
    assert len(find_strays(times).parts) == 3
