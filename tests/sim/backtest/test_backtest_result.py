"""Results are stored and read back unchanged; their table has a stable order of columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from controller.backtest.point.result import COLUMNS, PointResult, PointRun, Timeline, round_figure, to_columns, to_csv
from controller.domain.errors import BadRecord

POINT = PointResult(
    strategy="steady", knobs={"steady.tolerance": 0.05}, rounds=10, brokers=3, bundles=20, max_best_mean=1.25,
    max_best_end=1.1, max_best_worst=2.0, cv_mean=0.2, thrash_pct=12.5, moves_addition=1, moves_removal=2,
    moves_balance=3, splits=0, useless_moves=1, useless_rate=0.25, overload_minutes=4.5, unavailable_bundle_s=6.0,
    error_p50=0.01, error_p90=0.05, n_checked=8,
)  # fmt: skip
RUN = PointRun(POINT, Timeline((1000, 2000), (1.5, 1.0), (0.3, 0.1), (4, 2)))


def test_a_run_survives_json() -> None:
    assert PointRun.from_json(json.loads(json.dumps(RUN.to_json()))) == RUN
    assert POINT.moves == 6


def test_columns_are_strategy_then_all_knobs_by_name_then_figures() -> None:
    other = replace(POINT, strategy="headroom", knobs={"shed.enabled": True}, error_p50=None)
    columns = to_columns([POINT, other])
    assert tuple(columns) == ("strategy", "shed.enabled", "steady.tolerance", *COLUMNS)
    assert columns["shed.enabled"] == [None, True]
    assert columns["steady.tolerance"] == [0.05, None]
    header, first, second = to_csv([POINT, other]).splitlines()
    assert header == ",".join(columns)
    assert first == "steady,,0.05,10,3,20,1.25,1.1,2.0,0.2,12.5,1,2,3,0,1,0.25,4.5,6.0,0.01,0.05,8"
    assert second.split(",")[:3] == ["headroom", "True", ""]
    assert second.endswith("6.0,,0.05,8")


@pytest.mark.parametrize(
    ("change", "said"),
    [({"v": 0}, "version 0"), ({"more": 1}, "more"), ({"timeline": {"at_ms": []}}, "other fields")],
)
def test_what_another_version_stored_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRecord, match=said):
        PointRun.from_json({**RUN.to_json(), **change})
    with pytest.raises(BadRecord, match="length"):
        Timeline.from_json({**RUN.timeline.to_json(), "cv": [0.3]})


def test_rounding_knows_no_nan() -> None:
    assert round_figure(float("nan")) is None
    assert round_figure(1.23456789) == 1.234568
