"""Kafka records through one task of the loads query, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from controller.loads.packing import unpack
from controller.loads.rules import ReportLimits
from controller.loads.seen import Seen
from controller.loads.settings import LoadsSettings
from controller.loads.task import PACKED, RECORD_COLUMNS, Order, run_task
from tests.spark.loads.loads_samples import START_MS, Row

FAR_MS = START_MS + 60_000


def order_of(
    settings: LoadsSettings, late_ms: int = 0, future_ms: int = FAR_MS, seen: Seen | None = None, pane_ms: int = 10_000
) -> Order:
    """What a driver with these settings would tell its tasks."""
    return Order(ReportLimits.of(settings), pane_ms, late_ms, future_ms, seen or Seen())


def answered(rows: Sequence[Row], order: Order, a_batch: int = 100) -> dict[str, pa.Table]:
    """The task's answers by kind. Too large records come as their heads, as `loads_parse.prepare_records` cuts them."""
    batches = [_batch(rows[start : start + a_batch], order.limits) for start in range(0, len(rows), a_batch)]
    found: dict[str, list[pa.Table]] = {}
    for answer in run_task(order, iter(batches)):
        assert answer.schema == PACKED
        for row in answer.to_pylist():
            table = unpack(row["payload"])
            assert table.num_rows == row["rows"]
            found.setdefault(row["kind"], []).append(table)
    return {kind: pa.concat_tables(tables) for kind, tables in found.items()}


def rules_of(answers: dict[str, pa.Table]) -> dict[int, str]:
    """Offset -> rule of the quarantined records."""
    bad = answers.get("bad")
    return dict(zip(bad["kafka_offset"].to_pylist(), bad["rule"].to_pylist(), strict=True)) if bad else {}


def _batch(rows: Sequence[Row], limits: ReportLimits) -> pa.RecordBatch:
    records: list[tuple[Any, ...]] = []
    for key, value, topic, partition, offset, moment in rows:
        size = len(value or b"")
        head = value if value is None or size <= limits.max_report_bytes else value[: limits.quarantine_raw_bytes]
        records.append((key, head, size, topic, partition, offset, round(moment.timestamp() * 1000)))
    types = (pa.binary(), pa.binary(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    columns = [pa.array([r[n] for r in records], kind) for n, kind in enumerate(types)]
    return pa.RecordBatch.from_arrays(columns, names=list(RECORD_COLUMNS))
