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

import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from controller.ledger.tables import TableRoot
from jobs.loads_layout import LAYOUTS, Layout
from jobs.loads_panes import Overview, bad_rows, broker_partials, bundle_partials, judged, overview
from jobs.loads_rolling import Rolling, lag_ms
from jobs.loads_rolling_spark import rolling_rows
from jobs.loads_settings import LoadsSettings
from jobs.loads_writers import DriverWriter, Marker, SparkWriter

log = logging.getLogger(__name__)
QUARANTINE = "quarantine"
PANES_IN_ORDER = ("bundle_panes", "broker_panes")


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
        rows = judged(classified.persist(StorageLevel.MEMORY_AND_DISK), late_before_ms)
        try:
            seen = overview(rows, self.settings.pane_ms)
            clock.lap("read")
            marker = Marker(query_id, batch_id, _metadata(seen))
            driver = self._by_driver(seen)
            if driver:
                self._write_by_driver(rows, seen, marker, clock)
            else:
                self._write_by_spark(rows, seen, marker, clock)
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

    def _write_by_driver(self, rows: DataFrame, seen: Overview, marker: Marker, clock: _Clock) -> None:
        writer = DriverWriter(self.root)
        if seen.bad:
            writer.append(QUARANTINE, bad_rows(rows).toArrow(), marker, self._found(marker))
        if not seen.broker_panes.num_rows:
            return
        partials = {
            "broker_panes": seen.broker_panes,
            "bundle_panes": bundle_partials(rows, self.settings.pane_ms).toArrow(),
        }
        clock.lap("collect")
        if not self.rolling:
            self._recover(marker)
            clock.lap("recover")
        for layout in LAYOUTS:
            load = self.rolling[layout.load].fold(partials[layout.panes], self.newest_ms)
            clock.lap("average")
            writer.append(layout.load, load, marker, marker.columns())
            clock.lap("write")
        for name in PANES_IN_ORDER:
            writer.append(name, partials[name], marker, marker.columns())
        clock.lap("write")

    def _write_by_spark(self, rows: DataFrame, seen: Overview, marker: Marker, clock: _Clock) -> None:
        writer = SparkWriter(self.root)
        self.rolling = {}  # memory no longer fits; the next small batch recovers it from the tables
        if seen.bad:
            writer.append(QUARANTINE, bad_rows(rows), marker, self._found(marker))
        if not seen.broker_panes.num_rows:
            return
        partials = {
            "broker_panes": broker_partials(rows, self.settings.pane_ms),
            "bundle_panes": bundle_partials(rows, self.settings.pane_ms).persist(StorageLevel.MEMORY_AND_DISK),
        }
        try:
            for layout in LAYOUTS:
                load = self._rolling_by_spark(layout, partials[layout.panes], marker)
                writer.append(layout.load, load, marker, marker.columns())
            clock.lap("average")
            for name in PANES_IN_ORDER:
                writer.append(name, partials[name], marker, marker.columns())
            clock.lap("write")
        finally:
            partials["bundle_panes"].unpersist()

    def _rolling_by_spark(self, layout: Layout, partials: DataFrame, marker: Marker) -> DataFrame:
        session = partials.sparkSession
        cut, since = self._cuts()
        earlier = f"NOT (writer = '{marker.writer}' AND batch_id >= {marker.batch_id})"
        panes = session.read.format("delta").load(self.root.uri(layout.panes))
        load = session.read.format("delta").load(self.root.uri(layout.load))
        return rolling_rows(
            layout,
            partials,
            panes.where(f"pane_end_ms > {cut} AND {earlier}"),
            load.where(f"as_of_ms > {since} AND {earlier}"),
            self.newest_ms,
            self.settings.short_horizon_ms,
            self.settings.long_half_life_ms,
        )

    def _recover(self, marker: Marker) -> None:
        cut, since = self._cuts()
        for layout in LAYOUTS:
            rolling = Rolling(layout, self.settings.short_horizon_ms, self.settings.long_half_life_ms)
            earlier = _not_this(marker)
            panes = self.root.open(layout.panes).to_pyarrow_dataset()
            load = self.root.open(layout.load).to_pyarrow_dataset()
            longs = [column for _, column in layout.longs]
            named = [*layout.keys, *layout.carried]
            rolling.recover(
                panes.to_table(
                    columns=["pane_end_ms", *named, *layout.sums], filter=(pc.field("pane_end_ms") > cut) & earlier
                ),
                load.to_table(
                    columns=["as_of_ms", "batch_id", *named, *longs], filter=(pc.field("as_of_ms") > since) & earlier
                ),
            )
            self.rolling[layout.load] = rolling

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

    def _found(self, marker: Marker) -> dict[str, str | int]:
        return {"detected_ms": self.wall_ms(), "source": "loads", "batch_id": marker.batch_id}


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
