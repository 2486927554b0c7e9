"""The loads query: turns `load-reports` from Kafka into panes, rolling averages and quarantine, batch by batch.

Event time is the timestamp of the Kafka record. `loads_parse.prepare_records` defines the frame of a batch,
`LoadsBatch` processes it. `failOnDataLoss` is off: load reports are stale within seconds, so records that Kafka removed
unread must not stop the query; they are counted from the progress reports and logged as an error.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tenacity import RetryCallState, Retrying, retry_if_exception, sleep_using_event, wait_exponential

from controller.bus.security import reveal_secrets
from controller.domain.errors import describe_error, first_line
from controller.ledger.store.away import is_store_away
from controller.ledger.tables import TableRoot
from controller.loads.settings import LoadsSettings
from controller.process.clock import wall_ms
from controller.service.loop import Stopping
from jobs.loads_batch import BatchReport, LoadsBatch
from jobs.loads_parse import prepare_records
from jobs.spark_context import checkpoint_settings, scheduler_pool, tell_in_one_line

log = logging.getLogger(__name__)

QUERY_NAME = "loads"
STOPPED = "the loads query has stopped"
POOL = "loads"
FETCH_BYTES = 8 * 2**20  # per partition and fetch; Kafka's default of 1 MB holds three reports of a thousand bundles
BATCH_WAIT_S = 5.0  # for a stop to wait for the running batch: from a Kafka that hangs its records come after minutes
MOST_PAUSE_S = 10.0  # between two tries of a batch while the table store is away
COMMIT_WAIT_S = 2.0  # writing the batch's commit file takes some ms, on a loaded disk longer


@dataclass
class LoadsQuery:
    """A running loads query. `query` is Spark's handle; `failure` is the error that ended it, if any; `blocked`: why it
    waits for the table store, if it does."""

    batch: LoadsBatch
    on_batch: Callable[[BatchReport], None] | None = None
    query: StreamingQuery = field(init=False)
    failure: BaseException | None = field(init=False, default=None)
    blocked: str = field(init=False, default="")
    lost_records: int = field(init=False, default=0)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _checked_batch: int = field(init=False, default=-1)

    def process(self, frame: DataFrame, batch_id: int) -> None:
        """Process one micro-batch; called by Spark."""
        context = frame.sparkSession.sparkContext
        with self._lock:
            try:
                if self._stopped.is_set():
                    raise Stopping(STOPPED)
                query_id = str(context.getLocalProperty("sql.streaming.queryId"))
                report = self._waiting_for_store()(self.batch.process, frame, batch_id, query_id)
                self.blocked = ""
            except BaseException as error:
                if self._stopped.is_set():  # the query's stop has cancelled it, or it came after the stop
                    tell_in_one_line(context, Stopping(STOPPED))
                    raise Stopping(STOPPED) from error
                self.failure = error
                tell_in_one_line(context, error)
                raise
            self._publish(report)

    def stop(self) -> None:
        """Let the running batch finish, but do not wait long for its records; then stop the query.

        A batch that starts meanwhile fails. It is run again by the next start, as is one that was given up.
        """
        ended = self._lock.acquire(timeout=BATCH_WAIT_S)
        self._stopped.set()
        try:
            if ended:
                self._lock.release()
                self.finish()
                self._wait_for_commit()
            else:
                log.warning("the running loads batch is given up after %.0f s; the next start runs it", BATCH_WAIT_S)
            self.query.stop()
        except Exception as error:  # an interrupted stop sometimes counts as a failure; the tables are complete
            log.warning("the loads query's stop: %s", first_line(error))

    def _waiting_for_store(self) -> Retrying:
        """Runs a batch again while the table store is away, until the stop. Tables skip what they have already."""
        return Retrying(
            retry=retry_if_exception(is_store_away),
            wait=wait_exponential(max=MOST_PAUSE_S),
            sleep=sleep_using_event(self._stopped),
            stop=lambda _: self._stopped.is_set(),
            before_sleep=self._tell_blocked,
            reraise=True,
        )

    def _tell_blocked(self, tried: RetryCallState) -> None:
        error = tried.outcome.exception() if tried.outcome is not None else None
        self.blocked = describe_error(error) if error is not None else ""
        log.error("blocked: loads batch %d, try %d: %s", tried.args[1], tried.attempt_number, self.blocked)

    def finish(self) -> None:
        """Wait for the averages of the newest batch; without that, the next start makes up for them."""
        try:
            self.batch.averages.finish()
        except Exception as error:
            log.warning("averages of the newest loads batch failed; the next start writes them: %s", error)

    def _wait_for_commit(self) -> None:
        # A stop before the checkpoint's commit would make Spark run the batch again, though without effect.
        deadline = time.monotonic() + COMMIT_WAIT_S
        while self.query.isActive and self.query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.02)

    def check_lost(self) -> int:
        """Compare the records read with the offsets advanced in the batches since the last call; return all records
        lost so far. Spark keeps the progress of the last 20 batches or more (`numRecentProgressUpdates`)."""
        for progress in _recent_progress(self.query):
            if progress["batchId"] <= self._checked_batch:
                continue
            self._checked_batch = progress["batchId"]
            missing = sum(map(_offsets_advanced, progress["sources"])) - progress["numInputRows"]
            if missing > 0:
                self.lost_records += missing
                log.error("load reports: Kafka removed %d records before they were read", missing)
        return self.lost_records

    def _publish(self, report: BatchReport) -> None:
        if report.quarantined:
            log.warning("loads batch %d: quarantined %s", report.batch_id, report.quarantined)
        if self.on_batch is not None:
            self.on_batch(report)


def start_loads(
    spark: SparkSession,
    settings: LoadsSettings,
    on_batch: Callable[[BatchReport], None] | None = None,
    *,
    available_now: bool = False,
    clock: Callable[[], int] = wall_ms,
) -> LoadsQuery:
    """Start the query; its jobs run in the scheduler pool `loads`. `available_now`: stop at the end of the input.

    The tables must exist. `on_batch` is called after each batch on the query's thread and must return quickly.
    """
    root = TableRoot(settings.tables_root, settings.storage_options)
    loads = LoadsQuery(LoadsBatch(settings, root, clock), on_batch)
    frame = prepare_records(read_stream(spark, settings), settings)
    writer = frame.writeStream.queryName(QUERY_NAME).foreachBatch(loads.process)
    writer = writer.option("checkpointLocation", settings.checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{settings.trigger_ms} milliseconds")
    of_checkpoint = checkpoint_settings(spark, settings.checkpoint, settings.storage_options)
    with scheduler_pool(spark.sparkContext, POOL), of_checkpoint:
        loads.query = writer.start()
    return loads


def read_stream(spark: SparkSession, settings: LoadsSettings) -> DataFrame:
    """The Kafka source. Without `fetch.max.wait.ms`, a fetch at the end of a partition waits half a second."""
    options = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "subscribe": settings.topic,
        "startingOffsets": settings.starting_offsets,
        "failOnDataLoss": "false",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
        "kafka.client.id": "ballast-loads",
        **settings.kafka_options,
    }
    if settings.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(settings.max_offsets_per_trigger)
    return spark.readStream.format("kafka").options(**reveal_secrets(options)).load()


def _recent_progress(query: StreamingQuery) -> list[dict[str, Any]]:
    """Spark's reports of the last batches, oldest first. As text: an object of PySpark's takes 30 ms to make, the text
    1 ms, and PySpark 4.1 makes Python's notation of the offsets in its own objects."""
    return [json.loads(progress.json()) for progress in query._jsq.recentProgress()]


def _offsets_advanced(source: dict[str, object]) -> int:
    start, end = (_parse_offsets(source.get(name)) for name in ("startOffset", "endOffset"))
    return sum(offset - start.get(place, offset) for place, offset in end.items())


def _parse_offsets(given: object) -> dict[tuple[str, str], int]:
    # the first progress of a query has no start offsets: Spark writes the word None
    found = json.loads(given) if isinstance(given, str) and given.startswith("{") else given
    if not isinstance(found, dict):
        return {}
    return {(topic, number): offset for topic, parts in found.items() for number, offset in parts.items()}
