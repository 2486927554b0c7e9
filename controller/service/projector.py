"""Writes projections and base snapshots behind the journal, in a thread of its own.

No decision depends on them, and they can be rebuilt from the journal, so a failure is logged, counted and retried
without affecting a batch. The exception is a projection beyond our journal, which means that another controller has
taken over: writing then stops, and the next batch checks the journal. States are immutable after a batch, so passing
one is enough.
"""

from __future__ import annotations

import logging
import threading
from time import thread_time

from controller.domain.errors import ForeignCommit
from controller.domain.state import ClusterState
from controller.ledger.projections import Projections
from controller.ledger.snapshots import Snapshots
from controller.ledger.tables import TableRoot, as_root
from controller.process.clock import wall_ms
from controller.service.metrics import ControlMetrics

log = logging.getLogger(__name__)

LEAST_INTERVAL_S = 1.0  # only the newest state is written: many batches cost one write a second
PAUSES = 4  # times the CPU that a write took: of a million bundles it takes seconds, which the batches need more
RETRY_S = 5.0
STOP_TIMEOUT_S = 30.0


class Projector:
    """Writes the newest state passed to `offer`, which any thread may call."""

    def __init__(self, root: TableRoot | str, snapshot_every: int, metrics: ControlMetrics) -> None:
        """`snapshot_every`: journal entries between two base snapshots."""
        self.overtaken: ForeignCommit | None = None  # set once, by the thread
        tables = as_root(root).again()  # for a thread of its own
        self._projections = Projections(tables)
        self._snapshots = Snapshots(tables)
        self._snapshot_every = snapshot_every
        self._metrics = metrics
        self._newest: ClusterState | None = None
        self._written_seq = -1
        self._snapshot_seq = 0
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="projector", daemon=True)

    def start(self, state: ClusterState) -> None:
        """Start with the controller's initial state."""
        self._snapshot_seq = state.seq
        self.offer(state)
        self._thread.start()

    def offer(self, state: ClusterState) -> None:
        """Pass a newer state; returns at once."""
        if state.seq != self._written_seq:
            self._newest = state
            self._changed.set()

    def stop(self, last: ClusterState | None) -> None:
        """Stop the thread, then write the given state, with a base snapshot for a quick start."""
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)
        if last is not None and self.overtaken is None and not self._thread.is_alive():
            self._write(last)
            self._save_snapshot(last)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.wait()
            self._changed.clear()
            state = self._newest
            if self._stopping.is_set() or state is None:
                return
            began_s, pause_s = thread_time(), LEAST_INTERVAL_S
            try:
                self._write(state)
                if state.seq - self._snapshot_seq >= self._snapshot_every:
                    self._save_snapshot(state)
            except ForeignCommit as error:
                log.error("projections are no longer written: %s", error)
                self.overtaken = error
                return
            except Exception as error:
                self._metrics.projection_failures.inc()
                log.warning("projections of seq %d not written: %s; retrying", state.seq, error)
                self._changed.set()
                pause_s = RETRY_S
            self._stopping.wait(max(pause_s, PAUSES * (thread_time() - began_s)))

    def _write(self, state: ClusterState) -> None:
        if state.seq != self._written_seq:
            self._projections.write(state)
            self._written_seq = state.seq
            self._metrics.projected_seq.set(state.seq)

    def _save_snapshot(self, state: ClusterState) -> None:
        self._snapshots.save(state, wall_ms())
        self._snapshot_seq = state.seq
