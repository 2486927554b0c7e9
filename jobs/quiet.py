"""Switches off log lines that come with every micro-batch: at five batches a second they hide the rest."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

CHATTY = (
    # "Current batch is falling behind": with a trigger below a batch's duration that is the plan, not a fault.
    "org.apache.spark.sql.execution.streaming.ProcessingTimeExecutor",
    # "Kafka property ... is not a known config" and group ids, once per consumer.
    "org.apache.kafka.clients.consumer.ConsumerConfig",
    "org.apache.kafka.clients.admin.AdminClientConfig",
)


def quieten(spark: SparkSession) -> None:
    """Errors only, for the loggers above and for py4j, which logs each call of the JVM."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    log4j = spark.sparkContext._jvm.org.apache.logging.log4j
    for name in CHATTY:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)
