"""Supervises the process that computes rounds, which is separate so that even the largest round delays no failover.

The worker has no Spark. It follows the journal, watches the load tables, computes a round when one is due and returns
the result, which the control query journals like any other event. Which brokers lag behind the journal is known from
heartbeats only, so the worker is sent every change of that. It starts the next round only after it has read the
previous one in the journal, so that each builds on the outcome of the last.
"""

from __future__ import annotations

import logging
import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from controller.config.settings import Settings
from controller.domain.events import RoundFinished
from controller.service.metrics import ControlMetrics
from controller.service.rounds.process import MovesJudged, RoundsDone, StillAlive, run_worker

log = logging.getLogger(__name__)

RESTART_PAUSES_S = (1.0, 2.0, 5.0, 15.0, 30.0)
HEALTHY_AFTER_S = 60.0  # after this long, the next restart has the shortest pause again
SILENT_S = 60.0  # the largest rounds take some seconds: a worker that is silent for this long hangs


class RoundWorker:
    """Starts the worker process, passes its rounds on, and restarts it when it dies."""

    def __init__(
        self,
        settings: Settings,
        every_round: bool,
        on_round: Callable[[RoundFinished, int], None],
        metrics: ControlMetrics,
        lagging: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """`lagging`: the brokers that are behind the journal now."""
        self.restarts = 0
        self.heard_s = time.monotonic()  # when the worker sent something last; the start counts
        self._settings = settings
        self._every_round = every_round
        self._on_round = on_round
        self._metrics = metrics
        self._lagging = lagging
        self._context = multiprocessing.get_context("spawn")
        self._process: SpawnProcess | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="round-worker-listener", daemon=True)

    @property
    def pid(self) -> int | None:
        """The worker's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.is_alive() else None

    def troubles(self) -> list[str]:
        """Why there are no rounds, for `/healthz`; empty unless the worker has been silent for SILENT_S."""
        silent_s = time.monotonic() - self.heard_s
        if silent_s <= SILENT_S:
            return []
        pid = self.pid
        who = f"the worker (pid {pid}) says nothing" if pid else f"no worker runs (started again {self.restarts} times)"
        return [f"rounds: {who}, for {silent_s:.0f} s; see its lines in the log"]

    def start(self) -> None:
        """Start the worker and the thread that listens to it."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the worker; a round in progress is lost, and the next start computes it again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        attempt = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._run_worker()
            except Exception:  # out of memory, an unreadable message: this thread must go on, or rounds end
                log.exception("the round worker failed")
            if self._stopping.is_set():
                return
            self.restarts += 1
            self._metrics.worker_restarts.inc()
            attempt = 0 if time.monotonic() - began > HEALTHY_AFTER_S else attempt + 1
            pause_s = RESTART_PAUSES_S[min(attempt, len(RESTART_PAUSES_S) - 1)]
            code = self._process.exitcode if self._process else None
            log.error("the round worker ended with code %s; starting it again in %.0f s", code, pause_s)
            self._stopping.wait(pause_s)

    def _run_worker(self) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=run_worker, args=(theirs, self._settings, self._every_round), name="ballast-rounds", daemon=True
        )
        process.start()
        theirs.close()
        self._process = process
        self._metrics.worker_alive.set(1)
        try:
            self._listen(ours, process)
        finally:
            self._metrics.worker_alive.set(0)
            ours.close()  # which ends the worker
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()

    def _listen(self, ours: Connection, process: SpawnProcess) -> None:
        sent: frozenset[str] = frozenset()
        while not self._stopping.is_set():
            lagging = self._lagging()
            if lagging != sent:
                ours.send(sent := lagging)
            ready = wait([ours, process.sentinel], timeout=0.2)
            if ours in ready:
                try:
                    self._receive(ours.recv())
                except (EOFError, OSError):  # it died, perhaps while sending
                    return
            elif ready:
                return

    def _receive(self, done: RoundsDone | MovesJudged | StillAlive) -> None:
        self.heard_s = time.monotonic()
        if isinstance(done, MovesJudged):
            self._metrics.rounds.count_judged(done.judged)
        if not isinstance(done, RoundsDone):
            return
        self._metrics.round_seconds.set(done.duration_ms / 1000)
        for result in done.results:
            self._on_round(RoundFinished(result), done.duration_ms)
