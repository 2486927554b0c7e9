"""The Pareto front against its definition, on random points with ties; the knee where a front visibly bends."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controller.backtest.choose.pareto import DAY_MS, churn, knee, pareto_front, span_ms
from controller.backtest.point.result import PointRun, Timeline
from tests.sim.backtest.test_backtest_result import POINT


def dominated(point: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    return any(o[0] <= point[0] and o[1] <= point[1] and o != point for o in others)


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_nothing_dominates(seed: int) -> None:
    dice = random.Random(seed)
    points = [(dice.randint(0, 6) / 4, dice.randint(0, 6) / 2) for _ in range(dice.randint(1, 40))]
    front = pareto_front(*zip(*points, strict=True))
    first_of_each = {point: points.index(point) for point in points}
    assert sorted(front) == sorted(at for point, at in first_of_each.items() if not dominated(point, points))
    assert [points[at][0] for at in front] == sorted(points[at][0] for at in front)


def test_no_points_and_figures_that_are_no_numbers() -> None:
    assert pareto_front([], []) == ()
    assert pareto_front([float("nan"), 1.5, 1.0], [0.0, float("inf"), 3.0]) == (2,)


def test_the_knee_is_where_more_moves_buy_little() -> None:
    imbalance, moves = [1.50, 1.10, 1.08, 1.07, 1.30], [0.0, 0.2, 0.6, 1.5, 0.1]
    front = pareto_front(imbalance, moves)
    assert front == (3, 2, 1, 4, 0)
    assert knee(imbalance, moves, front) == 1


def test_a_front_of_two_points_or_of_a_line_has_no_bend_to_speak_of() -> None:
    assert knee([1.0, 2.0], [2.0, 1.0], (0, 1)) is None
    straight = [1.0, 2.0, 3.0, 4.0]
    assert knee(straight, straight[::-1], (0, 1, 2, 3)) == 2  # equal distances: fewer moves


def test_churn_is_moves_for_balance_a_bundle_a_day() -> None:
    point = replace(POINT, bundles=20, moves_balance=30, moves_addition=500, moves_removal=70)
    assert churn(point, DAY_MS // 2) == 3.0
    assert churn(point, 0) == churn(replace(point, bundles=0), DAY_MS) == 0.0


@pytest.mark.parametrize(
    ("at_ms", "lasted"),
    [
        ((), 0),
        ((30_000,), 0),
        ((30_000, 60_000, 180_000), 180_000),
        ((30_000, 60_000, 3 * DAY_MS, 3 * DAY_MS + 30_000), 120_000),
        ((0, 1_700_000_000_000, 1_700_000_030_000, 1_700_000_060_000), 120_000),
    ],
)
def test_a_run_lasts_from_the_start_of_its_first_step_without_long_gaps(at_ms: tuple[int, ...], lasted: int) -> None:
    ones = (1.0,) * len(at_ms)
    assert span_ms(PointRun(POINT, Timeline(at_ms, ones, ones, (0,) * len(at_ms)))) == lasted
