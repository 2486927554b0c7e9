"""The folder of all tables: creates and opens them, adds this version's columns, checks that agents can read them.

Tables use only an allow-list of Delta features, so that delta-rs and all other readers of protocol version 1 can open
them; other features are refused at once, with the statement that removes them. Handles are reopened every 500 versions,
because incremental updates only ever grow a handle's memory.

A damaged log is named. Of the journal even commits at the end that delta-rs reads as empty: a controller that missed
them would number its entries like theirs.

A table of an older version gets this version's columns from its next writer (`gain_columns`), and not before, because a
live controller of that version could no longer write it. In old rows the new columns are null. A table of a newer
version can be written too, with nulls in the columns that are unknown here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

from controller.domain.errors import BallastError, IncompatibleTable
from controller.ledger.delta_log import DeltaLog, LogGone, name_table
from controller.ledger.store.room import NoRoom, writing
from controller.process.paths import place_of_tables
from schemas.arrow import arrow_schema
from schemas.catalog import TABLES
from schemas.delta import delta_properties, retention_properties
from schemas.journal import JOURNAL
from schemas.record import Record

log = logging.getLogger(__name__)

ALLOWED_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"})
REOPEN_AFTER_VERSIONS = 500


class TableRoot:
    """All tables below one directory or object-store prefix; `storage_options` are delta-rs's. Not thread-safe."""

    def __init__(self, root: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self.root = place_of_tables(root)
        self.storage_options = dict(storage_options or {})
        self._handles: dict[str, tuple[DeltaTable, int]] = {}  # name -> handle and the version at which it was opened

    def again(self) -> TableRoot:
        """The same tables with handles of its own, for another thread."""
        return TableRoot(self.root, self.storage_options)

    @property
    def is_object_store(self) -> bool:
        """Whether the tables are in an object store, where nothing but conditional puts parts two writers."""
        return "://" in self.root and not self.root.startswith("file://")

    def uri(self, name: str) -> str:
        """The location of a table. Raises KeyError for a name that is not in `schemas.catalog.TABLES`."""
        return f"{self.root}/{TABLES[name].name}"

    def log(self, name: str) -> DeltaLog:
        """Reads the table's commits one by one."""
        return DeltaLog(self.uri(name), self.storage_options)

    def exists(self, name: str) -> bool:
        """Whether the table has been created."""
        if self.is_object_store:
            return self.log(name).has_log()  # unlike the other way, it leaves the interpreter to other threads
        with name_table(self.uri(name)):
            return DeltaTable.is_deltatable(self.uri(name), self.storage_options or None)

    def create_all(self) -> list[str]:
        """Create the missing tables; returns their names. Raises IncompatibleTable for a table that does not fit."""
        return [name for name in TABLES if self.create(name)]

    def create(self, name: str) -> bool:
        """Create one table unless it exists; two processes may do so at once. Returns whether this call created it.

        A table of an older version gets this version's retention. Raises IncompatibleTable when it lacks a column that
        must not be null.
        """
        created = False
        if not self.exists(name):
            created = _create(TABLES[name], self.uri(name), self.storage_options)
        table = self.open(name)
        needed = [f.name for f in _lacking(table, TABLES[name]) if not f.nullable]
        if needed:
            raise IncompatibleTable(
                f"table {self.uri(name)} lacks the columns {', '.join(needed)}, which no row of this version may be "
                "without: it is of another program or was damaged; restore it, or give another tables.root"
            )
        _set_properties(table, TABLES[name])
        return created

    def gain_columns(self, names: Iterable[str]) -> None:
        """Add this version's columns to these tables where they are missing: a commit for each, which changes no data.

        Call this as their only writer from now on: an older version cannot write a table with more columns.
        """
        for name in names:
            table = self.open(name)
            lacking = _lacking(table, TABLES[name])
            if not lacking:
                continue
            added = ", ".join(f.name for f in lacking)
            try:
                with writing(self.uri(name)):
                    table.alter.add_columns(list(Schema.from_arrow(pa.schema(lacking)).fields))
            except NoRoom:
                raise
            except (CommitFailedError, DeltaError) as error:
                if _lacking(self.open(name), TABLES[name]):
                    raise BallastError(f"cannot add {added} to table {self.uri(name)}: {error}; start again") from error
            log.info("table %s has gained the columns %s", self.uri(name), added)

    def open(self, name: str, version: int | None = None) -> DeltaTable:
        """Open a new handle at the newest or the given version. Raises IncompatibleTable, DamagedTable, DeltaError."""
        try:
            with self._name_damage(name):
                table = DeltaTable(self.uri(name), version=version, storage_options=self.storage_options or None)
        except DeltaProtocolError as error:
            raise IncompatibleTable(f"table {self.uri(name)}: {error}; drop the feature with {_drop('…')}") from error
        check_protocol(table, self.uri(name))
        if version is None and name == JOURNAL.name:
            self.log(name).check_end(table.version())
        return table

    def handle(self, name: str) -> DeltaTable:
        """A cached handle, updated to the newest version, and reopened every REOPEN_AFTER_VERSIONS versions."""
        kept = self._handles.get(name)
        if kept is not None:
            table, opened_at = kept
            with self._name_damage(name):
                table.update_incremental()
            if table.version() - opened_at < REOPEN_AFTER_VERSIONS:
                return table
        table = self.open(name)
        self._handles[name] = (table, table.version())
        return table

    def forget(self, name: str) -> None:
        """Drop the cached handle, after an error with it."""
        self._handles.pop(name, None)

    @contextmanager
    def _name_damage(self, name: str) -> Iterator[None]:
        """Raise DamagedTable in place of delta-rs's error if a file of the log is damaged."""
        try:
            with name_table(self.uri(name)):
                yield
        except DeltaProtocolError:
            raise
        except DeltaError as error:
            try:
                damage = self.log(name).find_damage()
            except (DeltaError, OSError, LogGone):
                damage = None  # the store does not answer, which is what delta-rs says
            if damage is not None:
                raise damage from error
            raise


def as_root(root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None) -> TableRoot:
    """The root itself, or a new one for a path."""
    return root if isinstance(root, TableRoot) else TableRoot(root, storage_options)


def for_table(table: DeltaTable, rows: pa.Table) -> pa.Table:
    """The rows with the table's columns: nulls for columns that only the table has, and without columns that only the
    rows have. Raises BallastError when such a column of the rows is not null."""
    columns = [f.name for f in table.schema().fields]
    if sorted(columns) == sorted(rows.column_names):
        return rows
    for name in set(rows.column_names) - set(columns):
        if rows[name].null_count < rows.num_rows:
            raise no_column(table, name)
    types = pa.schema(table.schema().to_arrow())
    kept = [name for name in rows.column_names if name in columns]
    added = [types.field(name) for name in columns if name not in rows.column_names]
    return pa.table(
        [*(rows[name] for name in kept), *(pa.nulls(rows.num_rows, f.type) for f in added)],
        schema=pa.schema([*(rows.schema.field(name) for name in kept), *added]),
    )


def no_column(table: DeltaTable, names: str) -> BallastError:
    """The error for rows with columns that the table lacks."""
    return BallastError(f"{table.table_uri} has no column {names}: start the job, which adds it")


def check_protocol(table: DeltaTable, uri: str) -> None:
    """Raise IncompatibleTable when the table uses a feature outside ALLOWED_FEATURES."""
    protocol = table.protocol()
    found = set(protocol.reader_features or ()) | set(protocol.writer_features or ())
    if protocol.min_reader_version == 2 or protocol.min_writer_version == 5:
        found.add("columnMapping")  # implied by these versions before features had names
    if protocol.min_writer_version == 6:
        found.add("identityColumns")
    foreign = sorted(found - ALLOWED_FEATURES)
    if foreign:
        raise IncompatibleTable(
            f"table {uri} uses {', '.join(foreign)} (reader {protocol.min_reader_version}, writer "
            f"{protocol.min_writer_version}), which agents cannot read or write: run {_drop(foreign[0])} with Spark"
        )


def _lacking(table: DeltaTable, record: Record) -> list[pa.Field]:
    """The fields of the definition that are not among the table's columns."""
    columns = {f.name for f in table.schema().fields}
    return [f for f in arrow_schema(record, comments=True) if f.name not in columns]


def _set_properties(table: DeltaTable, record: Record) -> None:
    """Set checkpoint interval, retention and append-only as defined, in a commit that changes no data."""
    found = table.metadata().configuration
    changed = {key: value for key, value in retention_properties(record).items() if found.get(key) != value}
    if not changed:
        return
    try:
        with writing(table.table_uri):
            table.alter.set_table_properties(changed)
    except CommitFailedError as error:
        log.info("properties %s of %s not set, another process is at it: %s", changed, record.name, error)


def _drop(feature: str) -> str:
    return f"`ALTER TABLE … DROP FEATURE {feature} TRUNCATE HISTORY`"


def _create(record: Record, uri: str, storage_options: Mapping[str, str]) -> bool:
    try:
        with writing(uri):
            DeltaTable.create(
                uri,
                arrow_schema(record, comments=True),
                mode="error",
                name=record.name,
                description=record.comment,
                configuration=delta_properties(record),
                storage_options=dict(storage_options) or None,
                commit_properties=CommitProperties(max_commit_retries=0),
            )
    except NoRoom:
        raise
    except (CommitFailedError, DeltaError) as error:
        if DeltaTable.is_deltatable(uri, dict(storage_options) or None):
            return False  # another process was quicker
        raise BallastError(f"cannot create table {uri}: {error}; is the folder writable?") from error
    return True
