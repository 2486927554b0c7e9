"""Quarantine of load reports: the rows of a task's bad records, each with the rule it breaks and its raw bytes.

The driver adds time, source and batch, and appends the rows to the table `quarantine`. Invariant: a flood of bad
records cannot fill the driver, because a task keeps only so many raw bytes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from controller.ledger.raw_record import encode_raw
from controller.loads.raw_report import RawReport
from controller.loads.rules import describe_violation

RAW_BYTES_A_TASK = 32 * 2**20  # of raw records that a task keeps up to their full limit; beyond that, heads only
RAW_HEAD_BYTES = 1_024

BAD_ROWS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("kafka_offset", pa.int64()),
        ("kafka_timestamp_ms", pa.int64()),
        ("rule", pa.string()),
        ("text", pa.string()),
        ("raw", pa.string()),
        ("raw_base64", pa.bool_()),
    ]
)


class ReportQuarantine:
    """The bad records of one task."""

    def __init__(self, raw_bytes: int) -> None:
        """`raw_bytes`: the longest raw value that a row keeps."""
        self._keep_bytes = raw_bytes
        self._kept_bytes = 0
        self._rows: list[dict[str, Any]] = []

    def add(self, record: RawReport, rule: str, detail: str) -> None:
        """Quarantine a record that breaks a rule; `detail` is the offending value."""
        keep = self._keep_bytes if self._kept_bytes < RAW_BYTES_A_TASK else RAW_HEAD_BYTES
        head = record.value[:keep] if record.value else None
        self._kept_bytes += len(head or b"")
        raw, is_base64 = encode_raw(head)
        self._rows.append(
            {
                "topic": record.topic,
                "partition": record.partition,
                "kafka_offset": record.offset,
                "kafka_timestamp_ms": record.event_ms,
                "rule": rule,
                "text": describe_violation(rule, detail),
                "raw": raw,
                "raw_base64": is_base64,
            }
        )

    def __len__(self) -> int:
        return len(self._rows)

    def to_table(self) -> pa.Table:
        """The rows, in the order they were added."""
        return pa.Table.from_pylist(self._rows, schema=BAD_ROWS)
