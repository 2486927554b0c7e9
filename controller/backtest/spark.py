"""Runs the points of a backtest as Spark tasks: starts the job with spark-submit and waits for the points' files.

The job has its own process group: an interrupt of this process ends JVM, driver and tasks, and finished points stay.
Its output goes to a file in the backtest's folder; the terminal shows the progress. This module needs no pyspark.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from controller.backtest.point.grid import GridPoint
from controller.backtest.run import Finished
from controller.backtest.store import POINTS, Job, Store
from controller.domain.errors import BallastError
from controller.process.paths import CODE
from controller.process.spark_submit import spark_environment, spark_submit_command

JOB = CODE / "jobs" / "backtest.py"
LOG = "spark.log"
LOOK_EVERY_S = 0.25
STOP_S = 10.0


def job_arguments(
    store: Store, job: Job, strategies: str, grid: Sequence[str], conf: Path | None, profile: str | None,
    sets: Sequence[str],
) -> list[str]:  # fmt: skip
    """The arguments of jobs/backtest.py that give it the same points."""
    words = ["--out", str(store.folder.resolve()), "--recording", job.digest, "--strategies", strategies]
    words += ["--round-interval-ms", str(job.replay.round_interval_ms)]
    words += ["--missed-steps", str(job.replay.missed_steps), "--gap-ms", str(job.replay.gap_ms)]
    words += ["--conf", str(conf)] if conf else []
    words += ["--profile", profile] if profile else []
    words += [word for axis in grid for word in ("--grid", axis)]
    return words + [word for given in sets for word in ("--set", given)]


def spark_points(
    store: Store, job: Job, points: Sequence[GridPoint], arguments: Sequence[str], spark_conf: Path
) -> Generator[Finished, None, None]:
    """Run unfinished points on Spark; yield each as soon as its file exists.

    Raises ConfigError if Spark is not installed, BallastError with the path of the log if the job fails.
    """
    if not points:
        return
    command = spark_submit_command(arguments, spark_conf, JOB)
    log, pending = store.folder / LOG, {job.key(point): point for point in points}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env=spark_environment(os.environ, spark_conf),
        )  # fmt: skip
    try:
        while pending:
            running = process.poll() is None  # before the listing: if it has ended, missing points stay missing
            there = {file.stem for file in (store.folder / POINTS).glob("*.json")}  # one listing for all points
            for key in [key for key in pending if key in there]:
                run = store.load(job, pending[key])
                if run is not None:
                    yield Finished(pending.pop(key), run)
            if pending and not running:
                left = f"{process.returncode} before {len(pending)} points were finished"
                raise BallastError(f"the Spark job ended with exit code {left}: see {log}")
            time.sleep(LOOK_EVERY_S if pending else 0)
        process.wait()  # all files exist, so the job is about to end
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the JVM and its driver with SIGTERM, after a while with SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
