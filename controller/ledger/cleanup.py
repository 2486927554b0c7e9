"""The controller's clean-up of its own tables: journal, projections, snapshots, configuration history, usage model.

It runs in a thread of its own beside the batches (docs/decisions/0007). Invariants:
- It commits nothing that the journal's writer would mistake for another controller: merging and VACUUM change no data,
  and a commit that drops expired entries says so (`Commit.changes_data`). The writer's next commit then fails on its
  outdated handle, reads the log and writes the same entries again: one more attempt, and no failover is delayed.
- An entry is dropped only if it is older than the retention *and* every base snapshot includes it, so that folding from
  any of them still works (I4).
- The log is cleaned up here only (the tables have `delta.enableExpiredLogCleanup = false`), and only while their writer
  is committing: an idle writer must find every commit since its own. If the next version's file were gone, it could
  write that version again, where no reader looks any more.
- An idle cluster is not touched: without new commits there is nothing to merge, drop or remove.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from controller.domain.errors import BallastError, describe_error
from controller.ledger.delta_log import EXPIRED_UP_TO, DeltaLog, LogGone
from controller.ledger.files import read_range
from controller.ledger.journal_rows import oldest_seq
from controller.ledger.maintenance import (
    Tended,
    delete_rows,
    expire_rows,
    find_cutoff_ms,
    merge_properties,
    merge_small_files,
    name_damage_of,
    remove_dead_files,
)
from controller.ledger.snapshots import Snapshots
from controller.ledger.store.away import is_store_away
from controller.ledger.tables import TableRoot, as_root
from schemas.catalog import TABLES
from schemas.control_tables import BROKERS, CONFIG_HISTORY, CONTROL_STATE, OVERRIDES, OWNERSHIP
from schemas.journal import JOURNAL
from schemas.usage_table import USAGE_MODEL

log = logging.getLogger(__name__)

TARGET_BYTES = 4 * 2**20  # some 100,000 entries: the most that a pass rewrites beside the small files
FEWEST_FILES = 64
OVERWRITTEN = (OWNERSHIP.name, BROKERS.name, OVERRIDES.name, CONTROL_STATE.name, USAGE_MODEL.name)
APPENDED = (CONFIG_HISTORY.name,)
FIRST_PASS_S = 20.0  # so that a controller which is restarted every few minutes cleans up as well
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Kept:
    """Retention of the control tables' rows, ms."""

    journal_ms: int
    config_history_ms: int


class ControlCleanup:
    """Cleans up the control tables, one pass at a time. Has its own table handles; not thread-safe.

    `on_failed` is called with the name of each table that a pass fails on.
    """

    def __init__(
        self,
        root: TableRoot | str | Path,
        kept: Kept,
        storage_options: Mapping[str, str] | None = None,
        on_failed: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.tables = as_root(root, storage_options).again()
        self._snapshots = Snapshots(self.tables)
        self._kept = kept
        self._on_failed = on_failed

    def run(self, now_ms: int) -> list[Tended]:
        """Run one pass; `now_ms` is wall-clock time. A table that fails is logged, and the others go on."""
        done = []
        for name, tend in self._work().items():
            try:
                with name_damage_of(self.tables, name):
                    done.append(tend(name, now_ms))
            except (DeltaError, OSError, BallastError) as error:
                log.warning("clean-up of %s failed, the next pass tries again: %s", name, error)
                self._on_failed(name)
        for tended in done:
            if tended.anything:
                log.info("clean-up of %s: %s", tended.table, _describe(tended))
        return done

    def _work(self) -> dict[str, Callable[[str, int], Tended]]:
        work: dict[str, Callable[[str, int], Tended]] = {JOURNAL.name: self._tend_journal}
        work |= dict.fromkeys(OVERWRITTEN, self._tend_overwritten) | dict.fromkeys(APPENDED, self._tend_appended)
        return {name: tend for name, tend in work.items() if self.tables.exists(name)}

    def _finish(self, name: str, now_ms: int) -> int:
        """Remove dead data files and, below a checkpoint, old commits."""
        removed = remove_dead_files(self.tables, name)
        clean_log(self.tables.open(name), self.tables.log(name), log_kept_ms(name), now_ms)
        return removed

    def _tend_journal(self, name: str, now_ms: int) -> Tended:
        merged = merge_small_files(self.tables.open(name), TARGET_BYTES, FEWEST_FILES, merge_properties(name))
        table = self.tables.open(name)
        last = find_droppable(table, self.tables.log(name), self._snapshots.floor, self._kept.journal_ms, now_ms)
        dropped = self._drop(table, last) if last is not None else 0
        return Tended(name, merged, dropped, self._finish(name, now_ms))

    def _drop(self, table: DeltaTable, last: int) -> int:
        return delete_rows(table, f"seq <= {last}", {EXPIRED_UP_TO: str(last)}, merge_properties(JOURNAL.name))

    def _tend_appended(self, name: str, now_ms: int) -> Tended:
        merged = merge_small_files(self.tables.open(name), TARGET_BYTES, FEWEST_FILES)
        expired = 0
        if name == CONFIG_HISTORY.name:
            expired = expire_rows(self.tables, name, self._kept.config_history_ms, now_ms)
        return Tended(name, merged, expired, self._finish(name, now_ms))

    def _tend_overwritten(self, name: str, now_ms: int) -> Tended:
        return Tended(name, removed_files=self._finish(name, now_ms))


def find_droppable(
    table: DeltaTable, log: DeltaLog, find_floor: Callable[[], int | None], kept_ms: int, now_ms: int
) -> int | None:
    """The newest entry up to which the journal may be dropped, or None. `find_floor`: the oldest base snapshot's seq,
    asked only if something has expired.

    Wall clocks may step back, so this is the end of the journal's unbroken run of expired entries.
    """
    actions = pa.table(table.get_add_actions(flatten=True))
    cutoff_ms, oldest = find_cutoff_ms(actions, "at_ms", kept_ms, now_ms), oldest_seq(table)
    if cutoff_ms is None or oldest is None:
        return None
    expired = read_range(table, log, JOURNAL, "at_ms", above=-1, up_to=cutoff_ms - 1, columns=["seq"])["seq"]
    floor = find_floor() if len(expired) else None
    if floor is None or oldest > floor:
        return None
    seqs = expired.combine_chunks().sort()
    first_other = pc.index(pc.equal(seqs, pa.array(range(oldest, oldest + len(seqs)), pa.int64())), False).as_py()
    unbroken = len(seqs) if first_other < 0 else first_other
    last = min(oldest + unbroken - 1, floor)
    return last if last >= oldest else None


def clean_log(table: DeltaTable, log: DeltaLog, kept_ms: int, now_ms: int) -> bool:
    """Remove commits below a checkpoint that are older than the log's retention; returns whether that was safe.

    It is safe while the newest commit of the table's writer is younger than half the retention, because every commit
    after that one is younger still and stays.
    """
    for version in range(table.version(), -1, -1):
        try:
            commit = log.read(version)
        except LogGone:
            return False
        if commit.changes_data:
            if now_ms - int(commit.info.get("timestamp", 0)) > kept_ms // 2:
                return False
            table.cleanup_metadata()
            return True
    return False


def log_kept_ms(name: str) -> int:
    """The retention of the table's log, ms."""
    options = TABLES[name].table
    assert options is not None
    return options.log_retention_minutes * 60_000


class CleanupThread:
    """Runs passes until stopped. Failures are logged and affect nothing else.

    `after_pass` is called in the thread when a pass has ended, with the tables' handles and the time.
    """

    def __init__(
        self,
        cleanup: ControlCleanup,
        interval_s: float,
        wall_ms: Callable[[], int],
        after_pass: Callable[[TableRoot, int], None] = lambda tables, now_ms: None,
    ) -> None:
        self._cleanup = cleanup
        self._interval_s = interval_s
        self._wall_ms = wall_ms
        self._after_pass = after_pass
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control-cleanup", daemon=True)

    def start(self) -> None:
        """Start the thread; the first pass follows after FIRST_PASS_S, so as not to slow down a start."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current pass; returns once it has ended, or after STOP_TIMEOUT_S."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        pause_s = min(FIRST_PASS_S, self._interval_s)
        while not self._stopping.wait(pause_s):
            pause_s = self._interval_s
            try:
                self._cleanup.run(self._wall_ms())
                self._after_pass(self._cleanup.tables, self._wall_ms())
            except Exception as error:
                stack = None if is_store_away(error) else error
                why = describe_error(error)
                log.error(
                    "clean-up of the control tables failed; trying again in %.0f s: %s", pause_s, why, exc_info=stack
                )


def _describe(tended: Tended) -> str:
    return (
        f"{tended.merged_files} files merged, {tended.expired_rows} rows expired, {tended.removed_files} files removed"
    )
