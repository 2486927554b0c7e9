"""CPU figures that stand for a minute are told from fresh readings, and from means of two of them."""

from __future__ import annotations

import numpy as np

from controller.policy.usage.figures import FRESH, Figure, FigureWatch
from controller.policy.view.tabulate import Columns

PANE_MS = 10_000


def pane(usage: float, incarnation: int = 1) -> Columns:
    return {
        "broker": np.array(["a"], object), "incarnation": np.array([incarnation]), "cpu_usage": np.array([usage]),
    }  # fmt: skip


def note(watch: FigureWatch, at: int, *values: float, incarnation: int = 1) -> int:
    """Panes with these values, from number `at` on; returns the next number."""
    for value in values:
        watch.note(pane(value, incarnation), at * PANE_MS, PANE_MS)
        at += 1
    return at


def test_a_figure_stands_once_three_panes_had_it() -> None:
    watch = FigureWatch()
    at = note(watch, 10, 5.0, 5.0)
    assert watch.standing() == {}
    note(watch, at, 5.0)
    assert watch.standing() == {"a": Figure(5.0, 80_000)}, "it may have come in the pane before"


def test_the_next_one_counts_once_it_came_again_and_a_mean_of_two_never_does() -> None:
    watch = FigureWatch()
    at = note(watch, 10, *[5.0] * 6)
    at = note(watch, at, 6.5, 8.0)
    assert watch.standing()["a"].value == 5.0
    note(watch, at, 8.0)
    assert watch.standing() == {"a": Figure(8.0, 150_000)}


def test_fresh_readings_never_stand_and_end_what_stood() -> None:
    watch = FigureWatch()
    note(watch, 10, 1.0, 2.0, 3.0, 2.0, 3.0)
    assert watch.standing() == {}
    at = note(watch, 20, *[5.0] * 4)
    assert watch.standing()
    note(watch, at, *(float(number) for number in range(FRESH)))
    assert watch.standing() == {}


def test_another_process_and_an_unknown_reading_begin_anew() -> None:
    watch = FigureWatch()
    at = note(watch, 10, 5.0, 5.0)
    at = note(watch, at, 5.0, incarnation=2)
    assert watch.standing() == {}
    at = note(watch, at, 5.0, 5.0, incarnation=2)
    assert watch.standing()
    note(watch, at, float("nan"), incarnation=2)
    assert watch.standing() == {}
