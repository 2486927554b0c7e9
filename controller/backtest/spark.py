"""Points of a backtest as Spark tasks: the job by spark-submit beside this process, which waits for the points' files.

The job gets a process group of its own: an interrupt of this process ends JVM, driver and tasks, and what is finished
stays. Its output goes to a file in the backtest's folder, the terminal shows the progress. No pyspark here.
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
from controller.process.paths import ROOT
from controller.process.spark_submit import spark_environment, spark_submit_command

JOB = ROOT / "jobs" / "backtest.py"
LOG = "spark.log"
LOOK_EVERY_S = 0.25
STOP_S = 10.0


def job_arguments(
    store: Store, job: Job, strategies: str, grid: Sequence[str], conf: Path | None, profile: str | None,
    sets: Sequence[str],
) -> list[str]:  # fmt: skip
    """The command line of jobs/backtest.py: with it the job comes to the same points."""
    words = ["--out", str(store.folder.resolve()), "--recording", job.digest, "--strategies", strategies]
    words += ["--missed-steps", str(job.replay.missed_steps), "--gap-ms", str(job.replay.gap_ms)]
    words += ["--conf", str(conf)] if conf else []
    words += ["--profile", profile] if profile else []
    words += [word for axis in grid for word in ("--grid", axis)]
    return words + [word for given in sets for word in ("--set", given)]


def spark_points(
    store: Store, job: Job, points: Sequence[GridPoint], arguments: Sequence[str], spark_conf: Path
) -> Generator[Finished, None, None]:
    """Run the points, which are not finished yet, on Spark; each as soon as its file is there.

    Raises ConfigError where Spark is not installed, BallastError with the log's name when the job fails.
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
            running = process.poll() is None  # asked before the look: what is missing then, is missing
            there = {file.stem for file in (store.folder / POINTS).iterdir()}  # one listing, not a look for each
            for key in [key for key in pending if key in there]:
                run = store.finished(job, pending[key])
                if run is not None:
                    yield Finished(pending.pop(key), run)
            if pending and not running:
                left = f"{process.returncode} before {len(pending)} points were finished"
                raise BallastError(f"the Spark job ended with exit code {left}: see {log}")
            time.sleep(LOOK_EVERY_S if pending else 0)
        process.wait()  # all files are there: what it does now is leave
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the JVM and its driver, SIGKILL to what is left after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            continue
