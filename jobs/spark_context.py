"""What the jobs use of a SparkContext beyond its typed interface: the py4j gateway, scheduler pools, JVM loggers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext

# They write a line with every micro-batch: at five batches a second they hide everything else.
NOISY_JVM_LOGGERS = (
    # "Current batch is falling behind": expected, as the trigger interval is shorter than a batch.
    "org.apache.spark.sql.execution.streaming.ProcessingTimeExecutor",
    # "Kafka property ... is not a known config" and group ids, for every consumer.
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
)


def gateway_of(context: SparkContext) -> Any:
    """The py4j gateway to the JVM. It is untyped, and set as soon as there is a context."""
    return context._gateway


def scala_context_of(context: SparkContext) -> Any:
    """The SparkContext of the JVM, which knows more than Python's."""
    return context._jsc.sc()


@contextmanager
def scheduler_pool(context: SparkContext, pool: str) -> Iterator[None]:
    """Queries started inside run their jobs in this pool of Spark's fair scheduler."""
    context.setLocalProperty("spark.scheduler.pool", pool)
    try:
        yield
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]  # None unsets it


def quieten(context: SparkContext) -> None:
    """Let the noisy loggers log errors only, and py4j, which logs every call to the JVM, warnings only."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    log4j = gateway_of(context).jvm.org.apache.logging.log4j
    for name in NOISY_JVM_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
