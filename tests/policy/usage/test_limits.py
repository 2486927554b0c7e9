"""A CPU limit that only a new process tells is doubted for a while; any other one counts at once."""

from __future__ import annotations

import numpy as np

from controller.policy.usage.limits import DOUBTED_MS, KEPT_MS, SILENT_MS, LimitWatch
from controller.policy.view.tabulate import Columns

PANE_MS = 10_000
UNKNOWN = float("nan")


def pane(*rows: tuple[str, int, float, float]) -> Columns:
    """Broker, incarnation, usage, limit of each row."""
    brokers, incarnations, usages, limits = zip(*rows, strict=True)
    return {
        "broker": np.array(brokers, object), "incarnation": np.array(incarnations),
        "cpu_usage": np.array(usages), "cpu_limit": np.array(limits),
        "cpu_utilisation": np.divide(usages, np.where(np.equal(limits, 0), UNKNOWN, limits)),
    }  # fmt: skip


def believed(watch: LimitWatch, at_ms: int, *rows: tuple[str, int, float, float]) -> list[tuple[float, float]]:
    """Usage and limit of each row after a pane with them; the utilisation is theirs."""
    watch.note(pane(*rows), at_ms)
    found = watch.believed(pane(*rows), at_ms)
    usage, limit = (np.asarray(found[name], np.float64) for name in ("cpu_usage", "cpu_limit"))
    np.testing.assert_allclose(found["cpu_utilisation"], usage / np.where(limit == 0, UNKNOWN, limit))
    return list(zip(usage.tolist(), limit.tolist(), strict=True))


def test_a_new_process_has_at_most_its_predecessors_limit_for_two_minutes() -> None:
    watch = LimitWatch()
    other = ("b", 1, 10.0, 25.0)
    assert believed(watch, PANE_MS, ("a", 1, 5.0, 25.0), other) == [(5.0, 25.0), (10.0, 25.0)]
    back_ms = 500_000
    for at_ms in range(back_ms, back_ms + DOUBTED_MS, PANE_MS):
        assert believed(watch, at_ms, ("a", 2, 40.0, 200.0), other) == [(40.0, 25.0), (10.0, 25.0)]
    assert believed(watch, back_ms + DOUBTED_MS, ("a", 2, 40.0, 200.0), other) == [(40.0, 200.0), (10.0, 25.0)]


def test_the_quota_counts_as_soon_as_it_is_told_and_so_does_any_smaller_limit() -> None:
    watch = LimitWatch()
    believed(watch, PANE_MS, ("a", 1, 5.0, 25.0))
    believed(watch, 2 * PANE_MS, ("a", 2, 40.0, 200.0))
    assert believed(watch, 3 * PANE_MS, ("a", 2, 6.0, 25.0)) == [(6.0, 25.0)]
    assert believed(watch, 4 * PANE_MS, ("a", 3, 6.0, 12.0)) == [(6.0, 12.0)]


def test_a_running_process_may_get_a_larger_limit_and_a_broker_never_heard_of_any() -> None:
    watch = LimitWatch()
    believed(watch, PANE_MS, ("a", 1, 5.0, 25.0))
    assert believed(watch, 2 * PANE_MS, ("a", 1, 5.0, 50.0), ("c", 1, 5.0, 400.0)) == [(5.0, 50.0), (5.0, 400.0)]


def test_a_process_that_ended_while_it_was_doubted_hands_down_what_was_believed() -> None:
    watch = LimitWatch()
    for number, row in enumerate([("a", 1, 5.0, 25.0), ("a", 2, 40.0, 200.0), ("a", 3, 40.0, 200.0)]):
        found = believed(watch, (1 + number) * PANE_MS, row)
    assert found == [(40.0, 25.0)]


def test_two_processes_of_a_broker_in_one_pane_are_told_apart() -> None:
    watch = LimitWatch()
    rows = ("a", 1, 5.0, 25.0), ("a", 2, 40.0, 200.0)
    assert believed(watch, PANE_MS, *rows) == [(5.0, 25.0), (40.0, 25.0)]


def test_a_process_with_a_smaller_number_counts_once_the_other_is_silent() -> None:
    """A clock that was set back numbers processes like this."""
    watch = LimitWatch()
    believed(watch, PANE_MS, ("a", 5, 5.0, 25.0))
    assert believed(watch, 2 * PANE_MS, ("a", 3, 40.0, 200.0)) == [(40.0, 200.0)]
    assert believed(watch, 2 * PANE_MS + SILENT_MS, ("a", 3, 40.0, 200.0)) == [(40.0, 25.0)]


def test_an_unknown_limit_says_nothing() -> None:
    watch = LimitWatch()
    believed(watch, PANE_MS, ("a", 1, 5.0, 25.0))
    assert np.isnan(believed(watch, 2 * PANE_MS, ("a", 2, UNKNOWN, UNKNOWN))).all()
    assert believed(watch, 3 * PANE_MS, ("a", 2, 40.0, 200.0)) == [(40.0, 25.0)]
    assert believed(watch, 4 * PANE_MS, ("d", 1, UNKNOWN, UNKNOWN), ("e", 1, 1.0, 100.0))[1] == (1.0, 100.0)
    assert believed(watch, 5 * PANE_MS, ("d", 2, 1.0, 100.0)) == [(1.0, 100.0)], "nobody knew its first one's"
    for impossible in (0.0, -1.0):
        believed(watch, 6 * PANE_MS, ("f", 1, 1.0, impossible))
        assert believed(watch, 7 * PANE_MS, ("f", 2, 1.0, 100.0)) == [(1.0, 100.0)]


def test_a_broker_that_was_away_for_an_hour_is_new() -> None:
    watch = LimitWatch()
    believed(watch, PANE_MS, ("a", 1, 5.0, 25.0), ("b", 1, 10.0, 25.0))
    believed(watch, PANE_MS + KEPT_MS, ("b", 1, 10.0, 25.0))
    assert believed(watch, 2 * PANE_MS + KEPT_MS, ("a", 2, 40.0, 200.0)) == [(40.0, 200.0)]
