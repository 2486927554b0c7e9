"""One micro-batch of the loads query: turns records into panes and rolling averages, and writes the tables.

The tasks (`controller.loads.task`) parse, validate and sum; they return partial panes. A small batch is collected with
one Spark job, averaged and written by this process; a large one stays in Spark.

After a crash a batch is run again with the same records. Each table then skips rows it already has, so the rows must
not depend on what the first run wrote: everything read back from the tables excludes this batch's own rows.
`broker_panes` is written last: once a batch appears there, all its rows are in the other tables, except for averages of
bundles, which may come while the next batch runs (`controller.loads.averages`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from controller.ledger.store.data_files import FileSink
from controller.ledger.tables import TableRoot
from controller.loads.averages import Averages, relevant_after_ms
from controller.loads.driver_writer import DriverWriter, Marker
from controller.loads.layout import BROKER, BUNDLE
from controller.loads.packing import unpack
from controller.loads.pane_files import files_of, unpack_panes
from controller.loads.panes import merge_brokers
from controller.loads.rolling_averages import RollingAverages
from controller.loads.rules import ReportLimits
from controller.loads.seen import Seen
from controller.loads.settings import LoadsSettings
from controller.loads.task import BAD, BROKERS, BUNDLES, SEEN, Order
from jobs.loads_parse import bundle_rows, judge_records, packed_bundles, payloads_of
from jobs.loads_rolling_spark import rolling_rows
from jobs.loads_writers import SparkWriter

log = logging.getLogger(__name__)
QUARANTINE = "quarantine"
ROWS_PER_PARTITION = 250_000  # bundle rows, for the averages in Spark: some hundred MB with earlier rows
NO_BATCH = -1


@dataclass(frozen=True)
class BatchReport:
    """The outcome of a batch, for metrics and logs. Event times are ms since the epoch, None without a valid report."""

    batch_id: int
    reports: int
    rows: int
    quarantined: dict[str, int]
    first_event_ms: int | None
    last_event_ms: int | None
    writer: str
    seconds: dict[str, float]


@dataclass(frozen=True)
class Overview:
    """The answers of a batch's tasks. `bundles`: the panes as tasks packed them; those of tasks with many may still be
    in Spark."""

    brokers: pa.Table | None  # None without a valid report
    bundles: list[bytes]
    sent_after: int | None  # rows of a task, after which its bundles are still in Spark; None: of no task
    bundle_rows: int
    bad: pa.Table | None

    @property
    def rows(self) -> int:
        """Rows to write; they determine the writer."""
        few = sum(int(table.num_rows) for table in (self.brokers, self.bad) if table is not None)
        return few + self.bundle_rows

    @property
    def bad_by_rule(self) -> dict[str, int]:
        """Quarantined records, counted by rule."""
        if self.bad is None:
            return {}
        return {pair["values"]: pair["counts"] for pair in pc.value_counts(self.bad["rule"]).to_pylist()}

    def event_ms(self) -> tuple[int | None, int | None]:
        """The event times of the first and the last valid report."""
        if self.brokers is None:
            return None, None
        return pc.min(self.brokers["first_event_ms"]).as_py(), pc.max(self.brokers["last_event_ms"]).as_py()


@dataclass
class LoadsBatch:
    """The state between batches: rolling averages, sequences and the newest pane end. One thread at a time."""

    settings: LoadsSettings
    root: TableRoot
    wall_ms: Callable[[], int]
    next_batch: int = field(init=False, default=NO_BATCH)  # the batch that the state in memory is valid for
    newest_ms: int = field(init=False, default=0)  # newest pane end of all earlier batches
    seen: Seen = field(init=False, default_factory=Seen)
    averages: Averages = field(init=False)

    def __post_init__(self) -> None:
        self.averages = Averages(self.settings, self.root)

    def process(self, records: DataFrame, batch_id: int, query_id: str) -> BatchReport:
        """Process the records of one batch. An exception ends the query; the batch is then run again."""
        clock = _Clock()
        if self.next_batch != batch_id:
            self._recover(query_id, batch_id)
        self.next_batch = NO_BATCH  # until this one is done
        answers = judge_records(records, self._order(Marker(query_id, batch_id, {})))
        keep = self.settings.writer != "delta_rs"
        if keep:
            answers = answers.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            overview = self._collect(answers, clock)
            self.averages.finish()
            clock.lap("average")
            driver = self._driver_writes(overview)
            first_ms, last_ms = overview.event_ms()
            marker = Marker.of(query_id, batch_id, first_ms, last_ms)
            self._write(answers, overview, marker, driver, clock)
        finally:
            if keep:
                answers.unpersist()
        if overview.brokers is not None:
            self.newest_ms = max(self.newest_ms, pc.max(overview.brokers["pane_end_ms"]).as_py())
        self.next_batch = batch_id + 1
        return BatchReport(
            batch_id=batch_id,
            reports=0 if overview.brokers is None else pc.sum(overview.brokers["reports"]).as_py(),
            rows=overview.rows,
            quarantined=overview.bad_by_rule,
            first_event_ms=first_ms,
            last_event_ms=last_ms,
            writer="delta_rs" if driver else "spark",
            seconds=clock.laps,
        )

    def _order(self, marker: Marker) -> Order:
        """What the tasks of the marker's batch have to know. Of tables in an object store they make no files unless
        they store them: a store that is slow to take one would stop this process's other threads
        (`controller.ledger.delta_log`)."""
        settings, sink = self.settings, sink_of(self.settings, self.root)
        return Order(
            marker=marker.columns(),
            file_from_rows=settings.file_from_rows if sink or not self.root.is_object_store else None,
            sink=sink,
            limits=ReportLimits.of(settings),
            pane_ms=settings.pane_ms,
            late_before_ms=self.newest_ms - settings.retention_ms if self.newest_ms else 0,
            future_after_ms=self.wall_ms() + settings.max_future_ms,
            seen=self.seen,
            groups=settings.agent_groups,
            group_of_topic=settings.group_of_topic,
        )

    def _collect(self, answers: DataFrame, clock: _Clock) -> Overview:
        """Run the batch's tasks. As long as nobody knows how many bundles there are, this process takes of each task
        its share of what it might write: all of them may not fit into it."""
        if self.settings.writer == "delta_rs":
            most, rows = None, answers.toArrow()
        else:
            inline = self.settings.writer_threshold_rows if self.settings.writer == "auto" else 0
            most = inline // max(1, answers.rdd.getNumPartitions())
            payload = f"if(kind = '{BUNDLES}' AND sent > {most}, NULL, payload) AS payload"
            rows = answers.selectExpr("kind", "rows", payload).toArrow()
        payloads = payloads_of(rows)
        tables = {kind: [unpack(part) for part in payloads.get(kind, [])] for kind in (SEEN, BROKERS, BAD)}
        of_bundles = rows.filter(pc.equal(rows["kind"], BUNDLES))
        for table in tables[SEEN]:
            self.seen.take(zip(*(column.to_pylist() for column in table.columns), strict=True))
        brokers, bad = tables[BROKERS], tables[BAD]
        clock.lap("read")
        return Overview(
            brokers=merge_brokers(pa.concat_tables(brokers)) if brokers else None,
            bundles=payloads.get(BUNDLES, []),
            sent_after=most if of_bundles["payload"].null_count else None,
            bundle_rows=pc.sum(of_bundles["rows"]).as_py() or 0,
            bad=pa.concat_tables(bad) if bad else None,
        )

    def _driver_writes(self, overview: Overview) -> bool:
        if self.settings.writer == "auto":
            return overview.rows < self.settings.writer_threshold_rows
        return self.settings.writer == "delta_rs"

    def _write(self, answers: DataFrame, overview: Overview, marker: Marker, driver: bool, clock: _Clock) -> None:
        """Write quarantine, averages and panes. Rows of brokers and bad records are few: the driver writes them."""
        by_driver = DriverWriter(self.root)
        if overview.bad is not None:
            found: dict[str, str | int] = {
                "detected_ms": self.wall_ms(),
                "source": "loads",
                "batch_id": marker.batch_id,
            }
            by_driver.append(QUARANTINE, overview.bad, marker, found)
            clock.lap("quarantine")
        if overview.brokers is None:
            return
        load = self.averages.of_brokers(overview.brokers, marker, self.newest_ms)
        with ThreadPoolExecutor(1, "loads-brokers") as other:
            written = other.submit(by_driver.append, BROKER.load, load, marker, marker.columns())
            if driver:
                self._bundles_by_driver(answers, overview, marker, by_driver, clock)
            else:
                spark = SparkWriter(self.root)
                self._bundles_by_spark(bundle_rows(answers), overview.bundle_rows, marker, spark, clock)
            written.result()
        by_driver.append(BROKER.panes, overview.brokers, marker, marker.columns())
        clock.lap("brokers")

    def _bundles_by_driver(
        self, answers: DataFrame, overview: Overview, marker: Marker, writer: DriverWriter, clock: _Clock
    ) -> None:
        if not overview.bundle_rows:
            return
        parts, sink = overview.bundles, sink_of(self.settings, self.root)
        if overview.sent_after is not None:
            parts = [*parts, *packed_bundles(answers, overview.sent_after)]
            clock.lap("read")

        @cache
        def panes() -> pa.Table:
            return pa.concat_tables([unpack_panes(part) for part in parts])

        def write() -> None:
            files, rest = files_of(parts, marker.columns())
            if sink and rest:
                answers.sparkSession.sparkContext.parallelize(rest, 1).foreach(sink.store)
            if files:
                writer.append_files(BUNDLE.panes, [*files, *rest], marker, stored=sink is not None)
            else:
                writer.append(BUNDLE.panes, panes(), marker, marker.columns())

        self.averages.write_bundles(overview.bundle_rows, panes, marker, self.newest_ms, write)
        clock.lap("write")

    def _bundles_by_spark(
        self, panes: DataFrame, rows: int, marker: Marker, writer: SparkWriter, clock: _Clock
    ) -> None:
        self.averages.forget_bundles()
        panes = panes.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            session = panes.sparkSession
            earlier = f"NOT (writer = '{marker.writer}' AND batch_id >= {marker.batch_id})"
            panes_after_ms, load_after_ms = relevant_after_ms(self.settings, self.newest_ms)
            panes_before = session.read.format("delta").load(self.root.uri(BUNDLE.panes))
            load_before = session.read.format("delta").load(self.root.uri(BUNDLE.load))
            load = rolling_rows(
                BUNDLE,
                panes,
                panes_before.where(f"pane_end_ms > {panes_after_ms} AND {earlier}"),
                load_before.where(f"as_of_ms > {load_after_ms} AND {earlier}"),
                partial(RollingAverages, BUNDLE, self.settings.short_horizon_ms, self.settings.long_half_life_ms),
                self.newest_ms,
                max(1, rows // ROWS_PER_PARTITION),
            )
            writer.append(BUNDLE.load, load, marker, marker.columns())
            clock.lap("average")
            writer.append(BUNDLE.panes, panes, marker, marker.columns())
            clock.lap("write")
        finally:
            panes.unpersist()

    def _recover(self, query_id: str, batch_id: int) -> None:
        """Restore the state from the tables, after a start or a failed batch."""
        self.seen, self.newest_ms = Seen(), 0
        panes = self.root.open(BROKER.panes).to_pyarrow_dataset()
        marker = Marker(query_id, batch_id, {})
        newest = pc.max(panes.to_table(columns=["pane_end_ms"], filter=marker.others())["pane_end_ms"]).as_py()
        if newest is None:
            self.averages.begin_again(marker, None)
            return
        self.newest_ms = newest
        # Sequences belong to this query: a query with a new checkpoint reads the topic again, as intended.
        own = (pc.field("writer") == marker.writer) & (pc.field("batch_id") < batch_id)
        columns = ["broker", "incarnation", "last_sequence", "reports"]
        recent = own & (pc.field("pane_end_ms") > newest - self.settings.recover_ms)
        rows = panes.to_table(columns=["batch_id", *columns], filter=recent)
        self.averages.begin_again(marker, pc.max(rows["batch_id"]).as_py())
        self.seen.recover(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def sink_of(settings: LoadsSettings, root: TableRoot) -> FileSink | None:
    """Where tasks store files of bundles themselves; None if they do not."""
    if not (settings.tasks_store_files and root.is_object_store):
        return None
    return FileSink(root.uri(BUNDLE.panes), root.storage_options)


class _Clock:
    """Measures the seconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now
