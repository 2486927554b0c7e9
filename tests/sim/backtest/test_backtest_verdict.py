"""What a backtest says to do, and what that would change: the rule on results whose answer is plain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.backtest.choose.pareto import DAY_MS
from controller.backtest.choose.recommend import recommend
from controller.backtest.choose.verdict import Action, Verdict, compare, configured_position
from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult
from controller.backtest.report.recorded import recorded_text, run_rows, span_text
from controller.domain.settings.policy import PolicySettings, SteadySettings
from tests.sim.backtest.test_backtest_recommend import GRID, point

BASE = PolicySettings(steady=SteadySettings(tolerance=0.05))
HOUR_MS, DAY = 3_600_000, DAY_MS


def at_tolerance(tolerance: float, max_best: float, moves: int) -> PointResult:
    return replace(point(max_best=max_best, moves=moves), knobs={"steady.tolerance": tolerance})


NOW, LAZY, TIGHT = at_tolerance(0.05, 1.1, 135), at_tolerance(0.1, 1.1044, 100), at_tolerance(0.02, 1.09, 400)


def told(results: list[PointResult], base: PolicySettings = BASE, lasted_ms: int = DAY) -> Verdict:
    return recommend([replace(result, rounds=1_440) for result in results], lasted_ms, base).verdict


def test_it_says_what_to_change_and_what_that_would_change() -> None:
    found = told([TIGHT, NOW, LAZY])
    assert found.action is Action.CHANGE
    assert found.headline == "Use `steady` with tolerance 0.1"
    assert found.effect == "26 % fewer moves for 0.4 % more imbalance than now (`steady` with tolerance 0.05)."
    assert found.text == f"{found.headline}: {found.effect}"


def test_it_says_to_keep_what_is_configured_and_what_the_most_even_point_would_mean() -> None:
    found = told([TIGHT, NOW])
    assert found.action is Action.KEEP
    assert found.text == (
        "Keep `steady` with tolerance 0.05: the most even point, `steady` with tolerance 0.02, would mean 196 % more "
        "moves for 0.9 % less imbalance."
    )
    worse = point("average", max_best=1.3, moves=10)
    assert told([NOW, worse]).effect == "it is the most even of 2 points."
    near = point("average", max_best=1.11, moves=200)
    assert told([NOW, near]).effect == "it is the most even of 2 points, and of those within 3 % of it none moves less."
    assert "nothing to compare it with" in told([NOW]).effect


def test_a_configuration_that_was_not_run_is_not_compared_with() -> None:
    found = told([TIGHT, LAZY])
    assert found.text == (
        "Use `steady` with tolerance 0.1: 75 % fewer moves for 1.3 % more imbalance than the most even point "
        "(`steady` with tolerance 0.02). What is configured has no figure to compare with."
    )
    alone = told([LAZY, at_tolerance(0.5, 1.4, 90)])
    assert alone.text == (
        "Use `steady` with tolerance 0.1: it is the most even of 2 points. "
        "What is configured has no figure to compare with."
    )


@pytest.mark.parametrize(
    ("results", "lasted_ms", "effect"),
    [
        ([], DAY, "no finished point has a figure."),
        ([NOW, LAZY], HOUR_MS - 1, "a recording this short does not tell what is better. Record an hour at least"),
        ([NOW, replace(NOW, strategy="average")], DAY, "the recording does not tell what is better."),
        ([replace(NOW, moves_balance=0, moves_addition=0)], DAY, "the recording does not tell what is better."),
        ([replace(NOW, max_best_mean=float("nan"))], DAY, "no finished point has a figure."),
    ],
)
def test_where_the_recording_does_not_tell_nothing_is_to_be_changed(
    results: list[PointResult], lasted_ms: int, effect: str
) -> None:
    found = told(results, lasted_ms=lasted_ms)
    assert (found.action, found.headline) == (Action.NOTHING, "Change nothing")
    assert found.effect.startswith(effect)


def test_a_configured_strategy_without_a_figure_is_not_compared_with() -> None:
    found = told([replace(NOW, max_best_mean=float("nan")), LAZY])
    assert found.action is Action.CHANGE
    assert "What is configured has no figure to compare with." in found.effect


@pytest.mark.parametrize(
    ("moves", "splits", "max_best", "overload", "text"),
    [
        (74, 0, 1.1044, 0.0, "26 % fewer moves for 0.4 % more imbalance"),
        (74, 0, 1.1, 0.0, "26 % fewer moves and no more imbalance"),
        (100, 0, 1.0, 0.0, "no more moves and 9.1 % less imbalance"),
        (80, 0, 1.0, 0.0, "20 % fewer moves and 9.1 % less imbalance"),
        (120, 0, 1.0, 0.0, "20 % more moves for 9.1 % less imbalance"),
        (450, 0, 1.0, 0.0, "4.5 times as many moves for 9.1 % less imbalance"),
        (70, 10, 1.1, 0.0, "20 % fewer moves and splits and no more imbalance"),
        (0, 0, 1.1, 0.0, "no moves instead of 100 and no more imbalance"),
        (100, 0, 1.1, 12.5, "no more moves and no more imbalance and 12m 30s more overload"),
    ],
)
def test_what_changes_from_one_point_to_another(
    moves: int, splits: int, max_best: float, overload: float, text: str
) -> None:
    old = point(max_best=1.1, moves=100)
    new = replace(point(max_best=max_best, moves=moves, splits=splits), overload_minutes=overload)
    assert compare(old, new) == text


def test_from_nothing_and_back_to_less_overload() -> None:
    busy = replace(point(max_best=1.1, moves=12), overload_minutes=1.0)
    assert compare(point(max_best=1.2, moves=0), point(max_best=1.1, moves=12)).startswith(
        "12 moves instead of none for"
    )
    assert compare(busy, point(max_best=1.1, moves=12)).endswith(" and 1m 00s less overload")


@pytest.mark.parametrize(
    ("strategy", "knobs", "is_configured"),
    [
        ("steady", {}, True),
        ("steady", {"steady.tolerance": 0.05}, True),
        ("steady", {"steady.tolerance": 0.06}, False),
        ("threshold", {}, False),
        ("steady", {"weighted.nothing": 3.0}, True),  # steady does not read the section
    ],
)
def test_the_point_that_is_configured_now(strategy: str, knobs: dict[str, Value], is_configured: bool) -> None:
    results = [point("headroom"), replace(point(strategy), knobs=knobs)]
    assert configured_position(results, BASE) == (1 if is_configured else None)


def test_the_configuration_is_kept_although_a_knob_without_effect_was_varied() -> None:
    """Of points that came to the same the one with the configured values is chosen, wherever it stands."""
    rows = [
        replace(result, knobs={**result.knobs, "shed.overloaded_threshold": limit})
        for result in (NOW, TIGHT)
        for limit in (0.8, BASE.shed.overloaded_threshold)
    ]
    assert configured_position(rows, BASE) == 1
    assert told(rows).headline == "Keep `steady` with tolerance 0.05"


def test_a_point_that_differs_in_two_knobs_is_told_from_the_configured_one() -> None:
    """Neither knob was varied alone, so nothing says that one has no effect."""
    base = PolicySettings(steady=SteadySettings(tolerance=0.05, churn=0.04))
    now = replace(NOW, knobs={"steady.tolerance": 0.05, "steady.churn": 0.04})
    lazy = replace(LAZY, knobs={"steady.tolerance": 0.1, "steady.churn": 0.01})
    found = recommend([replace(result, rounds=1_440) for result in (now, lazy)], DAY, base)
    assert found.verdict.text == (
        "Use `steady` with churn 0.01, tolerance 0.1: 26 % fewer moves for 0.4 % more imbalance than now (`steady` "
        "with churn 0.04, tolerance 0.05)."
    )
    assert {name: found.settings[name] for name in lazy.knobs} == dict(lazy.knobs)
    assert not any("made no difference" in sentence for sentence in found.reasons)


def test_a_strategy_that_comes_to_the_same_as_the_configured_one() -> None:
    found = told(
        [point("headroom"), point("steady"), point("average", max_best=1.4)], PolicySettings(strategy="headroom")
    )
    assert found.text == "Use `steady`: it comes to the same as now (`headroom`), and is preferred then."


def test_a_knob_that_was_varied_without_effect_makes_no_other_configuration() -> None:
    same = [replace(point(), knobs={"steady.budget": budget}) for budget in (0.5, 2.0)]
    assert configured_position(same, BASE) == 0
    assert configured_position(same[:1], BASE) is None, "it had no other value"
    assert configured_position(GRID, PolicySettings()) is None


def test_what_was_recorded_is_told_in_one_line() -> None:
    about = {"brokers": 1, "bundles": 9, "reports": "loads.jsonl", "reports_read": 186, "refused": {}}
    about |= {"first_ms": 1_795_224_755_000, "last_ms": 1_795_225_060_000, "step_ms": 5_000}
    assert recorded_text(about, 310_000) == (
        "1 broker and 9 bundles for 5 minutes, 2026-11-21 01:32:30 to 01:37:40 UTC: 186 load reports of loads.jsonl"
    )
    assert "186 load reports (3 lines refused) of" in recorded_text({**about, "refused": {"a": 1, "b": 2}}, 310_000)
    assert recorded_text({"reports": "tables"}, 0) == "load of tables"
    assert recorded_text({"reports": "tables"}, HOUR_MS) == "1.0 hours: load of tables"
    assert recorded_text({}, 0) == ""


def test_a_span_names_the_second_day_only_where_it_is_another() -> None:
    assert span_text(1_795_224_750_000, 1_795_225_060_000) == "2026-11-21 01:32:30 to 01:37:40 UTC"
    assert span_text(1_795_224_750_000, 1_795_324_750_000) == "2026-11-21 01:32:30 to 2026-11-22 05:19:10 UTC"


def test_how_it_was_run_is_told_with_units_and_what_is_unknown_as_it_is() -> None:
    rows = dict(run_rows({"gap_ms": 1_000, "round_interval_ms": 60_000, "refused": {"not_json": 2}, "of_mine": 7}))
    assert rows == {
        "time between rounds": "1m 00s", "time for which a bundle that moves is not served": "1.0 s",
        "lines refused": "not_json: 2", "of mine": "7",
    }  # fmt: skip
    assert dict(run_rows({"refused": {}})) == {"lines refused": "none"}
