"""Measures a backtest of one day: `ballast backtest` as a separate process, including reading and report.

The generated day (`recorded_day`) has reports of 50 brokers with 2,000 bundles every 30 s as JSON lines. Six strategies
run with 27 combinations of knobs that all strategies read (so that all 162 points really run), with a round every
minute, on two processes. Memory is sampled as the sum over all processes: resident (shared arrays count in each) and
proportional (they count once). The same command then runs again, finds every point finished and must leave the same
bytes, as must a run as Spark tasks on as many cores.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measure.policy.recorded_day import Day
from benchmarks.measure.result import NotMeasured, Result, Target

STRATEGIES = ("steady", "threshold", "uniform", "average", "transfer", "overload")
GRID = (
    "shed.grace_period_ms=600000,1800000,3600000",
    "shed.overloaded_threshold=0.75,0.8,0.85",
    "split.max_msg_rate_per_s=20000,25000,30000",
)
QUICK_GRID = ("shed.grace_period_ms=600000,1800000",)
JOBS = 2
SAMPLE_S = 2.0
GIB = 1 << 30
TABLES = ("results.csv", "results.json")


def run(folder: Path, quick: bool) -> Result:
    """Write the day, run the backtest twice and once on Spark, measure times and memory."""
    folder.mkdir(parents=True, exist_ok=True)
    day = Day(brokers=8, bundles=160, steps=240) if quick else Day()
    reports, out = folder / "reports.jsonl", folder / "out"
    count = day.write_lines(reports)
    command = _command(reports, out, QUICK_GRID if quick else GRID)
    points = len(STRATEGIES) * (2 if quick else 27)
    first = _run_measured(command)
    tables = _digest(out)
    second = _run_measured(command)
    broken = [] if _digest(out) == tables else ["a second run left other tables"]
    on_spark = folder / "on-spark"
    spark = _run_measured([*_command(reports, on_spark, QUICK_GRID if quick else GRID), "--spark"])
    broken += [] if _digest(on_spark) == tables else ["Spark left other tables"]
    kept = len(list((out / "points").glob("*.json")))
    if kept != points:
        broken.append(f"{kept} points are finished, wanted {points}")
    figures: dict[str, Any] = {
        "brokers": day.brokers,
        "bundles": day.bundles,
        "steps": day.steps,
        "reports": count,
        "input_mib": round(reports.stat().st_size / 2**20),
        "points": points,
        "processes": JOBS,
        "minutes": round(first["seconds"] / 60, 2),
        "cpu_minutes": round(first["cpu_seconds"] / 60, 2),
        "resident_gib": round(first["resident"] / GIB, 2),
        "proportional_gib": round(first["proportional"] / GIB, 2),
        "second_run_s": round(second["seconds"], 1),
        "spark_minutes": round(spark["seconds"] / 60, 2),
        "spark_to_local": round(spark["seconds"] / first["seconds"], 2),
    }
    targets = [Target("minutes", 10, "min"), Target("resident_gib", 4, "GiB"), Target("spark_to_local", 1.3, "x")]
    targets = [] if quick else targets  # a short run is mostly Spark's start
    return Result("backtest_speed", figures, targets, broken)


def _command(reports: Path, out: Path, grid: Sequence[str]) -> list[str]:
    axes = [word for axis in grid for word in ("--grid", axis)]
    return [
        sys.executable, "-m", "controller.cli.main", "backtest", "--reports", str(reports), "--out", str(out),
        "--jobs", str(JOBS), "--strategies", ",".join(STRATEGIES), *axes,
    ]  # fmt: skip


def _run_measured(command: Sequence[str]) -> dict[str, float]:
    """Run a command: wall and CPU time in seconds, peak memory of all its processes in bytes."""
    peak = {"resident": 0.0, "proportional": 0.0}
    before, began_s = os.times(), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(process.pid, peak, ended.wait), daemon=True)
    watcher.start()
    _, err = process.communicate()
    ended.set()
    watcher.join()
    if process.returncode:
        raise NotMeasured(f"ballast backtest ended with {process.returncode}: {err[-500:]}")
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": time.monotonic() - began_s, "cpu_seconds": cpu_s, **peak}


def _watch(pid: int, peak: dict[str, float], wait: Callable[[float], bool]) -> None:
    while not wait(SAMPLE_S):
        sums = {"resident": 0.0, "proportional": 0.0}
        try:
            root = psutil.Process(pid)
            for process in (root, *root.children(recursive=True)):
                memory = process.memory_full_info()
                sums["resident"] += memory.rss
                sums["proportional"] += getattr(memory, "pss", memory.rss)
        except psutil.Error:
            continue  # one of them has just ended
        for name, value in sums.items():
            peak[name] = max(peak[name], value)


def _digest(out: Path) -> str:
    return hashlib.sha256(b"".join((out / name).read_bytes() for name in TABLES)).hexdigest()
