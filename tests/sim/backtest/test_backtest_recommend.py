"""What a backtest recommends: the rule on results whose answer is plain, its reasons, and what it asks for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from controller.backtest.choose.choose import choose, choose_for_each, knobs_that_matter
from controller.backtest.choose.model_error import FEWEST_CHECKED, model_error
from controller.backtest.choose.pareto import DAY_MS
from controller.backtest.choose.points import describe_point
from controller.backtest.choose.rationale import RANGES, _count, _few_digits
from controller.backtest.choose.recommend import Recommendation, recommend
from controller.backtest.point.grid import grid_points
from controller.backtest.point.result import PointResult
from controller.config.settings import Settings
from controller.domain.settings.policy import PolicySettings, SteadySettings
from tests.sim.backtest.test_backtest_result import POINT

BASE = PolicySettings()
TOLERANCES, CHURNS, BUDGETS = (0.02, 0.05, 0.1), (0.005, 0.01, 0.02), (0.5, 1.0, 2.0)


def point(strategy: str = "steady", max_best: float = 1.1, moves: int = 50, **changes: Any) -> PointResult:
    return replace(
        POINT, strategy=strategy, knobs={}, max_best_mean=max_best, moves_balance=moves, overload_minutes=0.0, **changes
    )


def steady(tolerance: float, churn: float, budget: float) -> PointResult:
    """Tighter costs moves and brings balance, up to a point; budgets above 1 are never used up."""
    moves = round(6 / tolerance - 1000 * churn) + (0 if budget >= 1 else -20)
    knobs = {"steady.tolerance": tolerance, "steady.churn": churn, "steady.budget": budget}
    max_best = 1.05 + tolerance / 2 + churn + (0 if budget >= 1 else 0.2)
    return replace(point(max_best=round(max_best, 6), moves=moves, n_checked=200, error_p90=0.0421), knobs=knobs)


GRID = [steady(*knobs) for knobs in product(TOLERANCES, CHURNS, BUDGETS)]


def found(results: list[PointResult], base: PolicySettings = BASE, lasted_ms: int = DAY_MS) -> Recommendation:
    return recommend(results, lasted_ms, base)


@pytest.mark.covers("backtest")
def test_the_fewest_moves_within_three_percent_of_the_best_without_more_overload() -> None:
    results = [point(max_best=1.10, moves=400), point(max_best=1.12, moves=90), point(max_best=1.15, moves=10)]
    choice = choose(results, range(3), BASE)
    assert choice is not None
    assert (choice.chosen, choice.best, choice.within) == (1, 0, (0, 1))
    overloads = [results[0], replace(results[1], overload_minutes=0.5), results[2]]
    spared = choose(overloads, range(3), BASE)
    assert spared is not None
    assert (spared.chosen, spared.within) == (0, (0,))


def test_splits_count_as_moves() -> None:
    choice = choose([point(moves=10, splits=8), point(moves=15, splits=0)], range(2), BASE)
    assert choice is not None
    assert choice.chosen == 1


def test_ties_go_to_steady_then_to_what_is_configured_then_to_the_first() -> None:
    plain = [point("threshold"), point("steady"), point("average")]
    assert found(plain).strategy == "steady"
    assert found(plain[::-1]).strategy == "steady"
    tied = [replace(point(), knobs={"steady.budget": budget}) for budget in (0.5, 1.0, 2.0)]
    for budget, at in ((0.5, 0), (1.0, 1), (2.0, 2), (7.0, 0)):
        choice = choose(tied, range(3), replace(BASE, steady=SteadySettings(budget=budget)))
        assert choice is not None
        assert choice.chosen == at


@pytest.mark.covers("backtest")
def test_all_three_knobs_of_steady_with_the_one_that_did_nothing_as_configured() -> None:
    base = replace(BASE, steady=SteadySettings(budget=3.0))
    enough = [result for result in GRID if result.knobs["steady.budget"] != 0.5]
    said = found(enough, base)
    assert said.strategy == "steady"
    assert said.settings == {
        "steady.tolerance": 0.05, "steady.churn": 0.02, "steady.budget": 3.0, "steady.model_error": 0.043,
    }  # fmt: skip
    assert knobs_that_matter(enough, "steady") == {"steady.tolerance", "steady.churn"}
    assert "budget made no difference: keep 3." in said.reasons


def test_the_reasons_name_rule_neighbours_and_the_price_of_a_tight_tolerance() -> None:
    text = "\n".join(found(GRID).reasons)
    chosen = steady(0.05, 0.02, 1.0)
    figures = f"max/best {chosen.max_best_mean:.3f}, 100 moves for balance, "
    assert f"`steady` with budget 1, churn 0.02, tolerance 0.05: {figures}" in text
    assert "within 3% of the best max/best (1.065)" in text
    assert "tolerance, all else as recommended: 0.02: max/best 1.080, 280 moves for balance" in text
    assert (
        "A tolerance as tight as 0.02 would cost 180 moves more (2.8 times as many) for a max/best lower by 0.015"
        in text
    )
    assert "Nine in ten of 200 predictions by `steady` were off by at most 0.042" in text


def test_the_highest_value_tried_is_no_optimum_yet() -> None:
    asked = found(GRID).advice
    assert asked == (
        "churn 0.02 is the highest tried: add 0.04 to its --grid.",
        "No point was run with steady.model_error 0.043: see what it costs with --grid steady.model_error=0,0.043.",
    )


def test_what_it_asks_to_be_run_is_what_the_configuration_allows() -> None:
    for name, (low, high) in RANGES.items():
        field = type(Settings().steady).model_fields[name.partition(".")[2]]
        assert (low, high) == (field.metadata[0].ge, field.metadata[1].le)
    wide = [replace(steady(t, 0.0, 1.0), max_best_mean=1.0 + t, moves_balance=round(9 - t)) for t in (0.001, 0.5, 1.0)]
    (lowest,) = (result for result in wide if result.knobs["steady.tolerance"] == 0.001)
    assert not [line for line in found([lowest, wide[1]]).advice if "add" in line], "below 0.001 is nothing"
    assert "add 1 to its --grid" in " ".join(found([replace(wide[1], max_best_mean=1.0), lowest]).advice)
    asked = found([point()], replace(BASE, steady=SteadySettings(tolerance=0.8, churn=0.6, budget=0.0))).advice[0]
    assert "steady.tolerance=0.32,0.8,1 --grid steady.churn=0.24,0.6,1 --grid" in asked


def test_switches_and_missing_values_are_shown_as_the_grid_takes_them() -> None:
    results = [
        replace(point(max_best=best, moves=3), knobs={"shed.enabled": on, "caps.max_bundles": cap})
        for best, on, cap in ((1.1, True, None), (1.3, False, None), (1.2, True, 40))
    ]
    text = "\n".join(found(results).reasons)
    assert "shed.enabled, all else as recommended: false: max/best 1.300" in text
    assert "caps.max_bundles, all else as recommended: none: max/best 1.100" in text


def test_a_knob_that_does_nothing_where_it_was_chosen_is_not_followed_further() -> None:
    flat = [result for result in GRID if result.knobs["steady.budget"] != 0.5]
    said = found([*flat, steady(0.02, 0.005, 0.5)], replace(BASE, steady=SteadySettings(budget=2.0)))
    assert said.settings["steady.budget"] == 2.0
    assert any(line.startswith("budget makes no difference there: max/best 1.095, 100 moves") for line in said.reasons)
    assert not any(line.startswith("budget") for line in said.advice)


def test_without_knobs_it_says_what_grid_to_run_and_the_grid_is_one_that_runs() -> None:
    said = found([point(), point("average")])
    assert {name: said.settings[name] for name in said.settings} == {
        "steady.tolerance": 0.06, "steady.churn": 0.04, "steady.budget": 1.0,
    }  # fmt: skip
    (line,) = said.advice
    assert "tolerance, churn and budget of `steady` had one value only" in line
    axes = [word.rstrip(".") for word in line.split() if word.startswith("steady.")]
    assert axes == [
        "steady.tolerance=0.024,0.06,0.12", "steady.churn=0.016,0.04,0.08", "steady.budget=0.4,1,2",
    ]  # fmt: skip
    assert len(grid_points(["steady"], axes)) == 27


def test_a_value_that_was_run_alone_is_kept_and_its_axis_asked_for() -> None:
    said = found([replace(point(), knobs={"steady.tolerance": 0.2})])
    assert said.settings["steady.tolerance"] == 0.2
    assert "--grid steady.tolerance=0.024,0.06,0.12" in said.advice[0]


def test_without_steady_it_asks_for_it() -> None:
    said = found([point("average", max_best=1.2), point("threshold", max_best=1.3)])
    assert said.strategy == "average"
    assert said.steady is None
    assert not said.settings
    assert said.advice[0].startswith("`steady` is not among the points")


@pytest.mark.parametrize("finished", [[], [point("average")]])
def test_an_interrupted_run_is_told_to_continue_and_nothing_else(finished: list[PointResult]) -> None:
    (line,) = recommend(finished, DAY_MS, BASE, unfinished=3).advice
    assert line == "3 points did not finish: run the same command again, which continues."


def test_another_strategy_may_win_and_only_what_it_reads_is_recommended() -> None:
    other = replace(
        point("threshold", max_best=1.0, moves=3), knobs={"steady.tolerance": 0.05, "shed.difference": 0.05}
    )
    loser = replace(other, max_best_mean=1.4, knobs={**other.knobs, "shed.difference": 0.2})
    said = found([*GRID, other, loser])
    assert said.strategy == "threshold"
    assert said.settings == {"shed.difference": 0.05}, "threshold reads no knob of steady"
    assert said.reasons[0].startswith("`threshold` with shed.difference 0.05: max/best 1.000, 3 moves")
    assert any(line.startswith("Of the points of `steady`: `steady` with budget") for line in said.reasons)
    told = "Of the other strategies the most even is `steady` with budget 1, churn 0.02, tolerance 0.05"
    assert any(line.startswith(told) for line in said.reasons)
    assert choose_for_each([*GRID, other, loser], BASE) == {
        "steady": GRID.index(steady(0.05, 0.02, 1.0)),
        "threshold": 27,
    }


def test_a_point_is_called_by_the_knobs_that_say_something_about_it() -> None:
    varied = [replace(result, strategy="average", max_best_mean=1.3) for result in GRID[1:3]]
    alone = replace(point("overload"), knobs={"shed.difference": 0.2, "steady.tolerance": 0.3})
    assert describe_point(GRID, GRID[0]) == "`steady` with budget 0.5, churn 0.005, tolerance 0.02"
    assert describe_point(varied, varied[1]) == "`average`"
    assert describe_point([alone], alone) == "`overload` with shed.difference 0.2"


def test_the_same_results_give_the_same_words() -> None:
    results = [*GRID, *(replace(result, strategy="average", max_best_mean=1.3) for result in GRID)]
    assert found(results) == found(list(results))


@pytest.mark.parametrize(
    ("p90", "checked", "wanted"),
    [
        (None, 0, None),
        (0.0421, FEWEST_CHECKED - 1, None),
        (0.0421, FEWEST_CHECKED, 0.043),
        (0.05, 99, 0.05),
    ],
)
def test_an_error_is_recommended_when_enough_predictions_were_checked(
    p90: float | None, checked: int, wanted: float | None
) -> None:
    result = point(error_p90=p90, n_checked=checked)
    assert model_error(result) == wanted
    assert ("steady.model_error" in found([result]).settings) == (wanted is not None)


def test_an_error_above_the_tolerance_would_forbid_what_the_tolerance_asks_for() -> None:
    result = point(error_p90=3.2, n_checked=99)
    assert model_error(result) == 1.0
    said = found([result])
    assert "steady.model_error" not in said.settings
    assert any("more than the tolerance: not recommended" in line for line in said.reasons)


def test_an_error_that_was_run_as_a_knob_is_recommended_by_what_came_of_it() -> None:
    rows = ((0.0, 1.05, 60), (0.02, 1.06, 20), (0.08, 1.3, 2))
    results = [
        replace(point(max_best=best, moves=moves, error_p90=0.04, n_checked=99), knobs={"steady.model_error": error})
        for error, best, moves in rows
    ]
    said = found(results)
    assert said.settings["steady.model_error"] == 0.02
    assert not any("No point was run with steady.model_error" in line for line in said.advice)


def test_nothing_finished_and_nothing_moved() -> None:
    empty = found([])
    assert (empty.strategy, empty.overall, empty.steady) == (None, None, None)
    assert empty.reasons == ("No finished point has a figure: there is nothing to recommend.",)
    still = found([point(moves=0, max_best=1.0)], lasted_ms=40 * 60_000)
    assert any("No point moved anything for balance" in line for line in still.advice)
    assert any("The recording lasts 40 minutes" in line for line in still.advice)


def test_a_point_without_a_figure_is_not_chosen() -> None:
    assert found([point(max_best=float("nan")), point("average", max_best=1.5)]).strategy == "average"


@pytest.mark.parametrize(("number", "told"), [(1, "1 move"), (0, "0 moves"), (2, "2 moves")])
def test_one_is_told_in_the_singular(number: int, told: str) -> None:
    assert _count(number, "move") == told


@pytest.mark.parametrize(("value", "told"), [(154.839, "155"), (12.345, "12.3"), (0.01234, "0.0123"), (0.0, "0")])
def test_a_rate_has_no_more_digits_than_it_is_worth(value: float, told: str) -> None:
    assert _few_digits(value) == told
