"""One micro-batch of the loads query: classify, panes, rolling averages, tables.

A batch is run again after a crash with the same records. Each table then skips what it already has, so every table's
rows must not depend on what the first run wrote: all that is read back from the tables excludes this batch's own rows.
`broker_panes` is written last: whoever sees the batch there finds all of it in the other tables.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from controller.ledger.tables import TableRoot
from jobs.loads_layout import BROKER, BUNDLE, Layout
from jobs.loads_panes import Overview, bad_rows, bundle_partials, judged, overview
from jobs.loads_rolling import Rolling, lag_ms
from jobs.loads_rolling_spark import rolling_rows
from jobs.loads_settings import LoadsSettings
from jobs.loads_writers import DriverWriter, Marker, SparkWriter

log = logging.getLogger(__name__)
QUARANTINE = "quarantine"
ROWS_PER_PARTITION = 250_000  # of bundles, for the averages in Spark: some hundred MB with what came before


@dataclass(frozen=True)
class BatchReport:
    """What a batch did, for metrics and logs. Event times are ms since the epoch, None without a good report."""

    batch_id: int
    reports: int
    rows: int
    quarantined: dict[str, int]
    first_event_ms: int | None
    last_event_ms: int | None
    writer: str
    seconds: dict[str, float]


@dataclass
class LoadsBatch:
    """The state between batches: rolling averages in memory and the newest pane end. One thread at a time."""

    settings: LoadsSettings
    root: TableRoot
    wall_ms: Callable[[], int]
    next_batch: int = field(init=False, default=-1)  # the batch that the state in memory fits to
    newest_ms: int = field(init=False, default=0)  # newest pane end of all earlier batches
    rolling: dict[str, Rolling] = field(init=False, default_factory=dict)

    def process(self, classified: DataFrame, batch_id: int, query_id: str) -> BatchReport:
        """Run one batch; whatever raises here ends the query and the batch is run again after the restart."""
        clock = _Clock()
        if self.next_batch != batch_id:
            self._newest_from_tables(query_id, batch_id)
        late_before_ms = self.newest_ms - self.settings.retention_ms if self.newest_ms else 0
        kept = classified.persist(StorageLevel.MEMORY_AND_DISK)
        rows = judged(kept, late_before_ms, self.wall_ms() + self.settings.max_future_ms)
        try:
            seen = overview(rows, self.settings.pane_ms)
            clock.lap("read")
            marker = Marker(query_id, batch_id, _metadata(seen))
            driver = self._by_driver(seen)
            self._write(rows, seen, marker, driver, clock)
        finally:
            classified.unpersist()
        if seen.broker_panes.num_rows:
            self.newest_ms = max(self.newest_ms, pc.max(seen.broker_panes["pane_end_ms"]).as_py())
        self.next_batch = batch_id + 1
        return BatchReport(
            batch_id=batch_id,
            reports=(pc.sum(seen.broker_panes["reports"]).as_py() or 0),
            rows=seen.rows,
            quarantined=seen.bad,
            first_event_ms=seen.first_event_ms,
            last_event_ms=seen.last_event_ms,
            writer="delta_rs" if driver else "spark",
            seconds=clock.laps,
        )

    def _by_driver(self, seen: Overview) -> bool:
        if self.settings.writer == "auto":
            return seen.rows < self.settings.writer_threshold_rows
        return self.settings.writer == "delta_rs"

    def _write(self, rows: DataFrame, seen: Overview, marker: Marker, driver: bool, clock: _Clock) -> None:
        """Quarantine, averages, panes. Brokers are few: the driver always does theirs."""
        by_driver, by_spark = DriverWriter(self.root), SparkWriter(self.root)
        if seen.bad:
            found: dict[str, str | int] = {
                "detected_ms": self.wall_ms(),
                "source": "loads",
                "batch_id": marker.batch_id,
            }
            bad = bad_rows(rows)
            if driver:
                by_driver.append(QUARANTINE, bad.toArrow(), marker, found)
            else:
                by_spark.append(QUARANTINE, bad, marker, found)
            clock.lap("quarantine")
        if not seen.broker_panes.num_rows:
            return
        bundles = bundle_partials(rows, self.settings.pane_ms)
        if driver:
            self._bundles_by_driver(bundles.toArrow(), marker, by_driver, clock)
        else:
            self._bundles_by_spark(bundles, seen.rows, marker, by_spark, clock)
        load = self._rolling(BROKER, marker).fold(seen.broker_panes, self.newest_ms)
        by_driver.append(BROKER.load, load, marker, marker.columns())
        by_driver.append(BROKER.panes, seen.broker_panes, marker, marker.columns())
        clock.lap("brokers")

    def _bundles_by_driver(self, panes: pa.Table, marker: Marker, writer: DriverWriter, clock: _Clock) -> None:
        clock.lap("collect")
        load = self._rolling(BUNDLE, marker).fold(panes, self.newest_ms)
        clock.lap("average")
        writer.append(BUNDLE.load, load, marker, marker.columns())
        writer.append(BUNDLE.panes, panes, marker, marker.columns())
        clock.lap("write")

    def _bundles_by_spark(
        self, panes: DataFrame, rows: int, marker: Marker, writer: SparkWriter, clock: _Clock
    ) -> None:
        self.rolling.pop(BUNDLE.load, None)  # no longer fits; the next small batch recovers it from the tables
        panes = panes.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            session = panes.sparkSession
            earlier = f"NOT (writer = '{marker.writer}' AND batch_id >= {marker.batch_id})"
            cut, since = self._cuts()
            panes_before = session.read.format("delta").load(self.root.uri(BUNDLE.panes))
            load_before = session.read.format("delta").load(self.root.uri(BUNDLE.load))
            load = rolling_rows(
                BUNDLE,
                panes,
                panes_before.where(f"pane_end_ms > {cut} AND {earlier}"),
                load_before.where(f"as_of_ms > {since} AND {earlier}"),
                partial(Rolling, BUNDLE, self.settings.short_horizon_ms, self.settings.long_half_life_ms),
                self.newest_ms,
                max(1, rows // ROWS_PER_PARTITION),
            )
            writer.append(BUNDLE.load, load, marker, marker.columns())
            clock.lap("average")
            writer.append(BUNDLE.panes, panes, marker, marker.columns())
            clock.lap("write")
        finally:
            panes.unpersist()

    def _rolling(self, layout: Layout, marker: Marker) -> Rolling:
        """The averages in memory, or recovered from what earlier batches wrote."""
        if layout.load in self.rolling:
            return self.rolling[layout.load]
        rolling = Rolling(layout, self.settings.short_horizon_ms, self.settings.long_half_life_ms)
        cut, since = self._cuts()
        named, longs = [*layout.keys, *layout.carried], [column for _, column in layout.longs]
        panes = self.root.open(layout.panes).to_pyarrow_dataset()
        load = self.root.open(layout.load).to_pyarrow_dataset()
        rolling.recover(
            panes.to_table(
                columns=["pane_end_ms", *named, *layout.sums],
                filter=(pc.field("pane_end_ms") > cut) & _not_this(marker),
            ),
            load.to_table(
                columns=["as_of_ms", "batch_id", *named, *longs],
                filter=(pc.field("as_of_ms") > since) & _not_this(marker),
            ),
        )
        self.rolling[layout.load] = rolling
        return rolling

    def _cuts(self) -> tuple[int, int]:
        """Oldest pane end and as_of (both exclusive) that can still matter to a new row."""
        horizon = self.settings.short_horizon_ms
        return self.newest_ms - lag_ms(horizon) - horizon, self.newest_ms - self.settings.recover_ms

    def _newest_from_tables(self, query_id: str, batch_id: int) -> None:
        """After a start or a failed batch: what earlier batches wrote is all there is."""
        self.rolling = {}
        panes = self.root.open("broker_panes").to_pyarrow_dataset()
        earlier = _not_this(Marker(query_id, batch_id, {}))
        newest = pc.max(panes.to_table(columns=["pane_end_ms"], filter=earlier)["pane_end_ms"]).as_py()
        self.newest_ms = newest or 0


class _Clock:
    """Seconds since the lap before, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = self.laps.get(name, 0.0) + now - self._last
        self._last = now


def _metadata(seen: Overview) -> dict[str, str]:
    if seen.last_event_ms is None:
        return {}
    return {
        "ballast.min_event_ms": json.dumps(seen.first_event_ms),
        "ballast.max_event_ms": json.dumps(seen.last_event_ms),
    }


def _not_this(marker: Marker) -> pc.Expression:
    return ~((pc.field("writer") == marker.writer) & (pc.field("batch_id") >= marker.batch_id))
