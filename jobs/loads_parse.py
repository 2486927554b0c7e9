"""The Spark side of reading reports: Kafka rows into tasks (`loads_task`), packed answers out of them.

What reaches a task is Arrow: key, value and where the record lay. Values larger than any report may be are cut to the
head that quarantine keeps, so no record can make an Arrow batch as large as it likes; and a batch holds few records,
since ten thousand reports of a thousand bundles, Spark's default, would be 3 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from controller.loads.settings import LoadsSettings
from controller.loads.task import BUNDLES, Order, run_task, unpacked
from controller.loads.worker import settle
from schemas.catalog import TABLES
from schemas.spark import ddl_type

PACKED_DDL = "kind STRING, rows BIGINT, payload BINARY"
ARROW_CONF = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2 * 2**20),
}
_MARKER = ("writer", "batch_id")
_BUNDLE_FIELDS = [f for f in TABLES["bundle_panes"] if f.name not in _MARKER]
BUNDLES_DDL = ", ".join(f"{f.name} {ddl_type(f.type)}" for f in _BUNDLE_FIELDS)


def prepared(records: DataFrame, settings: LoadsSettings) -> DataFrame:
    """Kafka rows (key, value, topic, partition, offset, timestamp) as `Record` wants them. Made once, not a batch."""
    return records.selectExpr(
        "key",
        f"if(octet_length(value) <= {settings.max_report_bytes}, value, "
        f"substring(value, 1, {settings.quarantine_raw_bytes})) AS value",
        "coalesce(octet_length(value), 0) AS size",
        "topic",
        "partition",
        "offset",
        "coalesce(unix_millis(timestamp), -1L) AS event_ms",
    )


def packed(records: DataFrame, order: Order) -> DataFrame:
    """The prepared records of one batch, judged and made into partial panes: rows of (kind, rows, payload)."""
    conf = records.sparkSession.conf
    for name, value in ARROW_CONF.items():
        if conf.get(name, None) != value:
            conf.set(name, value)
    return records.mapInArrow(partial(_judge, order), PACKED_DDL)


def bundle_rows(packed_rows: DataFrame) -> DataFrame:
    """The partial panes of bundles as rows of Spark's own, for batches that Spark writes."""
    return packed_rows.where(f"kind = '{BUNDLES}'").mapInArrow(_unpack, BUNDLES_DDL)


def _judge(order: Order, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle()
    yield from run_task(order, batches)


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names = [f.name for f in _BUNDLE_FIELDS]
    for batch in batches:
        for payload in batch.column("payload").to_pylist():
            yield from unpacked(payload).select(names).to_batches()


def tables_of(rows: pa.Table) -> dict[str, list[pa.Table]]:
    """The payloads of collected rows by kind; rows whose payload was left behind are passed over."""
    found: dict[str, list[pa.Table]] = {}
    kinds: Iterable[str] = rows["kind"].to_pylist()
    for kind, payload in zip(kinds, rows["payload"].to_pylist(), strict=True):
        if payload is not None:
            found.setdefault(kind, []).append(unpacked(payload))
    return found
