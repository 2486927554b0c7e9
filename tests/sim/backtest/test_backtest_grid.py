"""The grid of a backtest: names and types are checked, points come in the order given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measure.policy.recorded_day import Day
from controller.backtest.point.grid import GridPoint, distinct, grid_points, parse_axis, points_to_run
from controller.backtest.point.run_point import run_point
from controller.backtest.recording.prepared import Replay, prepare
from controller.domain.errors import BadRecord
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies import STRATEGIES, get, reads


def test_points_are_strategies_times_values_in_order() -> None:
    points = grid_points(["steady", "headroom"], ["steady.tolerance=0.03,0.05", "shed.max_moves_per_round=4"])
    assert [(p.strategy, dict(p.knobs)["steady.tolerance"]) for p in points] == [
        ("steady", 0.03), ("steady", 0.05), ("headroom", 0.03), ("headroom", 0.05),
    ]  # fmt: skip
    assert all(dict(p.knobs)["shed.max_moves_per_round"] == 4 for p in points)


def test_without_a_grid_each_strategy_is_one_point() -> None:
    assert grid_points(["steady", "steady"], []) == (GridPoint("steady", ()),)


def test_a_point_changes_its_knobs_and_nothing_else() -> None:
    base = PolicySettings()
    (point,) = grid_points(["headroom"], ["steady.churn=0.5", "split.max_topics=none", "shed.enabled=false"])
    settings = point.settings(base)
    assert (settings.strategy, settings.steady.churn) == ("headroom", 0.5)
    assert (settings.split.max_topics, settings.shed.enabled) == (None, False)
    assert settings.steady.tolerance == base.steady.tolerance
    assert base.steady.churn == PolicySettings().steady.churn


def as_told(points: tuple[GridPoint, ...]) -> list[tuple[str, dict[str, object]]]:
    return [(point.strategy, dict(point.knobs)) for point in points]


def test_what_is_configured_is_run_whatever_is_asked_for() -> None:
    """Without it a report could not say what its advice would change."""
    base = replace(PolicySettings(), steady=replace(PolicySettings().steady, tolerance=0.06))
    assert as_told(points_to_run(["steady"], ["steady.tolerance=0.03,0.1"], base)) == [
        ("steady", {"steady.tolerance": 0.06}), ("steady", {"steady.tolerance": 0.03}),
        ("steady", {"steady.tolerance": 0.1}),
    ]  # fmt: skip
    assert as_told(points_to_run(["steady"], ["steady.tolerance=0.1,0.06"], base)) == [
        ("steady", {"steady.tolerance": 0.1}), ("steady", {"steady.tolerance": 0.06}),
    ]  # fmt: skip
    assert as_told(points_to_run(["threshold"], ["steady.tolerance=0.1", "shed.enabled=false"], base)) == [
        ("steady", {"steady.tolerance": 0.06, "shed.enabled": True}), ("threshold", {"shed.enabled": False}),
    ]  # fmt: skip
    assert as_told(points_to_run(["steady", "threshold"], [], base)) == [("steady", {}), ("threshold", {})]
    elsewhere = replace(base, strategy="of-a-package-that-is-not-installed")
    assert as_told(points_to_run(["threshold"], [], elsewhere)) == [("threshold", {})]


def test_a_strategy_has_one_row_for_all_values_of_a_knob_that_it_does_not_read() -> None:
    points = points_to_run(["steady", "threshold"], ["steady.tolerance=0.03,0.06"], PolicySettings())
    assert as_told(points) == [
        ("steady", {"steady.tolerance": 0.03}), ("steady", {"steady.tolerance": 0.06}), ("threshold", {}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steady.tolerance", "not of the form knob=value"),
        ("steady.tolerance=", "not of the form knob=value"),
        ("steady.tolerence=0.1", "steady.tolerance"),
        ("strategy=steady", "no numeric setting"),
        ("steady.tolerance=much", "'much' is not a number"),
        ("steady.tolerance=nan", "'nan' is not a number"),
        ("steady.tolerance=0.1,", "'' is not a number"),
        ("shed.max_moves_per_round=1.5", "'1.5' is not a whole number"),
    ],
)
def test_bad_axes_are_told(text: str, said: str) -> None:
    with pytest.raises(BadRecord, match=said):
        parse_axis(text)


def test_a_knob_given_twice_is_told() -> None:
    with pytest.raises(BadRecord, match="twice"):
        grid_points(["steady"], ["steady.churn=0.1", "steady.churn=0.2"])


def test_points_that_differ_only_in_what_their_strategy_never_reads_are_one() -> None:
    grid = ["steady.tolerance=0.03,0.05", "pulsar.load_balancer_broker_threshold_shedder_percentage=5,10"]
    points = grid_points(["steady", "threshold", "headroom"], [*grid, "shed.enabled=true,false"])
    assert len(points) == 24
    told = [(p.strategy, dict(p.effective().knobs)) for p in distinct(points)]
    assert [strategy for strategy, _ in told] == ["steady"] * 4 + ["threshold"] * 4 + ["headroom"] * 2
    assert told[0][1] == {"steady.tolerance": 0.03, "shed.enabled": True}
    assert distinct(points)[0] is points[0]


class Untouchable:
    """A part of the settings that must not be read."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(f"{name} was read")


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_strategies_read_no_others_settings(strategy: str) -> None:
    """On a cluster where every strategy moves something or says why not, and with every part of it in use."""
    recording = Day(brokers=8, bundles=120, steps=80).recording()
    parts = {part: Untouchable() for part in ("steady", "weighted", "pulsar") if not reads(get(strategy), part)}
    assert len(parts) >= 2
    settings = replace(PolicySettings(), **parts)
    prepared = prepare(recording, settings.weights.in_order(), Replay())
    run = run_point(prepared, GridPoint(strategy, ()), settings, Replay())
    assert run.point == run_point(prepared, GridPoint(strategy, ()), PolicySettings(), Replay()).point
