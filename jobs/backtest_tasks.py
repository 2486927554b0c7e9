"""Runs each point of a backtest as a Spark task.

A task maps the prepared arrays from the shared folder into memory and writes its result to that folder. It calls the
code of the local run and stores results the same way, so the results are equal to the last byte and either run can
continue the other. The driver only receives a count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

from pyspark import SparkContext

from controller.backtest.point.grid import GridPoint
from controller.backtest.point.run_point import run_point
from controller.backtest.recording.prepared import Prepared
from controller.backtest.store import Job, Store, code_digest, load_arrays
from controller.domain.errors import ConfigError
from controller.loads.worker import settle
from controller.process.plugins import use_installed_strategies


def run_tasks(context: SparkContext, folder: Path, job: Job, points: Sequence[GridPoint]) -> int:
    """Run and store the points; return how many. Driver and executors must see the folder at the same path.

    A failing task ends the job after Spark's usual attempts; finished points stay.
    """
    if not points:
        return 0
    task = partial(_run, str(folder), job)
    return int(context.parallelize(points, len(points)).mapPartitions(task).sum())


def _run(folder: str, job: Job, points: Iterable[GridPoint]) -> Iterator[int]:
    settle()
    use_installed_strategies()
    if code_digest() != job.code:
        raise ConfigError("this executor runs other code than the driver: install the same version on every node")
    store = Store(Path(folder))
    for point in points:
        store.keep(job, point, run_point(_load_prepared(str(store.arrays(job))), point, job.base, job.replay))
        yield 1


@lru_cache(maxsize=1)
def _load_prepared(folder: str) -> Prepared:
    """Load the arrays once per worker process, which runs many tasks."""
    return load_arrays(Path(folder))
