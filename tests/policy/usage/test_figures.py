"""CPU figures that stand for a minute are told from fresh readings, and from means of two of them."""

from __future__ import annotations

import numpy as np
import pytest

from controller.policy.usage.figures import FRESH, MISSED, Figure, FigureWatch
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


@pytest.fixture
def watch() -> FigureWatch:
    """Up to pane 19: two figures have followed each other, the second since pane 15."""
    watch = FigureWatch()
    assert note(watch, 9, *[4.0] * 5, 4.5, *[5.0] * 5) == 20
    return watch


def test_figures_stand_once_two_have_followed_each_other() -> None:
    watch = FigureWatch()
    at = note(watch, 9, *[4.0] * 5)
    assert watch.standing() == {}, "an idle broker's readings may be like that"
    at = note(watch, at, 4.5, 5.0, 5.0)
    assert watch.standing() == {}
    note(watch, at, 5.0)
    assert watch.standing() == {"a": Figure(5.0, 130_000)}, "it may have come in the pane before"


def test_the_next_one_counts_once_it_came_again_and_a_mean_of_two_never_does(watch: FigureWatch) -> None:
    at = note(watch, 20, 6.5, 8.0)
    assert watch.standing()["a"].value == 5.0
    note(watch, at, 8.0)
    assert watch.standing() == {"a": Figure(8.0, 190_000)}


def test_fresh_readings_never_stand_and_end_what_stood(watch: FigureWatch) -> None:
    note(watch, 20, *(10.0 + number for number in range(FRESH)))
    assert watch.standing() == {}
    fresh = FigureWatch()
    note(fresh, 10, 1.0, 2.0, 3.0, 2.0, 3.0)
    assert fresh.standing() == {}


def test_an_idle_brokers_readings_that_stay_the_same_hide_nothing() -> None:
    """As whole percents do: the same one again and again, and another one now and then."""
    watch = FigureWatch()
    at = note(watch, 10, *[2.0] * 20, 3.0, *[2.0] * 20)
    assert watch.standing() == {}
    at = note(watch, at, 3.0, 3.0, 3.0)
    assert watch.standing(), "told from figures by nothing"
    note(watch, at, 90.0, 91.0, 92.0)
    assert watch.standing() == {}


def test_a_pane_that_is_missing_is_passed_over(watch: FigureWatch) -> None:
    at = note(watch, 20, float("nan"), 5.0)
    assert watch.standing() == {"a": Figure(5.0, 130_000)}
    nobody = {name: column[:0] for name, column in pane(1.0).items()}
    for _ in range(MISSED):
        watch.note(nobody, at * PANE_MS, PANE_MS)
        at += 1
    assert watch.standing()
    watch.note(nobody, at * PANE_MS, PANE_MS)
    assert watch.standing() == {}


def test_another_process_begins_anew(watch: FigureWatch) -> None:
    note(watch, 20, 5.0, incarnation=2)
    assert watch.standing() == {}
