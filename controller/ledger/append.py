"""Idempotent appends: a batch that runs again after a crash adds its rows only once.

A table stores the last version (batch number) written by each application id, and a version that is not above it is
skipped. Use one application id per table and purpose, and a new one for a new checkpoint, whose batch numbers start
again at 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from controller.domain.errors import BallastError
from controller.ledger.store.room import writing
from controller.ledger.tables import TableRoot, as_root, for_table
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
    tables = as_root(root)
    rows = _fit_to_schema(name, table)
    for attempt in range(WRITE_ATTEMPTS):
        handle = tables.handle(name)
        written = handle.transaction_version(app_id)
        if written is not None and written >= version:
            return attempt > 0  # True: an attempt that seemed to fail had succeeded
        if rows.num_rows == 0:
            return False
        try:
            with writing(tables.uri(name)):
                write_deltalake(
                    handle,
                    for_table(handle, rows),
                    mode="append",
                    writer_properties=properties,
                    commit_properties=CommitProperties(
                        app_transactions=[Transaction(app_id, version)], custom_metadata=dict(metadata or {}) or None
                    ),
                )
        except (CommitFailedError, DeltaError, OSError):
            tables.forget(name)  # whether it succeeded is in the table: look there
            if attempt + 1 == WRITE_ATTEMPTS:
                raise
            continue
        return True
    raise AssertionError("unreachable")


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
