"""Keeps tables small: merges small files, deletes expired rows, removes dead files. With delta-rs, beside writers.

Invariants: nothing is committed when there is nothing to do, so an idle table stays as it is; merging changes no data;
rows expire relative to the newest row of their table or the clock, whichever is earlier, so neither a clock that is
ahead nor a recording from last year empties a table; only files that no version within the table's
`delta.deletedFileRetentionDuration` names are removed, so that readers of older versions find their files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError

from controller.domain.errors import BallastError
from controller.ledger.damage import DamagedTable
from controller.ledger.files import find_damaged_file
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES

log = logging.getLogger(__name__)

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
ATTEMPTS = 5  # of a delete that conflicts with other commits
BULK = (
    "broker_panes",
    "bundle_panes",
    "broker_load",
    "bundle_load",
    "rounds",
    "decisions",
    "broker_scores",
    "quarantine",
)
BULK_TARGET_BYTES = 128 * 2**20
BULK_FEWEST_FILES = 8  # below, merging gains less than it writes
MERGED = WriterProperties(compression="ZSTD", compression_level=4)  # as delta-rs merges by itself
# A reader of a few rows decodes whole row groups. With small ones, a lookup in a journal of 1,000,000 entries takes a
# third of the time; still smaller ones make larger files.
LOOKED_UP_TABLES = ("journal", "rounds", "decisions", "broker_scores")
LOOKED_UP = WriterProperties(compression="ZSTD", compression_level=4, max_row_group_size=2**14)
APPEND_ONLY = "delta.appendOnly"


@dataclass(frozen=True, slots=True)
class Tended:
    """What was done to one table: small files merged, rows expired, files removed from the store."""

    table: str
    merged_files: int = 0
    expired_rows: int = 0
    removed_files: int = 0

    @property
    def anything(self) -> bool:
        """Whether anything was done."""
        return bool(self.merged_files or self.expired_rows or self.removed_files)


class Engine(Protocol):
    """Merges and removes files; rows are always expired by this module."""

    def compact(self, name: str) -> int:
        """Merge small files; returns how many were replaced."""

    def vacuum(self, name: str) -> int:
        """Remove dead files; returns how many."""


class DeltaRsEngine:
    """Merges and removes files in this process, which is enough for the data of one machine."""

    def __init__(self, tables: TableRoot, target_bytes: int = BULK_TARGET_BYTES) -> None:
        self._tables = tables
        self._target_bytes = target_bytes

    def compact(self, name: str) -> int:
        """Merge the files below the target size if there are enough of them."""
        return merge_small_files(self._tables.open(name), self._target_bytes, BULK_FEWEST_FILES, merge_properties(name))

    def vacuum(self, name: str) -> int:
        """Remove dead files."""
        return remove_dead_files(self._tables, name)


def maintain(tables: TableRoot, engine: Engine, kept_ms: Mapping[str, int], now_ms: int, name: str) -> Tended:
    """Expire rows, merge and remove files of one bulk table. `kept_ms`: retention key (`loads_days`) -> ms.

    Raises DeltaError or OSError when the table cannot be read or written; the next run catches up.
    """
    if not tables.exists(name):
        return Tended(name)
    with name_damage_of(tables, name):
        expired = expire_rows(tables, name, kept_ms[retention_key(name)], now_ms)
        return Tended(name, engine.compact(name), expired, engine.vacuum(name))


@contextmanager
def name_damage_of(tables: TableRoot, name: str) -> Iterator[None]:
    """Raise DamagedTable in place of delta-rs's error if a data file of the table is damaged: it names the file."""
    try:
        yield
    except (DamagedTable, CommitFailedError):
        raise
    except (DeltaError, OSError) as error:
        try:
            damage = find_damaged_file(tables.open(name), tables.log(name))
        except (DeltaError, OSError):
            damage = None  # the store does not answer, which is what was said
        if damage is not None:
            raise damage from error
        raise


def retention_key(name: str) -> str:
    """The retention key of a table. Raises KeyError for a table whose rows do not expire."""
    options = TABLES[name].table
    if options is None or not options.kept_as:
        raise KeyError(f"rows of {name} do not expire")
    return options.kept_as


def merge_properties(name: str) -> WriterProperties:
    """How a table's merged files are written."""
    return LOOKED_UP if name in LOOKED_UP_TABLES else MERGED


def merge_small_files(table: DeltaTable, target_bytes: int, fewest: int, properties: WriterProperties = MERGED) -> int:
    """Merge files below `target_bytes` into files of about that size if there are at least `fewest`; returns how many.

    Merges one at a time, so as not to take CPU from the queries. `properties`: of the Parquet writer.
    """
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows or pc.sum(pc.less(actions["size_bytes"], target_bytes)).as_py() < fewest:
        return 0
    done = table.optimize.compact(
        target_size=target_bytes,
        max_concurrent_tasks=1,
        writer_properties=properties,
        commit_properties=CommitProperties(custom_metadata={"ballast.cleanup": "merge"}),
    )
    return int(done["numFilesRemoved"])


def dead_files(tables: TableRoot, name: str) -> int:
    """How many existing files no version within the table's retention names.

    The log lists removed files until a checkpoint drops them, whether they still exist or not.
    """
    named = {path.rpartition("/")[2] for path in tables.open(name).vacuum(dry_run=True, full=True)}
    if not named:
        return 0
    lying = tables.log(name).files.get_file_info(pafs.FileSelector("", recursive=False))
    return len(named & {info.base_name for info in lying})


def remove_dead_files(tables: TableRoot, name: str) -> int:
    """Remove files that no version within the table's retention names; returns how many.

    Checks first, because VACUUM commits twice even when there is nothing to remove.
    """
    dead = dead_files(tables, name)
    if not dead:
        return 0
    properties = CommitProperties(custom_metadata={"ballast.cleanup": "vacuum"})
    tables.open(name).vacuum(dry_run=False, full=True, commit_properties=properties)
    return dead


def expire_rows(tables: TableRoot, name: str, kept_ms: int, now_ms: int) -> int:
    """Delete the rows older than `kept_ms`; returns how many. Raises CommitFailedError after ATTEMPTS conflicts.

    The cutoff is at whole days (hours, if rows are kept for less than two days), so that a file is rewritten at most
    once a day.
    """
    options = TABLES[name].table
    assert options is not None
    column = options.expires_by
    for attempt in range(ATTEMPTS):
        table = tables.open(name)
        actions = pa.table(table.get_add_actions(flatten=True))
        cutoff_ms = find_cutoff_ms(actions, column, kept_ms, now_ms)
        if cutoff_ms is None or not _has_older(actions, column, cutoff_ms):
            return 0
        try:
            told = {"ballast.expired_before_ms": str(cutoff_ms)}
            return delete_rows(table, f"{column} < {cutoff_ms}", told, merge_properties(name))
        except CommitFailedError as error:
            log.info("expiring rows of %s, attempt %d: %s", name, attempt + 1, error)
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def delete_rows(
    table: DeltaTable, predicate: str, metadata: Mapping[str, str], properties: WriterProperties = MERGED
) -> int:
    """Delete by a predicate; returns how many rows. `properties`: of the Parquet writer, for what is left of a file.

    For an append-only table, that property is lifted for this commit. A crash in between leaves it lifted;
    `TableRoot.create` at the next start, or the next deletion, restores it.
    """
    append_only = table.metadata().configuration.get(APPEND_ONLY) == "true"
    if append_only:
        table.alter.set_table_properties({APPEND_ONLY: "false"})
    try:
        named = CommitProperties(custom_metadata=dict(metadata))
        done = table.delete(predicate, writer_properties=properties, commit_properties=named)
    finally:
        if append_only:
            back = {APPEND_ONLY: "true"}
            _until_done(lambda: table.alter.set_table_properties(back), table)
    return int(done["num_deleted_rows"] or 0)


def find_cutoff_ms(actions: pa.Table, column: str, kept_ms: int, now_ms: int) -> int | None:
    """The time before which rows have expired, ms since epoch; None for a table without rows or statistics.

    `actions`: the table's add actions, flattened.
    """
    if not actions.num_rows or f"max.{column}" not in actions.column_names:
        return None
    newest = pc.max(actions[f"max.{column}"]).as_py()
    if newest is None:
        return None
    step_ms = DAY_MS if kept_ms >= 2 * DAY_MS else HOUR_MS
    return (min(int(newest), now_ms) - kept_ms) // step_ms * step_ms


def _has_older(actions: pa.Table, column: str, cutoff_ms: int) -> bool:
    oldest = actions[f"min.{column}"]
    return oldest.null_count > 0 or bool(pc.any(pc.less(oldest, cutoff_ms)).as_py())


def _until_done(change: Callable[[], None], table: DeltaTable) -> None:
    for _ in range(ATTEMPTS):
        try:
            return change()
        except CommitFailedError:
            table.update_incremental()
    raise BallastError(f"{APPEND_ONLY} of {table.table_uri} could not be set again: another writer keeps changing it")
