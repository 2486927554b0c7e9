"""The Spark side of reading reports: passes Kafka rows to the tasks and takes apart what they return.

The tasks themselves are in `controller.loads.task` and work on Arrow batches. Values larger than any valid report are
truncated to the head that quarantine keeps, so that no record can blow up an Arrow batch. Batches hold few records:
Spark's default of ten thousand reports of a thousand bundles would take 3 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from controller.loads.layout import MARKER
from controller.loads.pane_files import unpack_panes
from controller.loads.settings import LoadsSettings
from controller.loads.task import BUNDLES, Order, run_task
from controller.loads.worker import settle
from schemas.catalog import TABLES
from schemas.spark import ddl_type

PACKED_DDL = "kind STRING, rows BIGINT, sent BIGINT, payload BINARY"
ARROW_CONF = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2 * 2**20),
}
_BUNDLE_FIELDS = [f for f in TABLES["bundle_panes"] if f.name not in MARKER]
BUNDLES_DDL = ", ".join(f"{f.name} {ddl_type(f.type)}" for f in _BUNDLE_FIELDS)


def prepare_records(records: DataFrame, settings: LoadsSettings) -> DataFrame:
    """The columns of `Record` from Kafka rows (key, value, topic, partition, offset, timestamp). Once per query."""
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


def judge_records(records: DataFrame, order: Order) -> DataFrame:
    """Validate the records of one batch and sum them to partial panes: rows of `controller.loads.task.PACKED`."""
    conf = records.sparkSession.conf
    for name, value in ARROW_CONF.items():
        if conf.get(name, None) != value:
            conf.set(name, value)
    return records.mapInArrow(partial(_run_task, order), PACKED_DDL)


def bundle_rows(answers: DataFrame) -> DataFrame:
    """Unpack the partial panes of bundles into Spark rows, for batches that Spark writes."""
    return answers.where(f"kind = '{BUNDLES}'").mapInArrow(_unpack, BUNDLES_DDL)


def packed_bundles(answers: DataFrame, sent_after: int) -> list[bytes]:
    """The partial panes of bundles as the tasks packed them, of each task those after so many rows."""
    rows = answers.where(f"kind = '{BUNDLES}' AND sent > {sent_after}").select("kind", "payload").toArrow()
    return payloads_of(rows).get(BUNDLES, [])


def _run_task(order: Order, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    settle()
    yield from run_task(order, iter(batches))


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names = [f.name for f in _BUNDLE_FIELDS]
    for batch in batches:
        for payload in batch.column("payload").to_pylist():
            yield from unpack_panes(payload).select(names).to_batches()


def payloads_of(rows: pa.Table) -> dict[str, list[bytes]]:
    """The payloads of collected rows, by kind; rows that were collected without their payload are skipped."""
    found: dict[str, list[bytes]] = {}
    kinds: Iterable[str] = rows["kind"].to_pylist()
    for kind, payload in zip(kinds, rows["payload"].to_pylist(), strict=True):
        if payload is not None:
            found.setdefault(kind, []).append(payload)
    return found
