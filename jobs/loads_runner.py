"""Runs the loads query: creates topics and tables, starts the query, watches it, exports its metrics."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from controller.bus.failures import describe_spark_error
from controller.bus.security import spark_options
from controller.bus.topics import ensure_topics, live_topics, replay_topics
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import BallastError, ConfigError
from controller.ledger.store.data_files import FileSink
from controller.loads.metrics import LoadsMetrics
from controller.loads.settings import LoadsSettings
from controller.process.clock import boot_ms
from controller.service.arguments import Arguments
from jobs.loads_batch import BatchReport, sink_of
from jobs.loads_query import LoadsQuery, start_loads
from schemas.catalog import LOAD_TABLES
from schemas.load_tables import QUARANTINE

log = logging.getLogger(__name__)


class LoadsRunner:
    """Runs the loads query; a `QueryRunner`."""

    def __init__(self, settings: Settings, arguments: Arguments, registry: CollectorRegistry) -> None:
        self._settings = settings
        self._arguments = arguments
        self._metrics = LoadsMetrics(registry)
        self._loads: LoadsQuery | None = None
        self._lost_checked_ms = 0

    def start(self, spark: SparkSession) -> None:
        """Create missing topics, tables and columns, then start the query."""
        kafka = self._settings.kafka
        names = kafka.topics
        specs = (replay_topics if self._arguments.every_round else live_topics)(names)
        reports = [replace(s, partitions=_partitions(s.partitions, kafka.load_report_partitions)) for s in specs]
        wanted = [spec for spec in reports if spec.name in names.all_load_reports]
        ensure_topics(kafka.bootstrap_servers, wanted, kafka.client, kafka.replication_factor or -1)
        tables = table_root(self._settings)
        tables.create_all()
        tables.gain_columns([*LOAD_TABLES, QUARANTINE.name])
        loads = loads_settings(self._settings, self._arguments.checkpoint)
        sink = sink_of(loads, tables)
        if sink is not None:
            check_workers(spark, sink)
        self._loads = start_loads(spark, loads, self._on_batch)

    def failure(self) -> BaseException | None:
        """The error that ended the query; None while it runs."""
        if self._loads is None:
            return None
        if self._loads.failure is not None:
            return self._loads.failure
        if not self._loads.query.isActive:
            reason = self._loads.query.exception()
            kafka = self._settings.kafka
            why = describe_spark_error(reason, kafka.client, kafka.bootstrap_servers) if reason else "no reason"
            return BallastError(f"the loads query ended: {why}")
        if boot_ms() - self._lost_checked_ms > 5_000:
            self._lost_checked_ms = boot_ms()
            self._metrics.lost.set(self._loads.check_lost())
        return None

    def troubles(self) -> list[str]:
        """Why the query is not healthy. A quiet topic is healthy: brokers may have nothing to report."""
        if self._loads is None:
            return ["loads: starting"]
        if self._loads.failure is not None:
            return [f"loads: {self._loads.failure}"]
        return [f"loads: blocked: {self._loads.blocked}"] if self._loads.blocked else []

    def stop(self, clean: bool, failed: str = "") -> None:
        """Let the running batch finish and stop the query."""
        if self._loads is not None:
            self._loads.stop()

    def _on_batch(self, report: BatchReport) -> None:
        self._metrics.reports.inc(report.reports)
        self._metrics.rows.inc(report.rows)
        for rule, count in report.quarantined.items():
            self._metrics.quarantined.labels(rule).inc(count)
        for stage, seconds in report.seconds.items():
            self._metrics.batch_seconds.labels(stage).set(seconds)
        if report.last_event_ms is not None:
            self._metrics.note_newest(report.last_event_ms)


def check_workers(spark: SparkSession, sink: FileSink) -> None:
    """Let tasks store a file: where they may not, every large batch would end the job. Raises ConfigError."""
    context = spark.sparkContext
    tasks = context.parallelize(range(context.defaultParallelism), context.defaultParallelism)
    refusals = tasks.map(lambda _: sink.find_refusal()).filter(bool).collect()
    if refusals:
        raise ConfigError(refusals[0])


def writer_of(settings: Settings) -> str:
    """`loads.writer`; in an object store the driver writes whatever the size of a batch, as Spark's Delta makes no
    conditional put there."""
    return "delta_rs" if table_root(settings).is_object_store else settings.loads.writer


def loads_settings(settings: Settings, checkpoints: str | None = None) -> LoadsSettings:
    """The settings of the query from the configuration; `checkpoints` overrides `tables.checkpoints`."""
    given, kafka, names = settings.loads, settings.kafka, settings.kafka.topics
    root = checkpoints or settings.tables.checkpoints
    return LoadsSettings(
        bootstrap_servers=kafka.bootstrap_servers,
        topic=",".join(names.all_load_reports),
        agent_groups=names.groups,
        group_of_topic=dict(zip(names.all_load_reports, names.groups.all, strict=True)),
        kafka_options=spark_options(kafka.client),
        tables_root=settings.tables.root,
        storage_options=settings.tables.storage_options,
        checkpoint=f"{root.rstrip('/')}/loads" if "://" in root else str(Path(root).absolute() / "loads"),
        max_offsets_per_trigger=given.max_offsets_per_trigger,
        trigger_ms=given.trigger_ms,
        pane_ms=given.pane_s * 1000,
        short_horizon_ms=given.short_horizon_s * 1000,
        long_half_life_ms=given.long_half_life_s * 1000,
        retention_ms=round(given.retention_hours * 3_600_000),
        writer=writer_of(settings),
        writer_threshold_rows=given.writer_threshold_rows,
        tasks_store_files=given.tasks_store_files,
    )


def _partitions(shipped: int, configured: int) -> int:
    """The single partition of a replay stays single; otherwise the configuration decides."""
    return shipped if shipped == 1 else configured
