"""The Spark job of `ballast backtest --spark`: runs every missing point as a task and returns an exit code.

The command has read the recording and written the prepared arrays to the folder. It waits for the points' files and
makes the tables and the report itself, so this job needs neither reports, tables nor a terminal.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from controller.backtest.point.grid import points_to_run
from controller.backtest.recording.prepared import Replay
from controller.backtest.store import Job, Store
from controller.config.arguments import OneLineParser, add_settings_arguments
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.domain.errors import BallastError, ConfigError
from controller.process.logs import configure_logs
from controller.process.spark_submit import NoMaster
from jobs.backtest_tasks import run_tasks
from jobs.session import build_session

log = logging.getLogger("ballast.backtest")

EXIT_FAILED, EXIT_CONFIG = 1, 2


def main(argv: Sequence[str]) -> int:
    """Run the missing points; return the exit code. Errors of Spark end the process with a traceback."""
    given = _arguments(argv)
    try:
        settings = load_settings(given.conf, given.profile, given.set)
        replay = Replay(given.round_interval_ms, given.missed_steps, given.gap_ms)
        job = Job(given.recording, policy_settings(settings), replay)
        points = points_to_run(given.strategies.split(","), given.grid, job.base)
        store = Store(given.out)
        if not store.arrays(job).exists():
            raise ConfigError(f"{store.arrays(job)} is not there: start this job by `ballast backtest --spark`")
    except BallastError as error:
        print(f"ballast backtest: {error}", file=sys.stderr, flush=True)
        return EXIT_CONFIG
    configure_logs(settings.logging.level, settings.logging.json_lines, cluster=settings.cluster.name)
    missing = [point for point in points if store.load(job, point) is None]
    try:
        spark = build_session(f"ballast-backtest-{settings.cluster.name}")
    except NoMaster as error:
        print(f"ballast backtest: {error}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    try:
        done = run_tasks(spark.sparkContext, given.out, job, missing)
    finally:
        spark.stop()
    log.info("%d points run, %d were finished before", done, len(points) - done)
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(
        prog="backtest.py",
        description="Run the unfinished points of a backtest as Spark tasks. Started by `ballast backtest --spark`. "
        "Exit codes: 0 all are finished, 1 a task failed, 2 bad configuration.",
    )
    parser.add_argument("--out", type=Path, required=True, help="the backtest's folder, for driver and executors alike")
    parser.add_argument("--recording", required=True, metavar="DIGEST", help="which recording the arrays are of")
    parser.add_argument("--strategies", required=True, metavar="A,B", help="as in the command")
    parser.add_argument("--grid", action="append", default=[], metavar="KNOB=V,V", help="as in the command; repeatable")
    parser.add_argument("--round-interval-ms", type=int, required=True, metavar="MS", help="as the command found it")
    parser.add_argument("--missed-steps", type=int, required=True, metavar="N", help="as in the command")
    parser.add_argument("--gap-ms", type=int, required=True, metavar="MS", help="as in the command")
    add_settings_arguments(parser)
    return parser.parse_args(argv)
