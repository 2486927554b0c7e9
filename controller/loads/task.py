"""What one Spark task does with its Kafka records: judge them, make partial panes, pack both for the driver.

Kafka's key is the broker, so all reports of a broker are in one task and a task's partials need no shuffle. A task
answers with a few rows (kind, rows, payload), the payload an Arrow stream: Spark then moves bytes and never looks at a
bundle. Runs in Spark's Python workers; imports no Spark, so tests call it as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from controller.loads.columns import Sheet, from_documents, read
from controller.loads.judge import judge
from controller.loads.panes import broker_partials, bundle_partials, merged_brokers
from controller.loads.rules import Limits, sentence
from controller.loads.seen import Seen

BROKERS, BUNDLES, BAD, SEEN = "brokers", "bundles", "bad", "seen"
RECORD_COLUMNS = ("key", "value", "size", "topic", "partition", "offset", "event_ms")
PACKED = pa.schema([("kind", pa.string()), ("rows", pa.int64()), ("payload", pa.binary())])
CHUNK_BYTES = 4 * 2**20  # of records parsed together: larger ones leave the cache, 2.5 instead of 2.1 us a bundle row
FLUSH_ROWS = 400_000  # bundle rows held before their panes are made: some 60 MB
RAW_BYTES_A_TASK = 32 * 2**20  # of bad records kept whole; after that heads only, or a flood would fill the driver
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
SEEN_ROWS = pa.schema([("broker", pa.string()), ("incarnation", pa.int64()), ("low", pa.int64()), ("high", pa.int64())])


@dataclass(frozen=True)
class Order:
    """What the driver tells the tasks of a batch. Both bounds are event times, inclusive."""

    limits: Limits
    pane_ms: int
    late_before_ms: int
    future_after_ms: int
    seen: Seen


class Record:
    """One Kafka record in a task. `value` is its head only when it is too large; `size` is its whole size in bytes."""

    __slots__ = ("event_ms", "key", "offset", "partition", "size", "topic", "value")

    def __init__(
        self, key: bytes | None, value: bytes | None, size: int, topic: str, partition: int, offset: int, event_ms: int
    ) -> None:
        self.key, self.value, self.size = key, value, size
        self.topic, self.partition, self.offset, self.event_ms = topic, partition, offset, event_ms


@dataclass
class Task:
    """One task's work. Feed it chunks of records in the order of their offsets, then `finish`."""

    order: Order
    _bad: list[dict[str, Any]] = field(default_factory=list)
    _raw_bytes: int = 0
    _kept: list[tuple[pa.Table, npt.NDArray[np.int64]]] = field(default_factory=list)
    _kept_rows: int = 0
    _brokers: list[pa.Table] = field(default_factory=list)
    _touched: dict[tuple[str, int], None] = field(default_factory=dict)

    def feed(self, records: Sequence[Record]) -> Iterator[pa.RecordBatch]:
        """Judge a chunk; partial panes come out once enough has been kept."""
        table, chosen = self._judged(records)
        events = np.array([record.event_ms for record in chosen], np.int64)
        timely = [
            self._timely(record, broker, incarnation, sequence)
            for record, broker, incarnation, sequence in zip(
                chosen,
                *(table[name].to_pylist() for name in ("broker", "incarnation", "sequence")),
                strict=True,
            )
        ]
        if not all(timely):
            table, events = table.filter(pa.array(timely)), events[np.array(timely)]
        if table.num_rows:
            self._kept.append((table, events))
            self._kept_rows += sum(len(chunk.values) for chunk in table["bundles"].chunks)
        if self._kept_rows > FLUSH_ROWS:
            yield from self._flush()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Everything that has not come out yet."""
        yield from self._flush()
        if self._brokers:
            yield _packed(BROKERS, merged_brokers(pa.concat_tables(self._brokers)))
        if self._touched:
            columns = zip(*self.order.seen.of(self._touched), strict=True)
            yield _packed(SEEN, pa.table([pa.array(column) for column in columns], schema=SEEN_ROWS))
        if self._bad:
            yield _packed(BAD, pa.Table.from_pylist(self._bad, schema=BAD_ROWS))

    def _judged(self, records: Sequence[Record]) -> tuple[pa.Table, list[Record]]:
        """The good reports and their records, in the order of the records; the bad ones are put down."""
        limits = self.order.limits
        fit = [n for n, record in enumerate(records) if record.value and record.size <= limits.max_report_bytes]
        table, positions = read([records[n].value or b"" for n in fit])
        places = [fit[position] for position in positions]
        keys = pa.array([records[n].key for n in places], pa.binary())
        events = np.array([records[n].event_ms for n in places], np.int64)
        good = Sheet.of(table).good(keys, events, limits)
        if not good.all():
            table, places = table.filter(pa.array(good)), [n for n, fine in zip(places, good, strict=True) if fine]
        sure, documents = set(places), []
        for number, record in enumerate(records):
            if number in sure:
                continue
            verdict = judge(record.value, record.size, record.key, record.event_ms, limits)
            if verdict.report is not None:
                documents.append(verdict.report)
                places.append(number)
            else:
                self._put_down(record, verdict.rule or "not_json", verdict.detail)
        if documents:
            table = pa.concat_tables([table, from_documents(documents)]).take(pa.array(np.argsort(places)))
        return table, [records[n] for n in sorted(places)]

    def _timely(self, record: Record, broker: str, incarnation: int, sequence: int) -> bool:
        """Judge what depends on the batch: late, future, read before."""
        order, rule, detail = self.order, None, str(record.event_ms)
        if record.event_ms < order.late_before_ms:
            rule = "late"
        elif record.event_ms > order.future_after_ms:
            rule = "future"
        elif not order.seen.add((broker, incarnation), sequence):
            rule, detail = "duplicate", f"sequence {sequence} of {broker}"
        if rule is None:
            self._touched[broker, incarnation] = None
            return True
        self._put_down(record, rule, detail)
        return False

    def _put_down(self, record: Record, rule: str, detail: str) -> None:
        keep = self.order.limits.quarantine_raw_bytes
        head = record.value[: keep if self._raw_bytes < RAW_BYTES_A_TASK else RAW_HEAD_BYTES] if record.value else None
        self._raw_bytes += len(head or b"")
        raw, encoded = _shown(head)
        self._bad.append(
            {
                "topic": record.topic,
                "partition": record.partition,
                "kafka_offset": record.offset,
                "kafka_timestamp_ms": record.event_ms,
                "rule": rule,
                "text": sentence(rule, detail),
                "raw": raw,
                "raw_base64": encoded,
            }
        )

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if not self._kept:
            return
        sheet = Sheet.of(pa.concat_tables([table for table, _ in self._kept]).combine_chunks())
        events = np.concatenate([moments for _, moments in self._kept])
        self._kept, self._kept_rows = [], 0
        self._brokers.append(broker_partials(sheet, events, self.order.pane_ms))
        bundles = bundle_partials(sheet, events, self.order.pane_ms)
        if bundles.num_rows:
            yield _packed(BUNDLES, bundles)


def run_task(order: Order, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function that Spark maps over Arrow batches of Kafka records; yields batches of `PACKED`."""
    task, waiting, waiting_bytes = Task(order), [], 0
    for batch in batches:
        for record in _records(batch):
            waiting.append(record)
            waiting_bytes += record.size
            if waiting_bytes > CHUNK_BYTES:
                yield from task.feed(waiting)
                waiting, waiting_bytes = [], 0
    if waiting:
        yield from task.feed(waiting)
    yield from task.finish()


def unpacked(payload: bytes) -> pa.Table:
    """The table in a payload."""
    return pa.ipc.open_stream(payload).read_all()


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    return map(Record, *(batch.column(name).to_pylist() for name in RECORD_COLUMNS))


def _packed(kind: str, table: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    columns = [pa.array([kind]), pa.array([table.num_rows]), pa.array([sink.getvalue().to_pybytes()], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED)


def _shown(head: bytes | None) -> tuple[str | None, bool]:
    if head is None:
        return None, False
    try:
        return head.decode("utf-8"), False
    except UnicodeDecodeError:
        return base64.b64encode(head).decode("ascii"), True
