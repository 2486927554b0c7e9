"""A backtest on Spark: the files of the local run to the last byte, nothing run twice, nothing left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.measure.policy.recorded_day import STEP_MS, Day
from controller.backtest.point.grid import GridPoint, grid_points
from controller.backtest.recording.prepared import Replay, prepare
from controller.backtest.run import run_points
from controller.backtest.spark import LOG, spark_points
from controller.backtest.store import Job, Store
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.domain.errors import BallastError
from controller.process.spark_submit import LOCAL_SPARK_CONF
from jobs.backtest_job import EXIT_CONFIG, main
from jobs.backtest_tasks import run_tasks

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
DAY = Day(brokers=8, bundles=80, steps=80)
GRID = "shed.overloaded_threshold=0.6,0.85"  # which every strategy reads, so that each point runs
TABLES = (
    "results.csv",
    "results.json",
    "report.html",
    "pareto.png",
    "timeline.png",
    "causes.png",
    "recommendation.yaml",
)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "reports.jsonl"
    DAY.write_lines(path)
    return path


def backtest(reports: Path, out: Path, *arguments: str, strategies: str = "steady,threshold") -> list[str]:
    """The command line, as an operator has it."""
    command = [sys.executable, "-m", "controller.cli.main", "backtest", "--reports", str(reports), "--out", str(out)]
    return [*command, "--strategies", strategies, "--grid", GRID, *arguments]


def carried_out(*arguments: Any, **more: Any) -> str:
    done = subprocess.run(backtest(*arguments, **more), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "points").iterdir()}


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (folder / "points").iterdir()}


def stored(folder: Path) -> tuple[Store, Job, tuple[GridPoint, ...]]:
    """A folder as the command leaves it to the runners."""
    base, recording = policy_settings(load_settings(None, env={})), DAY.recording()
    job, store = Job(recording.digest(), base, Replay(2 * STEP_MS)), Store(folder)
    store.keep_arrays(job, prepare(recording, base.weights.in_order(), job.replay))
    return store, job, grid_points(["steady", "threshold", "average"], [GRID])


def test_tasks_leave_the_files_of_the_local_run(spark: Any, tmp_path: Path) -> None:
    store, job, points = stored(tmp_path / "local")
    runs = [finished.run for finished in run_points(store, job, points, 1)]
    assert any(run.point.moves_balance for run in runs), "nothing moves: equality would say little"
    assert len({run.point.max_best_mean for run in runs}) > 2
    again, _, _ = stored(tmp_path / "spark")
    assert run_tasks(spark.sparkContext, again.folder, job, points) == len(points)
    assert files(again.folder) == files(store.folder)
    assert run_tasks(spark.sparkContext, again.folder, job, []) == 0


def test_the_command_on_spark_takes_what_is_finished_and_leaves_the_same_tables(reports: Path, tmp_path: Path) -> None:
    local, on_spark = tmp_path / "local", tmp_path / "spark"
    carried_out(reports, local, "--jobs", "1")
    carried_out(reports, on_spark, "--jobs", "1", strategies="steady")
    before = times(on_spark)
    said = carried_out(reports, on_spark, "--spark")
    assert "4 points (2 kept from before)" in said
    assert {name: at for name, at in times(on_spark).items() if name in before} == before
    assert "2 points run, 2 were finished before" in (on_spark / LOG).read_text()
    assert files(on_spark) == files(local)
    for name in TABLES:
        assert (on_spark / name).read_bytes() == (local / name).read_bytes(), name
    (on_spark / LOG).unlink()
    assert "4 points (4 kept from before)" in carried_out(reports, on_spark, "--spark")
    assert not (on_spark / LOG).exists(), "Spark was started for nothing"


def test_an_interrupt_keeps_what_is_finished_and_ends_the_job(reports: Path, tmp_path: Path) -> None:
    values = ",".join(f"{0.02 + at / 1000:.3f}" for at in range(150))
    command = backtest(reports, tmp_path, "--spark", "--grid", f"steady.churn={values}", strategies="steady")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: len(files_of_points(tmp_path)) >= 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    kept = json.loads((tmp_path / "results.json").read_text())["points"]
    assert 2 <= len(kept) < 300
    assert f"stopped; {len(kept)} of 300 points are kept" in err
    wait_for(lambda: not at_work_on(tmp_path))


def files_of_points(folder: Path) -> list[Path]:
    return list((folder / "points").glob("*.json"))


def at_work_on(folder: Path) -> list[str]:
    """Processes that name the folder in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "pid"]):
        words = process.info["cmdline"] or []
        if process.info["pid"] != os.getpid() and any(str(folder) in word for word in words):
            found.append(" ".join(words))
    return found


def wait_for(condition: Any, timeout_s: float = 90.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.1)


def test_a_job_that_fails_is_told_with_its_log(tmp_path: Path) -> None:
    store, job, points = stored(tmp_path)
    wrong = ["--out", str(tmp_path), "--recording", "another", "--strategies", "steady"]
    wrong += ["--round-interval-ms", "60000", "--missed-steps", "3", "--gap-ms", "0"]
    assert main(wrong) == EXIT_CONFIG
    with pytest.raises(BallastError, match=r"exit code 2 before 6 points were finished: see .*spark\.log"):
        list(spark_points(store, job, points, wrong, LOCAL_SPARK_CONF))
    assert "is not there: start this job by `ballast backtest --spark`" in (tmp_path / LOG).read_text()
