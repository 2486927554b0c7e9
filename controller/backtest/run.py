"""Runs points on the cores of this machine. Each is stored when it is finished, whatever happens to the others.

Workers read the prepared arrays as memory maps of one folder, so nothing large is sent to them. An interrupt ends the
workers and keeps all finished points. With one job everything runs in this process.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from controller.backtest.point.grid import GridPoint
from controller.backtest.point.result import PointRun
from controller.backtest.point.run_point import run_point
from controller.backtest.recording.prepared import Prepared
from controller.backtest.store import Job, Store, load_arrays
from controller.process.interrupts import delay_interrupts, no_interrupt_for_children
from controller.process.plugins import use_installed_strategies


class Finished(NamedTuple):
    """A point and its result."""

    point: GridPoint
    run: PointRun


def run_points(store: Store, job: Job, points: Sequence[GridPoint], jobs: int) -> Generator[Finished, None, None]:
    """Run the points and store each one; yields them in the order in which they finish."""
    folder = store.arrays(job)
    if jobs <= 1 or len(points) <= 1:
        prepared = load_arrays(folder)
        for point in points:
            run = run_point(prepared, point, job.base, job.replay)
            store.keep(job, point, run)
            yield Finished(point, run)
        return
    start = _start, (str(store.folder), str(folder), job)
    pool = ProcessPoolExecutor(min(jobs, len(points)), get_context("spawn"), *start)
    try:
        # the parent decides what an interrupt means, once it knows all its workers
        with delay_interrupts(), no_interrupt_for_children():
            futures = [pool.submit(_run_one, point) for point in points]
        for future in as_completed(futures):
            yield future.result()
    except BaseException:  # including an interrupt: running points are of no use any more
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Worker(NamedTuple):
    store: Store
    job: Job
    prepared: Prepared


_worker: list[_Worker] = []  # of this process, set once by `_start`


def _start(folder: str, arrays: str, job: Job) -> None:
    use_installed_strategies()
    _worker[:] = [_Worker(Store(Path(folder)), job, load_arrays(Path(arrays)))]


def _run_one(point: GridPoint) -> Finished:
    (worker,) = _worker
    run = run_point(worker.prepared, point, worker.job.base, worker.job.replay)
    worker.store.keep(worker.job, point, run)
    return Finished(point, run)
