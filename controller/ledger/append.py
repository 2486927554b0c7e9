"""Idempotent appends: a batch that runs again after a crash adds its rows only once.

A table stores the last version (batch number) written by each application id, and a version that is not above it is
skipped. Use one application id per table and purpose, and a new one for a new checkpoint, whose batch numbers start
again at 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from controller.domain.errors import BallastError
from controller.ledger.delta_log import DeltaLog
from controller.ledger.store.data_files import file_name, name_by_content
from controller.ledger.store.room import writing
from controller.ledger.tables import TableRoot, as_root, for_table, no_column
from controller.process.clock import wall_ms
from schemas.arrow import arrow_schema, arrow_table
from schemas.catalog import TABLES

WRITE_ATTEMPTS = 3
USUAL = WriterProperties(compression="SNAPPY")  # delta-rs's own default


def append(
    root: TableRoot | str | Path,
    name: str,
    table: pa.Table,
    app_id: str,
    version: int,
    metadata: Mapping[str, str] | None = None,
    properties: WriterProperties = USUAL,
) -> bool:
    """Append the rows as one commit unless `app_id` has written this version or a higher one; returns whether it did.

    `metadata` is stored with the commit (`ballast.max_event_ms` for panes); `properties` are those of the Parquet
    writer. An empty table is not written. Pass a TableRoot when appending often, because it caches handles. Raises
    BallastError for columns that do not fit.
    """
    rows = _fit_to_schema(name, table)
    once = _once(app_id, version, metadata)

    def write(handle: DeltaTable) -> None:
        write_deltalake(
            handle, for_table(handle, rows), mode="append", writer_properties=properties, commit_properties=once
        )

    return _append_once(as_root(root), name, app_id, version, write if rows.num_rows else None)


def append_files(
    root: TableRoot | str | Path,
    name: str,
    files: Sequence[bytes],
    app_id: str,
    version: int,
    metadata: Mapping[str, str] | None = None,
    stored: bool = False,
) -> bool:
    """Like `append`, of Parquet files with the table's columns. Their own statistics become those of the table.

    `stored`: they are in the table's directory already, by the names that `data_files` gives them. A file that is
    stored without its commit, after a crash, is no part of the table, and maintenance removes it.
    """
    tables = as_root(root)
    once = _once(app_id, version, metadata)

    def write(handle: DeltaTable) -> None:
        log = tables.log(name)
        added: list[AddAction | RemoveAction] = [_add(log, handle, file, stored) for file in files]
        handle.create_write_transaction(added, mode="append", schema=handle.schema(), commit_properties=once)

    return _append_once(tables, name, app_id, version, write if files else None)


def _once(app_id: str, version: int, metadata: Mapping[str, str] | None) -> CommitProperties:
    return CommitProperties(
        app_transactions=[Transaction(app_id, version)], custom_metadata=dict(metadata or {}) or None
    )


def _append_once(
    tables: TableRoot, name: str, app_id: str, version: int, write: Callable[[DeltaTable], None] | None
) -> bool:
    """Write, unless `app_id` has written this version or a higher one; None: there is nothing to write."""
    for attempt in range(WRITE_ATTEMPTS):
        handle = tables.handle(name)
        written = handle.transaction_version(app_id)
        if written is not None and written >= version:
            return attempt > 0  # True: an attempt that seemed to fail had succeeded
        if write is None:
            return False
        try:
            with writing(tables.uri(name)):
                write(handle)
        except (CommitFailedError, DeltaError, OSError):
            tables.forget(name)  # whether it succeeded is in the table: look there
            if attempt + 1 == WRITE_ATTEMPTS:
                raise
            continue
        return True
    raise AssertionError("unreachable")


def _add(log: DeltaLog, table: DeltaTable, file: bytes, stored: bool) -> AddAction:
    """What adds the file, which is in the table's directory afterwards. Raises BallastError if it has a column that the
    table lacks, or if it was stored by somebody else and is not there: readers of the table could not go on."""
    parquet = pq.read_metadata(pa.BufferReader(file))
    columns = {f.name for f in table.schema().fields}
    unknown = [column for column in parquet.schema.names if column not in columns]
    if unknown:
        raise no_column(table, ", ".join(unknown))
    path = name_by_content(file) if stored else file_name(uuid4())
    if not stored:
        with log.data_files.open_output_stream(path) as stream:
            stream.write(file)
    elif log.files.get_file_info(path).size != len(file):
        raise BallastError(f"{log.uri}/{path} is not what a task has stored: do workers use another store?")
    return AddAction(path, len(file), {}, wall_ms(), True, json.dumps(_statistics_of(parquet)))


def _statistics_of(parquet: pq.FileMetaData) -> dict[str, Any]:
    """What a commit says of a file: its rows, and the ends of the columns whose statistics it has."""
    found: dict[str, Any] = {"numRecords": parquet.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for number, name in enumerate(parquet.schema.names):
        parts = [parquet.row_group(group).column(number).statistics for group in range(parquet.num_row_groups)]
        if parts and all(part is not None and part.has_min_max for part in parts):
            found["minValues"][name] = min(part.min for part in parts)
            found["maxValues"][name] = max(part.max for part in parts)
            found["nullCount"][name] = sum(part.null_count for part in parts)
    return found


def append_rows(root: TableRoot | str | Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows given as mappings, without protection against duplicates; missing keys become null.

    Raises ValueError or ArrowInvalid, naming the column, for a value that does not fit. Without rows nothing is
    written.
    """
    if not rows:
        return
    tables = as_root(root)
    try:
        handle = tables.handle(name)
        with writing(tables.uri(name)):
            write_deltalake(handle, for_table(handle, arrow_table(TABLES[name], rows)), mode="append")
    except (CommitFailedError, DeltaError, OSError):
        tables.forget(name)
        raise


def _fit_to_schema(name: str, table: pa.Table) -> pa.Table:
    """The table with exactly the columns of the definition, in their order and types. Raises BallastError."""
    schema = arrow_schema(TABLES[name])
    missing = [column for column in schema.names if column not in table.column_names]
    unknown = [column for column in table.column_names if column not in schema.names]
    if missing or unknown:
        raise BallastError(f"rows for {name}: missing columns {missing}, unknown columns {unknown}; see docs/tables.md")
    for f in schema:
        if not f.nullable and table[f.name].null_count:
            raise BallastError(f"rows for {name}: {f.name} is null in {table[f.name].null_count} rows")
    return pa.table([table[f.name].cast(f.type) for f in schema], schema=schema)
