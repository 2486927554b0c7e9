"""The rolling averages that the driver computes and writes: of brokers at once, of bundles beside the next batch.

Where a batch has many bundle rows, Spark goes on with the next batch while a thread here computes and writes
`bundle_load`: executors are not idle meanwhile. Invariants: batches follow each other; the averages of one are in the
table before a later one's panes are; what a crash cut off is made up for from the panes, which are the truth, before
anything is read from the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from controller.ledger.tables import TableRoot
from controller.loads.driver_writer import DriverWriter, Marker
from controller.loads.layout import BROKER, BUNDLE, Layout
from controller.loads.rolling_averages import RollingAverages, lag_ms
from controller.loads.settings import LoadsSettings

log = logging.getLogger(__name__)

ASIDE_FROM_ROWS = 20_000  # of bundles in a batch; fewer take some ten milliseconds


class Averages:
    """The averages of one query, from one batch to the next."""

    def __init__(self, settings: LoadsSettings, root: TableRoot) -> None:
        self._settings, self._root = settings, root
        self._writer = DriverWriter(root)
        self._rolling: dict[str, RollingAverages] = {}
        self._aside = ThreadPoolExecutor(1, "loads-averages")
        self._under_way: Future[None] | None = None

    # ------------------------------------------------------------ batches

    def of_brokers(self, panes: pa.Table, marker: Marker, newest_ms: int) -> pa.Table:
        """The rows of `broker_load`. `newest_ms`: the newest pane end of all earlier batches."""
        return self._of(BROKER, marker, newest_ms).fold(panes, newest_ms)

    def write_bundles(
        self, rows: int, panes: Callable[[], pa.Table], marker: Marker, newest_ms: int, write_panes: Callable[[], None]
    ) -> None:
        """Compute and write `bundle_load` of so many `panes`: of few while they are written, of many afterwards, beside
        the next batch. Executors are idle while many panes are written; averages at that time would prolong it."""
        if rows >= ASIDE_FROM_ROWS:
            write_panes()
            self._under_way = self._aside.submit(self._write_bundles, panes, marker, newest_ms)
            return
        self._under_way = self._aside.submit(self._write_bundles, panes, marker, newest_ms)
        try:
            write_panes()
        finally:
            self.finish()

    def finish(self) -> None:
        """Wait until nothing is under way. Raises what it failed with, once."""
        waited, self._under_way = self._under_way, None
        if waited is not None:
            waited.result()

    def forget_bundles(self) -> None:
        """Another writer goes on with the bundles: the next batch here reads its rows."""
        self._rolling.pop(BUNDLE.load, None)

    def _write_bundles(self, panes: Callable[[], pa.Table], marker: Marker, newest_ms: int) -> None:
        load = self._of(BUNDLE, marker, newest_ms).fold(panes(), newest_ms)
        self._writer.append(BUNDLE.load, load, marker, marker.columns())

    # ------------------------------------------------------------ after a start, or a batch that failed

    def begin_again(self, marker: Marker, last: int | None) -> None:
        """Forget everything, and write the averages that the batch before owes. `marker`: of the next batch; `last`:
        the last one of this query whose panes are complete; None without one."""
        try:
            self.finish()
        except Exception as error:  # the same query's last words: its rows are made up for below
            log.warning("averages of the batch before %d failed: %s", marker.batch_id, error)
        self._rolling = {}
        if last is None:
            return
        written = self._root.handle(BUNDLE.load).transaction_version(marker.app_id(BUNDLE.load))
        if written is None or written < last:
            self._make_up(marker.query_id, last)

    def _make_up(self, query_id: str, batch_id: int) -> None:
        owing = Marker(query_id, batch_id, {})
        of_batch = (pc.field("writer") == owing.writer) & (pc.field("batch_id") == batch_id)
        panes = self._root.open(BUNDLE.panes).to_pyarrow_dataset().to_table(filter=of_batch)
        if panes.num_rows == 0:
            return
        brokers = self._root.open(BROKER.panes).to_pyarrow_dataset()
        before = brokers.to_table(columns=["pane_end_ms"], filter=owing.others())["pane_end_ms"]
        times = brokers.to_table(columns=["first_event_ms", "last_event_ms"], filter=of_batch)
        first_ms, last_ms = pc.min(times["first_event_ms"]).as_py(), pc.max(times["last_event_ms"]).as_py()
        marker = Marker.of(query_id, batch_id, first_ms, last_ms)
        log.info("averages of loads batch %d are made up for: %d panes", batch_id, panes.num_rows)
        self._write_bundles(lambda: panes, marker, pc.max(before).as_py() or 0)

    def _of(self, layout: Layout, marker: Marker, newest_ms: int) -> RollingAverages:
        """Those in memory, or those recovered from the rows of earlier batches."""
        if layout.load in self._rolling:
            return self._rolling[layout.load]
        settings = self._settings
        rolling = RollingAverages(layout, settings.short_horizon_ms, settings.long_half_life_ms, settings.recover_ms)
        panes_after_ms, load_after_ms = relevant_after_ms(settings, newest_ms)
        named, longs = [*layout.keys, *layout.carried], [column for _, column in layout.longs]
        panes = self._root.open(layout.panes).to_pyarrow_dataset()
        load = self._root.open(layout.load).to_pyarrow_dataset()
        rolling.recover(
            panes.to_table(
                columns=["pane_end_ms", *named, *layout.sums],
                filter=(pc.field("pane_end_ms") > panes_after_ms) & marker.others(),
            ),
            load.to_table(
                columns=["as_of_ms", "batch_id", *named, *longs],
                filter=(pc.field("as_of_ms") > load_after_ms) & marker.others(),
            ),
        )
        self._rolling[layout.load] = rolling
        return rolling


def relevant_after_ms(settings: LoadsSettings, newest_ms: int) -> tuple[int, int]:
    """The oldest pane end and the oldest as_of, both exclusive, that can still affect a row after `newest_ms`."""
    horizon = settings.short_horizon_ms
    return newest_ms - lag_ms(horizon) - horizon, newest_ms - settings.recover_ms
