"""notebooks/04_backtest.py runs from top to bottom on the tables of a run, and says what the command would say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from controller.backtest.run import run_points
from controller.backtest.store import Store
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.domain.entries import Kind
from tests.short_run import ShortRun
from tests.spark.pages.notebooks import FOLDER, Ran, check_plots, check_source_format, run_notebook

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
NOTEBOOK = FOLDER / "04_backtest.py"
STRATEGIES, GRID = ("steady", "headroom", "average"), "steady.tolerance=0.05,0.4; shed.consecutive_rounds=1,2"


@pytest.fixture(scope="module", autouse=True)
def pace_of_the_run() -> Iterator[None]:
    """The short run's panes are ten seconds long; its profile's are of five, and rounds of the configuration of 60."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BALLAST_LOADS__PANE_S", "10")
        patch.setenv("BALLAST_ROUNDS__ROUND_INTERVAL_S", "60")
        yield


def run(spark: Any, out: Path, tables: str, strategies: tuple[str, ...] = STRATEGIES, grid: str = GRID) -> Ran:
    return run_notebook(
        NOTEBOOK, spark, tables=tables, out=out, strategies=",".join(strategies), grid=grid, profile="demo"
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backtest") / "out"


@pytest.fixture(scope="module")
def ran(spark: Any, short_run: ShortRun, out: Path, pace_of_the_run: None) -> Ran:
    return run(spark, out, short_run.root.root)


@pytest.fixture
def variables(ran: Ran) -> dict[str, Any]:
    return ran.names


def test_the_source_format_is_databricks_own() -> None:
    check_source_format(NOTEBOOK, more_cells_than=12)


def test_the_recording_is_that_of_the_tables(ran: Ran, spark: Any, short_run: ShortRun) -> None:
    facts = {row["what"]: row["value"] for row in ran.shown["recorded"]}
    rounds = [e.data for e in short_run.entries if e.kind is Kind.ROUND]
    at_ms = sorted({data["at_ms"] for data in rounds if not data.get("challenger")})
    usual = round(float(np.median(np.diff(at_ms))))
    assert (facts["brokers"], facts["step_ms"], facts["round_interval_ms"]) == ("3", "10000", str(usual))
    assert usual < 60_000, "what is configured would say little"
    assert int(facts["bundles"]) >= 12
    panes = spark.read.format("delta").load(f"{short_run.root.root}/broker_panes")
    assert int(facts["steps"]) == panes.select("pane_end_ms").distinct().count()


def test_the_scoreboard_is_what_the_local_run_comes_to(ran: Ran, variables: dict[str, Any], tmp_path: Path) -> None:
    job, points = variables["job"], variables["points"]
    local = Store(tmp_path)
    local.keep_arrays(job, variables["prepare"](variables["recording"], job.base.weights.in_order(), job.replay))
    for _ in run_points(local, job, points, 1):
        pass
    expected = [run for point in points if (run := local.load(job, point))]
    assert len(expected) == len(points)
    assert variables["runs"] == expected
    assert any(run.point.moves for run in expected), "nothing moved: equality would say little"
    found = ran.rows("scoreboard")
    assert [row["strategy"] for row in found] == ["steady"] * 5 + ["headroom"] * 2 + ["average"] * 2, (
        "what is configured, and no row twice for a tolerance that only `steady` reads"
    )
    assert [row["max_best_mean"] for row in found] == [run.point.max_best_mean for run in expected]
    assert [row["moves_balance"] for row in found] == [run.point.moves_balance for run in expected]


def test_the_scoreboard_is_shown_best_first_with_its_knobs(ran: Ran) -> None:
    shown, found = ran.shown["Scoreboard"], ran.rows("scoreboard")
    assert [row["max_best_mean"] for row in shown] == sorted(round(row["max_best_mean"], 3) for row in found)
    assert sorted((row["strategy"], row["knobs"]) for row in shown) == sorted(
        (row["strategy"], row["knobs"]) for row in found
    )
    assert any("steady.tolerance=0.4" in row["knobs"] for row in shown if row["strategy"] == "steady")


def test_the_front_and_the_course_over_time(ran: Ran, variables: dict[str, Any]) -> None:
    front = ran.rows("front")
    board = ran.rows("scoreboard")
    assert front[0]["max_best_mean"] == min(row["max_best_mean"] for row in board)
    assert front[-1]["moves_of_a_bundle_a_day"] == min(row["moves_of_a_bundle_a_day"] for row in board)
    assert [row["max_best_mean"] for row in ran.shown["front"]] == [row["max_best_mean"] for row in front]
    steps = len(variables["recording"].at_ms)
    over_time = ran.rows("over_time")
    assert {row["strategy"] for row in over_time} == set(STRATEGIES)
    assert len(over_time) == steps * len(STRATEGIES)
    checked = {name: sum(row["n_checked"] for row in board if row["strategy"] == name) for name in STRATEGIES}
    assert {row["strategy"]: row["checked"] for row in ran.shown["Predictions"]} == checked
    check_plots(ran, 2)


def test_a_run_of_minutes_recommends_nothing(ran: Ran, variables: dict[str, Any], out: Path) -> None:
    rows = ran.shown["recommended"]
    assert {row["recommended"] for row in rows} == {None}
    configured = {row["setting"]: row["configured"] for row in rows}
    found = policy_settings(load_settings(out / "recommendation.yaml", env={}))
    assert (found.strategy, str(found.steady.tolerance)) == (configured["strategy"], configured["steady.tolerance"])
    assert variables["recommendation"].point is None
    assert "recommended: nothing, no confidence" in ran.printed
    assert "Change nothing" in ran.printed
    assert (out / "report.html").stat().st_size > 1_000_000


def test_a_second_run_runs_nothing_again(variables: dict[str, Any], spark: Any, short_run: ShortRun, out: Path) -> None:
    assert variables["points_run"] == len(variables["points"]) == 9
    before = (out / "report.html").read_bytes()
    again = run(spark, out, short_run.root.root)
    assert again.names["points_run"] == 0
    assert again.names["runs"] == variables["runs"]
    assert (out / "report.html").read_bytes() == before


def test_a_strategy_without_knobs_is_one_point(spark: Any, short_run: ShortRun, out: Path) -> None:
    alone = run(spark, out, short_run.root.root, ("steady",), "")
    assert len(alone.names["runs"]) == 1
    advice = " ".join(alone.names["recommendation"].advice)
    assert "Replay a day or more" in advice
    assert alone.names["recommendation"].verdict.headline == "Change nothing"
