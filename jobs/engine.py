"""What Spark runs on: version, master, executors and cores, for the log and for `ballast status`.

Executors come and go, so what was read holds for a while only. Reading must never end anything: where the JVM does not
answer, the last answer stays.
"""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark import SparkContext

from controller.domain.errors import without_login
from controller.operations.liveness import engine_text
from controller.service.feed import EngineRow
from jobs.spark_context import gateway_of, scala_context_of

log = logging.getLogger(__name__)

FRESH_S = 10.0
DRIVER = "driver"


class Engine(NamedTuple):
    """`executors`: processes besides the driver; 0 with a local master. `cores`: task slots of all of them."""

    spark: str
    master: str
    executors: int
    cores: int


def describe_engine(context: SparkContext) -> Engine:
    """As Spark's own status store has it, with or without its web UI. Raises Py4JError."""
    found = gateway_of(context).jvm.scala.jdk.javaapi.CollectionConverters.asJava(
        scala_context_of(context).statusStore().executorList(True)  # of those that are active
    )
    executors = [executor for executor in found if executor.id() != DRIVER]
    cores = sum(executor.totalCores() for executor in found)
    return Engine(context.version, without_login(str(context.master)), len(executors), cores)


class EngineWatch:
    """The engine as it was within the last seconds; logs every change. `refresh` in one thread, `row` in any."""

    def __init__(self) -> None:
        self._context: SparkContext | None = None
        self._engine: Engine | None = None
        self._due_s = 0.0

    def attach(self, context: SparkContext) -> None:
        """Watch this one from now on."""
        self._context = context

    def row(self) -> EngineRow | None:
        """For the controller's records; None while nothing is known."""
        engine = self._engine
        return engine._asdict() if engine is not None else None

    def refresh(self) -> None:
        """Ask again if the last answer is old."""
        if self._context is None or time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + FRESH_S
        try:
            engine = describe_engine(self._context)
        except (Py4JError, OSError, AttributeError) as error:  # a context that has ended has no JVM's any more
            log.debug("Spark does not say what it runs on: %s", error)
            return
        if engine != self._engine:
            log.info("%s", engine_text(engine._asdict()))
        self._engine = engine
