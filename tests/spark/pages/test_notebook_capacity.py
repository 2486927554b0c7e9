"""notebooks/03_capacity.py on two weeks of load that follow a formula: every figure can be computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.spark.pages.notebooks import FOLDER, Ran, check_plots, check_source_format, run_notebook
from tests.weeks_of_load import (
    BANDWIDTH,
    BROKERS,
    BUSIEST,
    CPU_LIMIT,
    DAYS,
    HOURS,
    MEMORY,
    OFFICE,
    cpu_usage,
    messages,
    write_weeks,
)

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
NOTEBOOK = FOLDER / "03_capacity.py"
LIMIT_PCT = 56.2  # enough brokers now, tight with one fewer, too few with two
ALL_HOURS = range(HOURS)


def used(hour: int) -> float:
    """CPU of all brokers, in percent of one core."""
    return sum(cpu_usage(broker, hour) for broker in BROKERS)


def share(hour: int) -> float:
    """Of all that there is, in percent."""
    return 100 * used(hour) / (CPU_LIMIT * len(BROKERS))


def p95(values: Callable[[int], float], hours: Any = ALL_HOURS) -> float:
    return float(np.percentile([values(hour) for hour in hours], 95))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_weeks(tmp_path_factory.mktemp("capacity") / "tables").root.root


@pytest.fixture(scope="module")
def ran(spark: Any, tables: str) -> Ran:
    return run_notebook(NOTEBOOK, spark, tables=tables, limit_pct=LIMIT_PCT, fewer=2)


def test_the_source_format_is_databricks_own() -> None:
    check_source_format(NOTEBOOK, more_cells_than=18)


def test_headroom_by_resource(ran: Ran) -> None:
    rows = {row["resource"]: row for row in ran.shown["Headroom by resource"]}
    assert list(rows) == ["cpu", "memory", "bandwidth_in", "bandwidth_out"], (
        "the least headroom first, unknown ones not"
    )
    cpu = rows["cpu"]
    assert cpu["averages"] == HOURS
    assert cpu["p95_pct"] == pytest.approx(p95(share), abs=0.051)
    assert cpu["highest_pct"] == pytest.approx(max(map(share, ALL_HOURS)), abs=0.051)
    assert cpu["busiest_p95_pct"] == pytest.approx(
        p95(lambda hour: 100 * cpu_usage(BUSIEST, hour) / CPU_LIMIT), abs=0.051
    )
    assert cpu["headroom_points"] == pytest.approx(LIMIT_PCT - p95(share), abs=0.051)
    assert rows["memory"]["p95_pct"] == 100 * MEMORY
    received = p95(
        lambda hour: sum(messages(broker, hour) for broker in BROKERS) / 2 * 1_000 / BANDWIDTH / len(BROKERS)
    )
    assert rows["bandwidth_in"]["p95_pct"] == pytest.approx(100 * received, abs=0.051)


def test_the_rhythm_of_a_week(ran: Ran) -> None:
    rows = {(row["weekday"], row["hour"]): row for row in ran.shown["By weekday and hour"]}
    assert len(rows) == 7 * 24
    for (weekday, hour), row in rows.items():
        moments = [24 * (7 * week + weekday - 1) + hour for week in range(DAYS // 7)]
        assert row["averages"] == len(moments)
        assert row["p95_pct"] == pytest.approx(p95(share, moments), abs=0.051)
        busiest = p95(lambda at: 100 * cpu_usage(BUSIEST, at) / CPU_LIMIT, moments)
        assert row["busiest_p95_pct"] == pytest.approx(busiest, abs=0.051)
    weekday, hour = max(rows, key=lambda at: rows[at]["p95_pct"])
    assert (weekday, hour in OFFICE) == (5, True), "the last working day of growing weeks"


def test_brokers_with_the_least_headroom(ran: Ran) -> None:
    rows = ran.shown["Brokers"]
    assert [row["broker"] for row in rows] == [BUSIEST, *BROKERS[1:]]
    for row in rows:
        busy = p95(lambda hour, name=row["broker"]: 100 * max(cpu_usage(name, hour) / CPU_LIMIT, MEMORY))
        assert row["p95_pct"] == pytest.approx(busy, abs=0.051)
        assert row["headroom_points"] == pytest.approx(LIMIT_PCT - busy, abs=0.051)
    assert rows[0]["busiest_resource"] == "cpu"


def test_with_two_brokers_fewer(ran: Ran) -> None:
    rows = {(row["fewer"], row["resource"]): row for row in ran.shown["With fewer brokers"]}
    verdicts = []
    for fewer in range(3):
        row = rows[fewer, "cpu"]
        staying = CPU_LIMIT * (len(BROKERS) - fewer)
        highest, often = 100 * max(map(used, ALL_HOURS)) / staying, 100 * p95(used) / staying
        assert row["brokers"] == len(BROKERS) - fewer
        assert row["p95_pct"] == pytest.approx(often, abs=0.051)
        assert row["highest_pct"] == pytest.approx(highest, abs=0.051)
        verdicts.append("enough" if highest <= LIMIT_PCT else "tight" if often <= LIMIT_PCT else "too few")
        assert row["verdict"] == verdicts[-1]
    assert verdicts == ["enough", "tight", "too few"]
    assert rows[2, "bandwidth_in"]["verdict"] == "enough"


def test_growth_is_told_from_the_rhythm_of_a_week(ran: Ran) -> None:
    rows = {row["resource"]: row for row in ran.shown["Growth"]}
    daily = [p95(share, range(24 * day, 24 * day + 24)) for day in range(DAYS)]
    slope = float(np.mean([(daily[day + 7] - daily[day]) / 7 for day in range(7)]))
    assert slope > 0
    cpu = rows["cpu"]
    assert cpu["days"] == DAYS
    assert cpu["points_a_day"] == pytest.approx(slope, abs=0.0006)
    assert cpu["busiest_day_pct"] == pytest.approx(max(daily[-7:]), abs=0.051)
    left = LIMIT_PCT - max(daily[-7:])
    assert cpu["days_until_limit"] == (0 if left <= 0 else pytest.approx(left / slope, abs=0.51))
    assert (rows["memory"]["points_a_day"], rows["memory"]["days_until_limit"]) == (0, None)
    by_day = [row["p95_pct"] for row in ran.shown["by day"] if row["resource"] == "cpu"]
    assert by_day == pytest.approx(daily, abs=0.051)
    check_plots(ran, 4)


def test_a_week_says_nothing_about_growth(spark: Any, tables: str) -> None:
    week = run_notebook(NOTEBOOK, spark, tables=tables, days="7", limit_pct="90", resource="bandwidth_out", fewer="0")
    rows = {row["resource"]: row for row in week.shown["Growth"]}
    assert rows["cpu"]["days"] == 7
    assert {(row["points_a_day"], row["days_until_limit"]) for row in rows.values()} == {(None, None)}
    assert {row["fewer"] for row in week.shown["With fewer brokers"]} == {0}
    (first,) = (r for r in week.shown["By weekday and hour"] if (r["weekday"], r["hour"]) == (1, 9))
    sent = sum(messages(broker, 24 * 7 + 9) for broker in BROKERS) / 2 * 1_000
    assert first["p95_pct"] == pytest.approx(100 * sent / (BANDWIDTH * len(BROKERS)), abs=0.051)
