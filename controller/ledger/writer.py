"""Idempotent appends: a batch that runs again after a crash adds its rows once.

Each (table, application id) remembers the last version (batch number) written, in the table itself. A version that is
not above it is skipped. Use one application id per table and purpose, and a new one for a new checkpoint: its batch
numbers start again at 0.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from deltalake import CommitProperties, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from controller.domain.errors import BallastError
from controller.ledger.tables import TableRoot, as_root, for_table
from schemas.arrow import arrow_schema, arrow_table
from schemas.catalog import TABLES

WRITE_ATTEMPTS = 3
QUARANTINE_RAW_BYTES = 65_536
USUAL = WriterProperties(compression="SNAPPY")  # delta-rs's own choice


class KafkaRow(Protocol):
    """A Kafka record and where it lay."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def value(self) -> bytes | None: ...


class BadControlRow(Protocol):
    """A Kafka record and the rule it breaks (`controller.service.records.BadRow`)."""

    @property
    def row(self) -> KafkaRow: ...
    @property
    def rule_id(self) -> str: ...
    @property
    def text(self) -> str: ...


def append(
    root: TableRoot | str | Path,
    name: str,
    table: pa.Table,
    app_id: str,
    version: int,
    metadata: Mapping[str, str] | None = None,
    properties: WriterProperties = USUAL,
) -> bool:
    """Append the rows as one commit, unless `app_id` has written this version or a higher one; returns whether.

    `metadata` is kept with the commit (`ballast.max_event_ms` for panes); `properties` say how Parquet is written. An
    empty table is not written. Give a TableRoot when you append often: it keeps the handles. Raises BallastError for
    columns that do not fit.
    """
    tables = as_root(root)
    rows = _fitted(name, table)
    for attempt in range(WRITE_ATTEMPTS):
        handle = tables.handle(name)
        written = handle.transaction_version(app_id)
        if written is not None and written >= version:
            return attempt > 0  # an attempt that seemed to fail did arrive
        if rows.num_rows == 0:
            return False
        try:
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
            tables.forget(name)  # whether it arrived is written in the table: look there
            if attempt + 1 == WRITE_ATTEMPTS:
                raise
            continue
        return True
    raise AssertionError("unreachable")


def append_rows(root: TableRoot | str | Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows given as mappings, without protection against doubles; missing keys become null.

    Raises ValueError or ArrowInvalid, naming the column, for a value that does not fit. No rows: nothing is written.
    """
    if not rows:
        return
    tables = as_root(root)
    try:
        handle = tables.handle(name)
        write_deltalake(handle, for_table(handle, arrow_table(TABLES[name], rows)), mode="append")
    except (CommitFailedError, DeltaError, OSError):
        tables.forget(name)
        raise


def quarantine_row(bad: BadControlRow, batch_id: int, wall_ms: int) -> dict[str, Any]:
    """A control record that breaks a rule, as a row of `quarantine`."""
    row = bad.row
    raw, is_base64 = quarantined_raw(row.value)
    return {
        "detected_ms": wall_ms,
        "topic": row.topic,
        "partition": row.partition,
        "kafka_offset": row.offset,
        "kafka_timestamp_ms": row.timestamp_ms,
        "rule": bad.rule_id,
        "text": bad.text.encode("utf-8", "replace").decode(),
        "raw": raw,
        "raw_base64": is_base64,
        "source": "control",
        "batch_id": batch_id,
    }


def quarantined_raw(value: bytes | None) -> tuple[str | None, bool]:
    """The record's beginning as text, or as base64 where that is not UTF-8 (then the flag is True); the whole record
    stays in Kafka at its offset."""
    if value is None:
        return None, False
    cut = value[:QUARANTINE_RAW_BYTES]
    try:
        return cut.decode("utf-8"), False
    except UnicodeDecodeError:
        return base64.b64encode(cut).decode("ascii"), True


def _fitted(name: str, table: pa.Table) -> pa.Table:
    """The table with exactly the columns of the definition, in its order and types."""
    schema = arrow_schema(TABLES[name])
    missing = [column for column in schema.names if column not in table.column_names]
    unknown = [column for column in table.column_names if column not in schema.names]
    if missing or unknown:
        raise BallastError(f"rows for {name}: missing columns {missing}, unknown columns {unknown}; see docs/tables.md")
    for f in schema:
        if not f.nullable and table[f.name].null_count:
            raise BallastError(f"rows for {name}: {f.name} is null in {table[f.name].null_count} rows")
    return pa.table([table[f.name].cast(f.type) for f in schema], schema=schema)
