"""The work of one Spark task: validate its Kafka records, make partial panes, pack everything for the driver.

Kafka's key is the broker, so all reports of a broker are in one task and its partials need no shuffle. A task returns a
few rows (kind, rows, sent, payload) whose payload is a packed table, or a file of `bundle_panes`: Spark moves bytes and
never touches a bundle. It runs in Spark's Python workers but imports no Spark, so tests can call it directly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from controller.domain.settings.agent_groups import NO_GROUPS, AgentGroups
from controller.ledger.store.data_files import FileSink
from controller.loads.columns import Sheet, from_documents, read
from controller.loads.judge import judge
from controller.loads.packing import pack
from controller.loads.pane_files import pack_panes
from controller.loads.panes import broker_partials, bundle_partials, merge_brokers
from controller.loads.quarantine import ReportQuarantine
from controller.loads.raw_report import RawReport
from controller.loads.rules import ReportLimits
from controller.loads.seen import Seen

BROKERS, BUNDLES, BAD, SEEN = "brokers", "bundles", "bad", "seen"
RECORD_COLUMNS = ("key", "value", "size", "topic", "partition", "offset", "event_ms")
PACKED = pa.schema(  # sent: rows of that kind that the task has returned so far, these included
    [("kind", pa.string()), ("rows", pa.int64()), ("sent", pa.int64()), ("payload", pa.binary())]
)
CHUNK_BYTES = 4 * 2**20  # parsed together; larger chunks leave the CPU cache: 2.5 instead of 2.1 us per bundle row
FLUSH_ROWS = 400_000  # bundle rows kept before panes are made of them: some 60 MB

SEEN_ROWS = pa.schema([("broker", pa.string()), ("incarnation", pa.int64()), ("low", pa.int64()), ("high", pa.int64())])


@dataclass(frozen=True)
class Order:
    """The driver's parameters for the tasks of a batch. Both time bounds are event times, inclusive."""

    limits: ReportLimits
    pane_ms: int
    late_before_ms: int
    future_after_ms: int
    seen: Seen
    marker: Mapping[str, str | int] = field(default_factory=dict)  # columns of the files that tasks make
    file_from_rows: int | None = None  # panes of bundles from which a task makes a file; None: never
    sink: FileSink | None = None  # where a task stores such a file itself
    groups: AgentGroups = NO_GROUPS
    group_of_topic: Mapping[str, str] = field(default_factory=dict)

    def speaks_for(self, topic: str, broker: str) -> bool:
        """Whether a report of this broker counts in this topic."""
        return not self.groups.members or self.group_of_topic.get(topic) == self.groups.of(broker)


@dataclass
class Task:
    """One task. Call `feed` with chunks of records in the order of their offsets, then `finish`."""

    order: Order
    _quarantine: ReportQuarantine = field(init=False)
    _kept: list[tuple[pa.Table, npt.NDArray[np.int64]]] = field(default_factory=list)
    _kept_rows: int = 0
    _brokers: list[pa.Table] = field(default_factory=list)
    _touched: dict[tuple[str, int], None] = field(default_factory=dict)
    _sent_bundles: int = 0  # rows

    def __post_init__(self) -> None:
        self._quarantine = ReportQuarantine(self.order.limits.quarantine_raw_bytes)

    def feed(self, records: Sequence[RawReport]) -> Iterator[pa.RecordBatch]:
        """Validate a chunk; yields partial panes once enough rows have been kept."""
        table, chosen = self._judge(records)
        events = np.array([record.event_ms for record in chosen], np.int64)
        counted = [
            self._counts(record, broker, incarnation, sequence)
            for record, broker, incarnation, sequence in zip(
                chosen,
                *(table[name].to_pylist() for name in ("broker", "incarnation", "sequence")),
                strict=True,
            )
        ]
        if not all(counted):
            table, events = table.filter(pa.array(counted)), events[np.array(counted)]
        if table.num_rows:
            self._kept.append((table, events))
            self._kept_rows += sum(len(chunk.values) for chunk in table["bundles"].chunks)
        if self._kept_rows > FLUSH_ROWS:
            yield from self._flush()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield everything that is left."""
        yield from self._flush()
        if self._brokers:
            yield _pack(BROKERS, merge_brokers(pa.concat_tables(self._brokers)))
        if self._touched:
            columns = zip(*self.order.seen.of(self._touched), strict=True)
            yield _pack(SEEN, pa.table([pa.array(column) for column in columns], schema=SEEN_ROWS))
        if self._quarantine:
            yield _pack(BAD, self._quarantine.to_table())

    def _judge(self, records: Sequence[RawReport]) -> tuple[pa.Table, list[RawReport]]:
        """The valid reports and their records, in order; bad records are quarantined."""
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
                self._quarantine.add(record, verdict.rule or "not_json", verdict.detail)
        if documents:
            table = pa.concat_tables([table, from_documents(documents)]).take(pa.array(np.argsort(places)))
        return table, [records[n] for n in sorted(places)]

    def _counts(self, record: RawReport, broker: str, incarnation: int, sequence: int) -> bool:
        """Whether the report is in its group's topic, neither late nor too far ahead, and no duplicate; quarantines it
        otherwise."""
        order, rule, detail = self.order, None, str(record.event_ms)
        if not order.speaks_for(record.topic, broker):
            rule, detail = "group_mismatch", f"{record.topic} reports for {broker}"
        elif record.event_ms < order.late_before_ms:
            rule = "late"
        elif record.event_ms > order.future_after_ms:
            rule = "future"
        elif not order.seen.add((broker, incarnation), sequence):
            rule, detail = "duplicate", f"sequence {sequence} of {broker}"
        if rule is None:
            self._touched[broker, incarnation] = None
            return True
        self._quarantine.add(record, rule, detail)
        return False

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if not self._kept:
            return
        sheet = Sheet.of(pa.concat_tables([table for table, _ in self._kept]).combine_chunks())
        events = np.concatenate([moments for _, moments in self._kept])
        self._kept, self._kept_rows = [], 0
        self._brokers.append(broker_partials(sheet, events, self.order.pane_ms))
        bundles = bundle_partials(sheet, events, self.order.pane_ms)
        if bundles.num_rows:
            order = self.order
            packed = pack_panes(bundles, order.marker, order.file_from_rows, order.sink)
            self._sent_bundles += bundles.num_rows
            yield _row(BUNDLES, bundles.num_rows, self._sent_bundles, packed)


def run_task(order: Order, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process Arrow batches of Kafka records, as the function that Spark maps over them; yields `PACKED` batches."""
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


def _records(batch: pa.RecordBatch) -> Iterator[RawReport]:
    return map(RawReport, *(batch.column(name).to_pylist() for name in RECORD_COLUMNS))


def _pack(kind: str, table: pa.Table) -> pa.RecordBatch:
    return _row(kind, table.num_rows, table.num_rows, pack(table))


def _row(kind: str, rows: int, sent: int, payload: bytes) -> pa.RecordBatch:
    columns = [pa.array([kind]), pa.array([rows]), pa.array([sent]), pa.array([payload], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED)
