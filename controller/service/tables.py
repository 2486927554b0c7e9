"""The Delta tables of the control query: the journal with one writer, evidence and quarantine written before it.

A commit blocks while the table store does not tell its outcome: the same entries are committed again until the outcome
is known, or the process stops.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count

from deltalake.exceptions import DeltaError

import controller
from controller.config.retention import retention_ms
from controller.config.settings import Settings
from controller.control.context import Evidence
from controller.control.step_decisions import StepEvidence
from controller.domain.entries import Entry
from controller.domain.errors import ForeignCommit, OutcomeUnknown, describe_error
from controller.domain.state import ClusterState
from controller.ledger.append import append
from controller.ledger.cleanup import CleanupThread, ControlCleanup, Kept
from controller.ledger.evidence import write_evidence, write_step_decisions
from controller.ledger.journal_commit import Journal
from controller.ledger.snapshots import load_state
from controller.ledger.store.away import is_store_away
from controller.ledger.store.room import NoRoom
from controller.ledger.tables import TableRoot, as_root
from controller.process.clock import wall_ms
from controller.service.control_quarantine import ControlQuarantine
from controller.service.metrics import ControlMetrics
from controller.service.projector import Projector
from schemas.arrow import arrow_table
from schemas.catalog import LOAD_TABLES, TABLES
from schemas.control_tables import CONFIG_HISTORY

log = logging.getLogger(__name__)

UNKNOWN_PAUSE_S = 1.0
EVIDENCE_TRIES = 4
EVIDENCE_PAUSE_S = 0.2  # after the first try, twice that after the second, and so on
DECISIONS_KEPT = 20  # batches; a batch rescues at most 5,000 bundles, a few MB of decisions


class ControlTables:
    """The tables of one controller instance. Call everything but `project` from one thread at a time."""

    def __init__(
        self,
        root: TableRoot | str,
        instance: str,
        settings: Settings,
        metrics: ControlMetrics,
        give_up: threading.Event,
    ) -> None:
        """Once `give_up` is set, a commit with an unknown outcome raises instead of retrying."""
        self._tables = as_root(root)
        self._tables.create_all()
        self._journal = Journal(self._tables)  # before the state is read, so that commits in between are detected
        self._instance = instance
        self._settings = settings
        self._projector = Projector(self._tables, settings.control.snapshot_every_entries, metrics)
        self._give_up = give_up
        self._metrics = metrics
        self._unwritten_decisions: deque[StepEvidence] = deque(maxlen=DECISIONS_KEPT)  # oldest first
        self.quarantine = ControlQuarantine(self._tables, instance, metrics)
        kept = retention_ms(settings)
        rows_kept = Kept(kept["journal_days"], kept["config_history_days"])
        self._cleanup = CleanupThread(
            ControlCleanup(self._tables, rows_kept, on_failed=metrics.tables.note_failure),
            settings.retention.cleanup_interval_s,
            wall_ms,
            metrics.tables.note_pass,
        )

    def gain_columns(self) -> None:
        """Add this version's columns to tables of an older one. Call this only as the journal's holder: a live
        controller of that version could no longer write."""
        self._tables.gain_columns(name for name in TABLES if name not in LOAD_TABLES)

    def load_state(self) -> ClusterState:
        """The cluster state at the journal's newest entry."""
        return load_state(self._tables)

    def commit(self, entries: Sequence[Entry]) -> None:
        """Append the entries as one commit. Raises ForeignCommit; OutcomeUnknown and NoRoom once `give_up` is set."""
        while True:
            try:
                self._journal.commit(entries, self._instance, entries[0].batch)
                self._metrics.commit_blocked.set(0)
                return
            except (OutcomeUnknown, NoRoom) as error:
                log.error("blocked: %s", error)
                self._metrics.commit_blocked.set(1)
                self._metrics.commit_retries.inc()
                if self._give_up.wait(UNKNOWN_PAUSE_S):
                    raise

    def check_not_replaced(self) -> None:
        """Raise ForeignCommit when another controller has committed since our newest commit, and OutcomeUnknown when
        the log cannot be read."""
        self._journal.check_not_replaced(self._instance)

    def append_evidence(
        self, evidence: Sequence[Evidence], wall_ms: int, durations_ms: Mapping[str, int]
    ) -> dict[str, str]:
        """Append rows of rounds, decisions and scores, which count once the journal names their attempt.

        A failed try may have left rows, so the next one is a new attempt. Returns failed attempt id -> the id that the
        journal must name instead. Raises the error of the last of EVIDENCE_TRIES; a store that is away is waited for.
        """
        renamed = {}
        for found in evidence:
            first = found.attempt_id
            for again in count(1):
                try:
                    write_evidence(self._tables, found, wall_ms, durations_ms.get(found.result.round_id))
                    break
                except (DeltaError, OSError) as error:
                    if not self._may_try_again(error, found.result.round_id, again):
                        raise
                    found.attempt_id = renamed[first] = f"{first}-{again}"
        return renamed

    def _may_try_again(self, error: Exception, round_id: str, tried: int) -> bool:
        """Whether to write a round's evidence again, after a pause. A store that is away is waited for, as is a
        commit's outcome."""
        away = is_store_away(error)
        blocked = "blocked: " if away else ""
        log.warning("%sevidence of round %s, try %d: %s", blocked, round_id, tried, describe_error(error))
        self._metrics.commit_blocked.set(int(away))
        pause_s = EVIDENCE_PAUSE_S * min(tried, EVIDENCE_TRIES)
        return (away or tried < EVIDENCE_TRIES) and not self._give_up.wait(pause_s)

    def append_decisions(self, found: StepEvidence) -> None:
        """Append the step's own decisions, before the commit that names them. A table that cannot be written stops
        nothing, since bundles would stay unserved: the newest batches are kept and retried."""
        self._unwritten_decisions.append(found)
        self.retry_decisions()

    def retry_decisions(self) -> None:
        """Retry the decisions that could not be written; called at the end of each batch."""
        try:
            while self._unwritten_decisions:
                write_step_decisions(self._tables, self._unwritten_decisions[0])
                self._unwritten_decisions.popleft()
        except (DeltaError, OSError) as error:
            self._metrics.decision_failures.inc()
            log.error("decisions of %d batches could not be written yet: %s", len(self._unwritten_decisions), error)

    def record_config(self, wall_ms: int) -> None:
        """Record the configuration of this instance in `config_history`."""
        row = {
            "config_version": self._settings.version,
            "instance": self._instance,
            "at_ms": wall_ms,
            "code_version": controller.__version__,
            "config_json": json.dumps(self._settings.dump(), sort_keys=True),
        }
        append(self._tables, CONFIG_HISTORY.name, arrow_table(CONFIG_HISTORY, [row]), f"config-{self._instance}", 0)

    def start_projecting(self, state: ClusterState) -> None:
        """Start writing projections and base snapshots, and cleaning up the tables."""
        self._projector.start(state)
        self._cleanup.start()

    def project(self, state: ClusterState) -> None:
        """Pass a newer state to the projector; returns at once."""
        self._projector.offer(state)

    @property
    def overtaken(self) -> ForeignCommit | None:
        """Why the projector has stopped for good: it found a projection beyond our journal. None while it runs."""
        return self._projector.overtaken

    def stop_projecting(self, last: ClusterState | None) -> None:
        """Stop the clean-up, then the projector; a given state is written at the end."""
        self._cleanup.stop()
        self._projector.stop(last)
