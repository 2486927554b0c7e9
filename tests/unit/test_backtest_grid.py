"""The grid of a backtest: names and types are checked, points come in the order given."""

from __future__ import annotations

import pytest

from controller.domain.errors import BadRecord
from controller.domain.settings import PolicySettings
from controller.sim.backtest.grid import GridPoint, grid_points, parse_axis


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
    assert base.steady.churn == 0.01


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steady.tolerance", "no knob=value"),
        ("steady.tolerance=", "no knob=value"),
        ("steady.tolerence=0.1", "steady.tolerance"),
        ("strategy=steady", "no numeric setting"),
        ("steady.tolerance=much", "'much' is no float"),
        ("steady.tolerance=nan", "'nan' is no float"),
        ("steady.tolerance=0.1,", "'' is no float"),
        ("shed.max_moves_per_round=1.5", "'1.5' is no int"),
    ],
)
def test_bad_axes_are_told(text: str, said: str) -> None:
    with pytest.raises(BadRecord, match=said):
        parse_axis(text)


def test_a_knob_given_twice_is_told() -> None:
    with pytest.raises(BadRecord, match="twice"):
        grid_points(["steady"], ["steady.churn=0.1", "steady.churn=0.2"])
