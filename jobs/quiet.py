"""Silences loggers that write a line with every micro-batch: at five batches a second they hide everything else."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from jobs.spark_context import gateway_of

NOISY_LOGGERS = (
    # "Current batch is falling behind": expected, as the trigger interval is shorter than a batch.
    "org.apache.spark.sql.execution.streaming.ProcessingTimeExecutor",
    # "Kafka property ... is not a known config" and group ids, for every consumer.
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
)


def quieten(spark: SparkSession) -> None:
    """Let the loggers above log errors only, and py4j, which logs every call to the JVM, warnings only."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    log4j = gateway_of(spark.sparkContext).jvm.org.apache.logging.log4j
    for name in NOISY_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
