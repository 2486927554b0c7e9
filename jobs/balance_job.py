"""The balancing job: loads the settings, builds the session, runs the queries, stops cleanly, returns an exit code.

A failed query ends the process. A supervisor restarts it, and it continues where the journal ends.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from controller.bus.failures import describe_kafka_in_spark, describe_spark_error
from controller.config.http_access import http_access
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import BallastError, PortTaken, describe_error, without_login
from controller.ledger.store.away import is_of_store, is_store_away
from controller.ledger.store.conditional_put import check_conditional_put
from controller.process.logs import configure_logs
from controller.process.metrics import new_registry
from controller.service.arguments import (
    CONTROL,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    LOADS,
    Arguments,
    exit_code,
    parse_arguments,
)
from controller.service.health import HealthServer
from controller.service.start_checks import check_job
from jobs.control_runner import ControlRunner
from jobs.engine import EngineWatch
from jobs.session import build_session
from jobs.signals import StartInterrupt, stop_on_jvm_signals, stop_on_signals
from jobs.spark_context import quieten

log = logging.getLogger("ballast.job")

WATCH_S = 0.2
MOST_CHARS = 1_000  # of a failure, in the journal


class QueryRunner(Protocol):
    """Runs one streaming query together with everything it needs."""

    def start(self, spark: SparkSession) -> None:
        """Start the query. Raises BallastError if it must not run."""

    def failure(self) -> BaseException | None:
        """Why the query ended by itself; None while it runs."""

    def troubles(self) -> list[str]:
        """Why the query is not healthy; empty if it is."""

    def stop(self, clean: bool, failed: str = "") -> None:
        """Stop whatever was started. `clean`: let the running batch finish and record the stop. `failed`: why the job
        ends by itself, in one line."""


def main(argv: Sequence[str]) -> int:
    """Run until SIGTERM, SIGINT or a failure; return the exit code (see `--help`)."""
    arguments = parse_arguments(argv)
    stop = threading.Event()
    stop_on_signals(stop)
    interrupt = StartInterrupt(stop)
    client: Mapping[str, object] = {}
    servers = ""
    try:
        settings = load_settings(arguments.conf, arguments.profile, arguments.overrides)
        configure_logs(settings.logging.level, settings.logging.json_lines, cluster=settings.cluster.name)
        client, servers = settings.kafka.client, settings.kafka.bootstrap_servers
        _check_start(settings, arguments)
        code = _run(settings, arguments, stop)
        return EXIT_INTERRUPTED if interrupt.came else code
    except BaseException as error:
        if interrupt.came:
            return EXIT_INTERRUPTED
        code = exit_code(error)
        print(f"ballast: {_one_line(error, client, servers)}", file=sys.stderr, flush=True)
        told = _is_plain(error) or bool(describe_kafka_in_spark(error, client, servers))
        if code == EXIT_FAILED and not told:
            log.error("the job failed", exc_info=error)
        return code


def _check_start(settings: Settings, arguments: Arguments) -> None:
    """Raise what hinders a start. The port may be that of the controller which is replaced: `HealthServer` waits."""
    try:
        check_job(settings, arguments.checkpoint, arguments.pid_file)
    except PortTaken:
        if not arguments.take_over:
            raise
    tables, checkpoints = settings.tables, arguments.checkpoint or settings.tables.checkpoints
    log.info("tables at %s, checkpoints at %s", *map(without_login, (tables.root, checkpoints)))
    check_conditional_put(table_root(settings))  # whichever queries run: both write tables


def _run(settings: Settings, arguments: Arguments, stop: threading.Event) -> int:
    registry = new_registry()
    engine = EngineWatch()
    runners = _make_runners(settings, arguments, registry, stop, engine)
    spark = build_session(f"ballast-{settings.cluster.name}")
    engine.attach(spark.sparkContext)
    engine.refresh()
    stop_on_jvm_signals(spark.sparkContext, stop)
    stop_on_signals(stop)  # from here on SIGINT ends no JVM, and the running batch ends as with SIGTERM
    quieten(spark.sparkContext)
    http = settings.http
    server = HealthServer(
        http.bind_host,
        http.job_port,
        registry,
        lambda: [t for runner in runners for t in runner.troubles()],
        http_access(settings),
        wait=arguments.take_over,
    )
    pid_file = _write_pid(arguments.pid_file)
    clean, failed = False, ""
    try:
        server.start()
        for runner in runners:
            if not stop.is_set():
                runner.start(spark)
        log.info("running: pid %d takes SIGTERM; health and metrics at %s", os.getpid(), server.url or "no port yet")
        _watch(runners, stop, engine, server)
        clean = True
        log.info("stopping")
        return 0
    except Exception as error:
        failed = _one_line(error, settings.kafka.client, settings.kafka.bootstrap_servers)[:MOST_CHARS]
        raise
    finally:
        stop.set()  # after a failure as well: a commit that the store does not answer is given up
        for runner in reversed(runners):
            _stop(runner, clean, failed)
        server.stop()
        spark.stop()
        if pid_file is not None:
            pid_file.unlink(missing_ok=True)
        if clean:
            log.info("stopped in good order")


def _make_runners(
    settings: Settings,
    arguments: Arguments,
    registry: CollectorRegistry,
    stop: threading.Event,
    engine: EngineWatch,
) -> list[QueryRunner]:
    runners: list[QueryRunner] = []
    if arguments.runs(CONTROL):
        runners.append(ControlRunner(settings, arguments, registry, stop, engine))
    if arguments.runs(LOADS):
        from jobs.loads_runner import LoadsRunner

        runners.append(LoadsRunner(settings, arguments, registry))
    return runners


def _watch(runners: Sequence[QueryRunner], stop: threading.Event, engine: EngineWatch, server: HealthServer) -> None:
    """Return when a stop is requested; raise the error that ended a query."""
    while not stop.wait(WATCH_S):
        engine.refresh()
        server.listen()
        for runner in runners:
            failure = runner.failure()
            if failure is not None:
                raise failure


def _stop(runner: QueryRunner, clean: bool, failed: str) -> None:
    try:
        runner.stop(clean, failed)
    except BallastError as error:
        log.error("stopping %s: %s", type(runner).__name__, error)
    except Exception as error:  # the other query must still be stopped
        log.error("stopping %s failed", type(runner).__name__, exc_info=error)


def _write_pid(path: Path | None) -> Path | None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{os.getpid()}\n")
    return path


def _one_line(error: BaseException, client: Mapping[str, object], servers: str = "") -> str:
    """Of our own errors and the table store's all of it, as the cause comes last; of Spark's what matters."""
    if is_store_away(error):
        return f"{describe_error(error)}: start again when the table store answers"
    if _is_plain(error):
        return describe_error(error)
    return describe_spark_error(error, client, servers)


def _is_plain(error: BaseException) -> bool:
    """Whether its text says what happened, so that nobody needs the stack."""
    return isinstance(error, BallastError) or is_of_store(error)
