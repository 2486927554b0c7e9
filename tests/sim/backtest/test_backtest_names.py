"""`--grid` takes the names and units of the configuration, and says what it cannot vary."""

from __future__ import annotations

import pytest

from controller.backtest.point.grid import grid_points
from controller.backtest.report.names import Named, name_axes
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.domain.errors import ConfigError


def load(overrides: list[str]) -> Settings:
    return load_settings(None, None, overrides, env={})


def named(*grid: str) -> Named:
    return name_axes(grid, load)


@pytest.mark.parametrize(
    ("given", "knob", "values"),
    [
        ("shedding.cpu_weight=0,1", "weights.cpu", [0, 1]),
        ("shedding.overloaded_threshold_pct=80,85", "shed.overloaded_threshold", [0.8, 0.85]),
        ("shedding.grace_period_minutes=1,30", "shed.grace_period_ms", [60_000, 1_800_000]),
        ("shedding.enabled=true,false", "shed.enabled", [True, False]),
        ("split.max_bandwidth_mbytes=1", "split.max_bandwidth_bytes_per_s", [1_048_576]),
        ("steady.tolerance=0.03,0.05", "steady.tolerance", [0.03, 0.05]),
    ],
)
def test_a_key_of_the_configuration_names_its_knob_in_its_own_unit(given: str, knob: str, values: list[object]) -> None:
    points = grid_points(["headroom"], named(given).axes)
    assert [point.knobs for point in points] == [((knob, value),) for value in values]


def test_the_name_and_the_words_that_were_given_are_kept_for_the_scoreboard() -> None:
    found = named("shedding.overloaded_threshold_pct=80,85", "steady.churn=0.01")
    assert found.keys == {"shed.overloaded_threshold": "shedding.overloaded_threshold_pct"}
    assert found.words == {("shed.overloaded_threshold", 0.8): "80", ("shed.overloaded_threshold", 0.85): "85"}


def test_the_configured_value_has_the_unit_of_the_values_that_were_given() -> None:
    """Its point is run as well, and stands in the same column."""
    found = named("shedding.overloaded_threshold_pct=70,80", "shedding.enabled=false")
    assert found.words["shed.overloaded_threshold", 0.85] == "85"
    assert found.words["shed.enabled", True] == "true"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("rounds.round_interval_s=30", "rounds.round_interval_s: it cannot be varied in a backtest"),
        ("shedding.cpu_wieght=0", "there is no such knob; the nearest is shedding.cpu_weight"),
        ("steady.tolerancee=0.1", "there is no such knob; the nearest is steady.tolerance"),
        ("shedding.overloaded_threshold_pct=high", "high"),
    ],
)
def test_what_cannot_be_varied_and_what_is_not_there(given: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        named(given)


def test_no_name_is_offered_where_none_is_near() -> None:
    with pytest.raises(ConfigError, match=r"there is no such knob$"):
        named("qqq=1")
