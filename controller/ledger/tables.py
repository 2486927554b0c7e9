"""The folder of all tables: create, open, bring to this version's columns, check that agents can read them.

Tables stay inside an allow-list of Delta features, so that delta-rs and every other reader of reader version 1 can open
them; anything else is refused at once, with the statement that removes it. Handles are opened again every 500 versions:
incremental updates only ever add to a handle's memory.

A table of an older version gains this one's columns by whoever begins to write it (`gain_columns`), and not before: an
older controller that lives could not write on. Its old rows read as null. A table of a newer version is written all
the same, with nulls in the columns that are not known here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

from controller.domain.errors import BallastError, IncompatibleTable
from controller.ledger.delta_log import DeltaLog
from schemas.arrow import arrow_schema
from schemas.catalog import TABLES
from schemas.delta import delta_properties, retention_properties
from schemas.record import Record

log = logging.getLogger(__name__)

ALLOWED_FEATURES = frozenset({"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"})
REOPEN_AFTER_VERSIONS = 500


class TableRoot:
    """All tables below one directory or object-store prefix; `storage_options` are delta-rs's. Not thread-safe."""

    def __init__(self, root: str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        text = str(root)
        self.root = text.rstrip("/") if "://" in text else str(Path(text).absolute())
        self.storage_options = dict(storage_options or {})
        self._handles: dict[str, tuple[DeltaTable, int]] = {}  # name -> handle, version at which it was opened

    def uri(self, name: str) -> str:
        """Where a table lies; KeyError for a name that is none of `schemas.catalog.TABLES`."""
        return f"{self.root}/{TABLES[name].name}"

    def log(self, name: str) -> DeltaLog:
        """The table's commits, one by one."""
        return DeltaLog(self.uri(name), self.storage_options)

    def exists(self, name: str) -> bool:
        """Whether the table has been created."""
        return DeltaTable.is_deltatable(self.uri(name), self.storage_options or None)

    def create_all(self) -> list[str]:
        """Create what is missing; returns the names created. Raises IncompatibleTable for a table that does not fit."""
        return [name for name in TABLES if self.create(name)]

    def create(self, name: str) -> bool:
        """Create one table unless it exists; two processes may do so at once. Returns whether this call created it.

        A table of an older version gets the retention of this one. Raises IncompatibleTable when it lacks a column that
        cannot be null.
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
        _keep_as_defined(table, TABLES[name])
        return created

    def gain_columns(self, names: Iterable[str]) -> None:
        """Add the columns of this version that these tables lack: one commit a table, which changes no data.

        For who writes them from now on: a writer of an older version cannot write a table with more columns.
        """
        for name in names:
            table = self.open(name)
            lacking = _lacking(table, TABLES[name])
            if not lacking:
                continue
            added = ", ".join(f.name for f in lacking)
            try:
                table.alter.add_columns(list(Schema.from_arrow(pa.schema(lacking)).fields))
            except (CommitFailedError, DeltaError) as error:
                if _lacking(self.open(name), TABLES[name]):
                    raise BallastError(f"cannot add {added} to table {self.uri(name)}: {error}; start again") from error
            log.info("table %s has gained the columns %s", self.uri(name), added)

    def open(self, name: str, version: int | None = None) -> DeltaTable:
        """A new handle, at the newest version or the given one. Raises IncompatibleTable, DeltaError."""
        try:
            table = DeltaTable(self.uri(name), version=version, storage_options=self.storage_options or None)
        except DeltaProtocolError as error:
            raise IncompatibleTable(f"table {self.uri(name)}: {error}; drop the feature with {_drop('…')}") from error
        check_protocol(table, self.uri(name))
        return table

    def handle(self, name: str) -> DeltaTable:
        """A kept handle, brought to the newest version; opened again every REOPEN_AFTER_VERSIONS versions."""
        kept = self._handles.get(name)
        if kept is not None:
            table, opened_at = kept
            table.update_incremental()
            if table.version() - opened_at < REOPEN_AFTER_VERSIONS:
                return table
        table = self.open(name)
        self._handles[name] = (table, table.version())
        return table

    def forget(self, name: str) -> None:
        """Drop the kept handle, after an error with it."""
        self._handles.pop(name, None)


def as_root(root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None) -> TableRoot:
    """The root itself, or one for a path."""
    return root if isinstance(root, TableRoot) else TableRoot(root, storage_options)


def for_table(table: DeltaTable, rows: pa.Table) -> pa.Table:
    """The rows as the table takes them: with nulls in columns that a newer version has added to it, and without those
    that it has not gained yet. Raises BallastError when these hold something."""
    columns = [f.name for f in table.schema().fields]
    if sorted(columns) == sorted(rows.column_names):
        return rows
    for name in set(rows.column_names) - set(columns):
        if rows[name].null_count < rows.num_rows:
            raise BallastError(f"{table.table_uri} has no column {name}: start the job, which adds it")
    types = pa.schema(table.schema().to_arrow())
    kept = [name for name in rows.column_names if name in columns]
    added = [types.field(name) for name in columns if name not in rows.column_names]
    return pa.table(
        [*(rows[name] for name in kept), *(pa.nulls(rows.num_rows, f.type) for f in added)],
        schema=pa.schema([*(rows.schema.field(name) for name in kept), *added]),
    )


def check_protocol(table: DeltaTable, uri: str) -> None:
    """Raise IncompatibleTable when the table uses a feature outside ALLOWED_FEATURES."""
    protocol = table.protocol()
    found = set(protocol.reader_features or ()) | set(protocol.writer_features or ())
    if protocol.min_reader_version == 2 or protocol.min_writer_version == 5:
        found.add("columnMapping")  # what these versions meant before features had names
    if protocol.min_writer_version == 6:
        found.add("identityColumns")
    foreign = sorted(found - ALLOWED_FEATURES)
    if foreign:
        raise IncompatibleTable(
            f"table {uri} uses {', '.join(foreign)} (reader {protocol.min_reader_version}, writer "
            f"{protocol.min_writer_version}), which agents cannot read or write: run {_drop(foreign[0])} with Spark"
        )


def _lacking(table: DeltaTable, record: Record) -> list[pa.Field]:
    """Fields of the definition that the table has no column for."""
    columns = {f.name for f in table.schema().fields}
    return [f for f in arrow_schema(record, comments=True) if f.name not in columns]


def _keep_as_defined(table: DeltaTable, record: Record) -> None:
    """Bring checkpoint interval, retention and append-only to the definition: a commit that changes no data."""
    found = table.metadata().configuration
    changed = {key: value for key, value in retention_properties(record).items() if found.get(key) != value}
    if not changed:
        return
    try:
        table.alter.set_table_properties(changed)
    except CommitFailedError as error:
        log.info("properties %s of %s not set, another process is at it: %s", changed, record.name, error)


def _drop(feature: str) -> str:
    return f"`ALTER TABLE … DROP FEATURE {feature} TRUNCATE HISTORY`"


def _create(record: Record, uri: str, storage_options: Mapping[str, str]) -> bool:
    try:
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
    except (CommitFailedError, DeltaError) as error:
        if DeltaTable.is_deltatable(uri, dict(storage_options) or None):
            return False  # another process was quicker
        raise BallastError(f"cannot create table {uri}: {error}; is the folder writable?") from error
    return True
