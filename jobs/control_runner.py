"""Runs the control query: claims the journal, starts feed, round worker and query, and stops them in order.

The order keeps a single controller in charge. Start: check Kafka and topics, read the journal, listen for another
controller, commit `controller_started`; then start ticks, round worker and query. Stop: finish the running batch, stop
the worker, commit `controller_stopped`, write the projections.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from typing import Any

from deltalake.exceptions import DeltaError
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from controller.bus.failures import describe_spark_error
from controller.bus.producer import JsonProducer
from controller.bus.reach import Reaches, SourceSettings
from controller.bus.topic_owner import TopicOwner
from controller.bus.topics import ensure_topics, live_topics
from controller.config.policy_values import control_settings
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.apply import fold
from controller.domain.errors import AnotherController, BallastError, describe_error, without_login
from controller.domain.events import RoundFinished
from controller.domain.state import ClusterState
from controller.process.clock import boot_ms, wall_ms
from controller.service.arguments import Arguments
from controller.service.feed import Feed
from controller.service.kafka_identity import check_kafka, kafka_identity
from controller.service.loop import Claim, Clocks, ControlLoop
from controller.service.metrics import ControlMetrics
from controller.service.prepare import Preparation
from controller.service.reach import starting_offsets
from controller.service.rounds.worker import RoundWorker
from controller.service.start import become_controller, last_entries
from controller.service.tables import ControlTables
from controller.service.topic_claim import TopicClaim
from jobs.control_query import control_checkpoint, remove_old_checkpoints, start_control, stop_control
from jobs.engine import EngineWatch
from jobs.spark_context import local_instead

log = logging.getLogger(__name__)

FEED_WAIT_S, UNHEARD_WAIT_S = 5.0, 1.0  # for the feed's last records, and where Kafka has just not answered
SILENT_MS = 30_000  # without a batch for this long, the query is unhealthy; ticks come twice a second


class ControlRunner:
    """Runs one controller instance; a `QueryRunner`."""

    def __init__(
        self,
        settings: Settings,
        arguments: Arguments,
        registry: CollectorRegistry,
        stop: threading.Event,
        engine: EngineWatch | None = None,
    ) -> None:
        """`stop`: set to ask the job to stop. `engine`: what the job runs on, for the feed."""
        self.instance = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"[-64:]
        self.metrics = ControlMetrics(registry)
        self._settings = settings
        self._arguments = arguments
        self._names = settings.kafka.topics
        self._stop_asked = stop
        self._engine = engine or EngineWatch()
        self._loop: ControlLoop | None = None
        self._query: StreamingQuery | None = None
        self._tables: ControlTables | None = None
        self._feed: Feed | None = None
        self._kafka: dict[str, Any] = {}
        kafka, tables = settings.kafka, without_login(table_root(settings).root)
        self._claimant = TopicClaim(kafka.bootstrap_servers, self._names.owner, kafka.client, self.instance, tables)
        self.worker: RoundWorker | None = None
        self._kafka_answers = True

    def start(self, spark: SparkSession) -> None:
        """Claim the journal, then start. Raises AnotherController, ForeignCommit, ConfigError."""
        settings, client = control_settings(self._settings), self._settings.kafka.client
        bootstrap = self._settings.kafka.bootstrap_servers
        specs = [spec for spec in live_topics(self._names) if spec.name in self._control_topics()]
        facts = ensure_topics(bootstrap, specs, client, self._settings.kafka.replication_factor or -1)
        check_kafka(self._settings, facts)
        self._kafka = kafka = kafka_identity(bootstrap, client, facts, self._names)
        source = SourceSettings(bootstrap, self._names.control, client)
        prepare = Preparation(self._settings, self._arguments, self._claimant, kafka, self.instance)
        prepare.before_tables()
        tables, state, entries = become_controller(self._open_tables, prepare, self._arguments.take_over)
        self._claim_topics(tables, state, prepare.replaced)
        self._tables = tables
        tables.gain_columns()
        tables.record_config(wall_ms())
        log.info("controller %s holds journal %s from seq %d on", self.instance, state.journal_id, state.seq)
        self._feed = feed = self._make_feed(state.journal_id)
        feed.start(state.seq)
        feed.publish(entries)
        held = Claim(self.instance, state, kafka)
        loop = ControlLoop(held, tables, feed, self._names, settings, Clocks(), self.metrics, self._claimant.check)
        self._loop = loop
        self.metrics.in_charge.set_function(lambda: float(loop.failure is None))
        self.metrics.batch_age_seconds.set_function(lambda: (boot_ms() - loop.last_batch_ms) / 1000)
        tables.start_projecting(state)
        self.worker = RoundWorker(
            self._settings, self._arguments.every_round, self._round_finished, self.metrics, lambda: loop.lagging
        )
        self.worker.start()
        self._query = self._start_query(spark, loop, source, prepare.reach)

    def _claim_topics(self, tables: ControlTables, state: ClusterState, replaced: TopicOwner | None) -> None:
        """Claim the topics; if another journal holds them, record the stop and raise AnotherController."""
        try:
            self._claimant.claim(state, replaced)
        except AnotherController:
            tables.commit(last_entries(state, self.instance, 0, wall_ms(), {}, self._kafka))
            raise

    def _open_tables(self) -> ControlTables:
        root = table_root(self._settings)
        return ControlTables(root, self.instance, self._settings, self.metrics, self._stop_asked)

    def _start_query(
        self, spark: SparkSession, loop: ControlLoop, source: SourceSettings, reach: Reaches
    ) -> StreamingQuery:
        root = local_instead(self._arguments.checkpoint or self._settings.tables.checkpoints)
        checkpoint = control_checkpoint(root, self.instance, wall_ms())
        remove_old_checkpoints(spark, checkpoint)
        starting = starting_offsets(reach, loop.state.offsets, from_end=self._names.all_heartbeats)
        return start_control(spark, loop, source, starting, checkpoint, self._settings.control.trigger_ms)

    def failure(self) -> BaseException | None:
        """The error that the batch or Spark raised; None while the query runs."""
        if self._loop is not None and self._loop.failure is not None:
            return self._loop.failure
        if self._query is not None and not self._query.isActive:
            reason = self._query.exception()
            kafka = self._settings.kafka
            why = describe_spark_error(reason, kafka.client, kafka.bootstrap_servers) if reason else "no reason"
            return BallastError(f"the control query ended: {why}")
        return None

    def troubles(self) -> list[str]:
        """Why the controller is not healthy; empty if it is."""
        loop = self._loop
        if loop is None:
            return ["control: starting"]
        found = [f"control: {loop.failure}"] if loop.failure is not None else []
        silent_ms = boot_ms() - loop.last_batch_ms
        if silent_ms > SILENT_MS:
            found.append(f"control: no batch for {silent_ms // 1000} s")
        if self._tables is not None and self._tables.overtaken is not None:
            found.append(f"control: no projections are written any more: {self._tables.overtaken}")
        found += self._feed.troubles() if self._feed is not None else []
        return found + (self.worker.troubles() if self.worker is not None else [])

    def stop(self, clean: bool, failed: str = "") -> None:
        """Stop the query, the worker and the feed. `clean`: this instance still holds the journal and did not fail.
        `failed`: why the job ends by itself. If only another part of it failed, the journal is told."""
        may_commit = clean or (bool(failed) and not self._has_failed())
        self.metrics.in_charge.set_function(lambda: 0.0)
        if self._query is not None and self._loop is not None:
            stop_control(self._query, self._loop)
        if self.worker is not None:
            self.worker.stop()
        if self._loop is not None and self._tables is not None:
            good = may_commit and self._loop.failure is None and self._commit_stop(self._loop, self._tables, failed)
            self._tables.stop_projecting(self._loop.state if good else None)
        if self._feed is not None:
            self._feed.stop(FEED_WAIT_S if self._kafka_answers else UNHEARD_WAIT_S)

    def _has_failed(self) -> bool:
        try:
            return self.failure() is not None
        except Exception:  # Spark itself is gone
            return True

    def _commit_stop(self, loop: ControlLoop, tables: ControlTables, failed: str) -> bool:
        """Commit `controller_stopped`; False if another controller has replaced this one, or the store does not take
        it, which may be what the job fails of."""
        batch = loop.last_batch_id + 1
        entries = last_entries(loop.state, self.instance, batch, wall_ms(), loop.unjournaled, self._kafka, failed)
        try:
            tables.commit(entries)
        except (BallastError, DeltaError, OSError) as error:
            log.error("stopped without an entry in the journal: %s", describe_error(error))
            return False
        loop.state = fold(loop.state, entries)
        self._kafka_answers = self._claimant.stop(loop.state.seq)
        if self._feed is not None:
            self._feed.publish(entries)
        return True

    def _round_finished(self, event: RoundFinished, duration_ms: int) -> None:
        if self._loop is not None:
            self._loop.add_round(event, duration_ms)

    def _make_feed(self, journal_id: str | None) -> Feed:
        kafka = self._settings.kafka
        # Not idempotent: sending must go on after an outage in which records expired. A record may be repeated then and
        # come late: agents apply an entry once, by its seq, and a tick or a newest seq is followed by the next one.
        producer = JsonProducer(
            kafka.bootstrap_servers, f"ballast-{self.instance}", kafka.client, max_block_ms=1_000, idempotent=False
        )
        control = self._settings.control
        return Feed(
            producer,
            self._names,
            self.instance,
            journal_id=journal_id,
            tick_ms=control.tick_ms,
            repeat_ms=control.feed_repeat_ms,
            wall_ms=wall_ms,
            engine=self._engine.row,
        )

    def _control_topics(self) -> set[str]:
        return {*self._names.control, self._names.journal_feed, self._names.owner}
