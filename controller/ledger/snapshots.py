"""Base snapshots of the cluster state, from which a fold of the journal may start (invariant I4).

A snapshot is a shortcut, never the truth: without a readable one, the fold starts at the first entry.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import ColumnProperties, CommitProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

from controller.domain.apply import apply_in_place
from controller.domain.errors import BallastError
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode, encode
from controller.ledger.files import read_range, retry_on_vacuum
from controller.ledger.journal_rows import each_entry
from controller.ledger.store.room import writing
from controller.ledger.tables import TableRoot, as_root, for_table
from schemas.arrow import arrow_table
from schemas.control_tables import CONTROL_STATE
from schemas.journal import JOURNAL

log = logging.getLogger(__name__)

NAME = CONTROL_STATE.name
KEPT = 3
SAVE_ATTEMPTS = 5
ONE_BY_ONE = WriterProperties(  # a snapshot takes megabytes: who wants one reads one, and none for its statistics
    compression="SNAPPY",
    max_row_group_size=1,
    column_properties={"state_json": ColumnProperties(statistics_enabled="NONE")},
)


class Snapshots:
    """Saves and loads base snapshots. Not thread-safe."""

    def __init__(self, root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self._root = as_root(root, storage_options)
        self._log = self._root.log(NAME)

    def save(self, state: ClusterState, at_ms: int) -> bool:
        """Store the state and keep the newest KEPT snapshots; `at_ms` is wall-clock time.

        Returns False and writes nothing when the table has this seq or a higher one already.
        """
        row = {"seq": state.seq, "instance": state.instance, "at_ms": at_ms, "state_json": encode(state)}
        for _ in range(SAVE_ATTEMPTS):
            table, kept = retry_on_vacuum(self._open)
            held = kept.to_pylist()
            if held and held[-1]["seq"] >= state.seq:
                return False
            try:
                self._replace(table, [*held, row][-KEPT:], state.instance)
            except CommitFailedError:
                continue  # another writer was quicker: look again which is newer
            return True
        log.warning("base snapshot of seq %d not saved: the table kept changing; the next one will do", state.seq)
        return False

    def latest(self) -> ClusterState | None:
        """The newest readable snapshot, or None. Does not read the journal."""
        _, rows = retry_on_vacuum(self._open)
        for at in reversed(range(rows.num_rows)):
            seq, text = _row(rows, at)
            try:
                return decode(text)
            except (ValueError, KeyError, TypeError, AttributeError, BallastError) as error:
                log.error("base snapshot of seq %d cannot be read: %r; taking an older one", seq, error)
        return None

    def newest(self) -> tuple[int, memoryview] | None:
        """The newest snapshot as it is stored, readable or not: its seq, and what `encode` made of the state, as UTF-8.

        Reads no other one.
        """
        table = self._root.open(NAME)
        seqs = read_range(table, self._log, CONTROL_STATE, "seq", above=-1, columns=["seq"])["seq"].to_pylist()
        if not seqs:
            return None
        found = read_range(table, self._log, CONTROL_STATE, "seq", max(seqs) - 1, columns=["state_json"])
        return max(seqs), memoryview(found["state_json"][0].as_buffer())

    def floor(self) -> int | None:
        """The seq that every kept snapshot includes; None unless at least one of them is readable.

        A start may fall back to the oldest one, so the journal's entries above this seq must stay.
        """
        if self.latest() is None:
            return None
        _, rows = retry_on_vacuum(self._open)
        return _row(rows, 0)[0] if rows.num_rows else None

    def _open(self) -> tuple[DeltaTable, pa.Table]:
        """The table at its newest version, and its rows, oldest first: each takes megabytes as a Python string."""
        table = self._root.open(NAME)
        return table, read_range(table, self._log, CONTROL_STATE, "seq", above=-1).sort_by("seq")

    def _replace(self, table: DeltaTable, rows: list[dict[str, Any]], instance: str) -> None:
        """Make these the table's rows. Raises CommitFailedError when another writer was quicker."""
        named = CommitProperties(max_commit_retries=0, custom_metadata={"ballast.instance": instance})
        with writing(self._root.uri(NAME)):
            found = for_table(table, arrow_table(CONTROL_STATE, rows))
            write_deltalake(table, found, mode="overwrite", commit_properties=named, writer_properties=ONE_BY_ONE)


def _row(rows: pa.Table, at: int) -> tuple[int, str]:
    """The seq and the state of one row."""
    return int(rows["seq"][at].as_py()), str(rows["state_json"][at].as_py())


def load_state(root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None) -> ClusterState:
    """Load the newest base snapshot and replay the journal from there; an empty state before the tables exist."""
    return load_state_and_version(root, storage_options)[0]


def load_state_and_version(
    root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None
) -> tuple[ClusterState, int]:
    """As `load_state`, with the version of the journal's table that was read (-1: no table yet)."""
    tables = as_root(root, storage_options)
    if not tables.exists(JOURNAL.name):
        return ClusterState(), -1
    delta_log = tables.log(JOURNAL.name)

    def read() -> tuple[ClusterState, int]:
        state = (Snapshots(tables).latest() if tables.exists(NAME) else None) or ClusterState()
        journal = tables.open(JOURNAL.name)
        for entry in each_entry(journal, delta_log, state.seq):
            apply_in_place(state, entry)
        return state, journal.version()

    return retry_on_vacuum(read)
