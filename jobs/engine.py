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

    def __str__(self) -> str:
        where = f"{self.executors} executors, " if self.executors else ""
        return f"Spark {self.spark} at {self.master}: {where}{self.cores} cores"


def describe_engine(context: SparkContext) -> Engine:
    """As Spark's own status store has it, with or without its web UI. Raises Py4JError."""
    found = gateway_of(context).jvm.scala.jdk.javaapi.CollectionConverters.asJava(
        scala_context_of(context).statusStore().executorList(True)  # of those that are active
    )
    executors = [executor for executor in found if executor.id() != DRIVER]
    cores = sum(executor.totalCores() for executor in found)
    return Engine(context.version, without_login(str(context.master)), len(executors), cores)


class EngineWatch:
    """The engine as it was within the last seconds; logs every change. For one thread."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._engine: Engine | None = None
        self._due_s = 0.0

    def read(self) -> EngineRow | None:
        """For the controller's records; None while the JVM has not answered."""
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + FRESH_S
            try:
                engine = describe_engine(self._context)
            except (Py4JError, OSError, AttributeError) as error:  # ended: a stopped context has no JVM's any more
                log.debug("Spark does not say what it runs on: %s", error)
            else:
                if engine != self._engine:
                    log.info("%s", engine)
                self._engine = engine
        return self._engine._asdict() if self._engine is not None else None
