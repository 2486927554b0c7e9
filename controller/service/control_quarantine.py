"""Quarantine of control records: heartbeats, events, requests and commands that break a rule.

A table that cannot be written stops nothing: the newest rows are kept and written with the next bad record, and every
record stays in Kafka at its offset.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from deltalake.exceptions import DeltaError

from controller.ledger.append import append
from controller.ledger.raw_record import encode_raw
from controller.ledger.tables import TableRoot
from controller.service.metrics import ControlMetrics
from controller.service.records import BadRow
from schemas.arrow import arrow_table
from schemas.load_tables import QUARANTINE

log = logging.getLogger(__name__)

RAW_BYTES = 65_536  # of a record that a row keeps
UNWRITTEN_KEPT = 1_000


class ControlQuarantine:
    """Writes the bad records of one controller instance. Not thread-safe."""

    def __init__(self, tables: TableRoot, instance: str, metrics: ControlMetrics) -> None:
        self._tables = tables
        self._app_id = f"control-{instance}"
        self._metrics = metrics
        self._unwritten: list[dict[str, Any]] = []

    def write(self, bad: Sequence[BadRow], batch_id: int, wall_ms: int) -> None:
        """Append the records of one batch. A batch that runs again may write them twice: topic, partition and offset
        identify a row."""
        self._unwritten += [quarantine_row(found, batch_id, wall_ms) for found in bad]
        try:
            append(self._tables, QUARANTINE.name, arrow_table(QUARANTINE, self._unwritten), self._app_id, batch_id)
        except (DeltaError, OSError) as error:
            self._metrics.quarantine_failures.inc()
            log.error("%d bad records could not be quarantined yet: %s", len(self._unwritten), error)
            del self._unwritten[:-UNWRITTEN_KEPT]
        else:
            self._unwritten.clear()


def quarantine_row(bad: BadRow, batch_id: int, wall_ms: int) -> dict[str, Any]:
    """A control record that breaks a rule, as a row of `quarantine`."""
    row = bad.row
    raw, is_base64 = encode_raw(None if row.value is None else row.value[:RAW_BYTES])
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
