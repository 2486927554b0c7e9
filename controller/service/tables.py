"""The Delta tables as the control query uses them: one writer of the journal, evidence and quarantine before it.

The commit blocks for as long as the table store does not say what became of it: an unknown outcome is asked again
with the same entries, until it is known, or the process is ended from outside.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from deltalake.exceptions import DeltaError

import controller
from controller.config.retention import retention_ms
from controller.config.settings import Settings
from controller.control.context import Evidence
from controller.control.decided import StepEvidence
from controller.domain.entries import Entry
from controller.domain.errors import ForeignCommit, OutcomeUnknown
from controller.domain.state import ClusterState
from controller.ledger.cleanup import CleanupThread, ControlCleanup, Kept
from controller.ledger.evidence import write_evidence, write_step_decisions
from controller.ledger.journal import Journal
from controller.ledger.snapshots import load_state
from controller.ledger.tables import TableRoot
from controller.ledger.writer import append, quarantine_row
from controller.process.clock import wall_ms
from controller.service.metrics import ControlMetrics
from controller.service.projector import Projector
from controller.service.records import BadRow
from schemas.arrow import arrow_table
from schemas.catalog import LOAD_TABLES, TABLES
from schemas.control_tables import CONFIG_HISTORY
from schemas.load_tables import QUARANTINE

log = logging.getLogger(__name__)

UNKNOWN_PAUSE_S = 1.0
EVIDENCE_TRIES = 4
EVIDENCE_PAUSE_S = 0.2  # after the first try, twice that after the second, and so on
UNWRITTEN_KEPT = 1_000
UNDECIDED_KEPT = 20  # batches; a batch rescues at most 5,000 bundles, a few MB of decisions


class ControlTables:
    """Used by one controller instance. All but `project` is called by one thread at a time."""

    def __init__(
        self, root: str, instance: str, settings: Settings, metrics: ControlMetrics, give_up: threading.Event
    ) -> None:
        """`give_up` set: a commit whose outcome stays unknown raises instead of asking on and on."""
        self._tables = TableRoot(root)
        self._tables.create_all()
        self._journal = Journal(self._tables)  # before the state is read: what comes between is then noticed
        self._instance = instance
        self._settings = settings
        self._projector = Projector(root, settings.control.snapshot_every_entries, metrics)
        self._give_up = give_up
        self._metrics = metrics
        self._undecided: deque[StepEvidence] = deque(maxlen=UNDECIDED_KEPT)  # oldest first
        self._unwritten: list[dict[str, Any]] = []  # rows of quarantine that its table would not take
        kept = retention_ms(settings)
        self._cleanup = CleanupThread(
            ControlCleanup(root, Kept(kept["journal_days"], kept["config_history_days"])),
            settings.retention.cleanup_interval_s,
            wall_ms,
        )

    def gain_columns(self) -> None:
        """Bring tables of an older version to this one's columns. For who holds the journal: a living controller of
        that version could not write on."""
        self._tables.gain_columns(name for name in TABLES if name not in LOAD_TABLES)

    def load_state(self) -> ClusterState:
        """The cluster as the journal tells it now."""
        return load_state(self._tables)

    def commit(self, entries: Sequence[Entry]) -> None:
        """Append the entries as one commit. Raises ForeignCommit; OutcomeUnknown only when told to give up."""
        while True:
            try:
                self._journal.commit(entries, self._instance, entries[0].batch)
                return
            except OutcomeUnknown as error:
                log.error("blocked: %s", error)
                if self._give_up.wait(UNKNOWN_PAUSE_S):
                    raise

    def check_not_replaced(self) -> None:
        """Raises ForeignCommit when another controller has committed since our newest commit; OutcomeUnknown when the
        log cannot be read."""
        self._journal.check_not_replaced(self._instance)

    def append_evidence(
        self, evidence: Sequence[Evidence], wall_ms: int, durations_ms: Mapping[str, int]
    ) -> dict[str, str]:
        """Rows of rounds, decisions and scores; they count once the journal names their attempt.

        A try that failed may have left rows, so the next one is another attempt. Returns the id of each attempt that
        failed -> the one that the journal must name in its place. Raises what the last of EVIDENCE_TRIES said.
        """
        renamed = {}
        for found in evidence:
            first = found.attempt_id
            for again in range(1, EVIDENCE_TRIES + 1):
                try:
                    write_evidence(self._tables, found, wall_ms, durations_ms.get(found.result.round_id))
                    break
                except (DeltaError, OSError) as error:
                    log.warning("evidence of round %s, try %d: %s", found.result.round_id, again, error)
                    if again == EVIDENCE_TRIES or self._give_up.wait(EVIDENCE_PAUSE_S * again):
                        raise
                    found.attempt_id = renamed[first] = f"{first}-{again}"
        return renamed

    def append_decisions(self, found: StepEvidence) -> None:
        """What the step decided by itself, before the commit that names it. A table that cannot be written stops
        nothing, as bundles would go unserved: the newest batches are kept and tried again."""
        self._undecided.append(found)
        self.append_left_decisions()

    def append_left_decisions(self) -> None:
        """What could not be written before; each batch ends with a try."""
        try:
            while self._undecided:
                write_step_decisions(self._tables, self._undecided[0])
                self._undecided.popleft()
        except (DeltaError, OSError) as error:
            self._metrics.decision_failures.inc()
            log.error("decisions of %d batches could not be written yet: %s", len(self._undecided), error)

    def quarantine(self, bad: Sequence[BadRow], batch_id: int, wall_ms: int) -> None:
        """Records that break a rule. A batch that is run again may write them twice: topic, partition and offset are
        their key. A table that cannot be written stops nothing: the newest are kept for the next bad record, and all
        stay in Kafka at their offsets."""
        self._unwritten += [quarantine_row(found, batch_id, wall_ms) for found in bad]
        rows = arrow_table(QUARANTINE, self._unwritten)
        try:
            append(self._tables, QUARANTINE.name, rows, f"control-{self._instance}", batch_id)
        except (DeltaError, OSError) as error:
            self._metrics.quarantine_failures.inc()
            log.error("%d bad records could not be quarantined yet: %s", len(self._unwritten), error)
            del self._unwritten[:-UNWRITTEN_KEPT]
        else:
            self._unwritten.clear()

    def record_config(self, wall_ms: int) -> None:
        """The configuration this instance runs with, into `config_history`."""
        row = {
            "config_version": self._settings.version,
            "instance": self._instance,
            "at_ms": wall_ms,
            "code_version": controller.__version__,
            "config_json": json.dumps(self._settings.dump(), sort_keys=True),
        }
        append(self._tables, CONFIG_HISTORY.name, arrow_table(CONFIG_HISTORY, [row]), f"config-{self._instance}", 0)

    def start_projecting(self, state: ClusterState) -> None:
        """Begin to keep `ownership`, `brokers` and the base snapshot behind the journal, and the tables small."""
        self._projector.start(state)
        self._cleanup.start()

    def project(self, state: ClusterState) -> None:
        """Tell the projector of a newer state; returns at once."""
        self._projector.offer(state)

    @property
    def overtaken(self) -> ForeignCommit | None:
        """What the projector found when it gave up for good: a projection beyond our journal; None while it has not."""
        return self._projector.overtaken

    def stop_projecting(self, last: ClusterState | None) -> None:
        """End the projector; with a state, after it has been written. The clean-up ends first."""
        self._cleanup.stop()
        self._projector.stop(last)
