"""A batch that fails on a full disk: the job's own line tells it, and no stack is written."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from controller.ledger.store.room import NoRoom
from jobs.loads_query import LoadsQuery
from jobs.spark_context import JVM_BATCHES, gateway_of


class Failing:
    """A batch of the loads query that cannot be written."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def process(self, frame: DataFrame, batch_id: int, query_id: str) -> None:
        raise self.error


@pytest.fixture
def loggers(spark: SparkSession) -> Iterator[None]:
    """What is muted speaks again afterwards."""
    yield
    logging.getLogger("py4j").setLevel(logging.WARNING)
    log4j = gateway_of(spark.sparkContext).jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(JVM_BATCHES, log4j.Level.WARN)


@pytest.mark.usefixtures("loggers")
@pytest.mark.parametrize(("error", "stacks"), [(NoRoom("no room for table t"), 0), (ValueError("a bug"), 1)])
def test_a_full_disk_has_no_stack_and_a_bug_has_one(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, error: Exception, stacks: int
) -> None:
    loads = LoadsQuery(Failing(error))  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO):
        loads.query = spark.readStream.format("rate").load().writeStream.foreachBatch(loads.process).start()
        with pytest.raises(Exception, match=str(error)):
            loads.query.awaitTermination(60)
    assert loads.failure is error
    assert sum(record.exc_info is not None for record in caplog.records if record.name.startswith("py4j")) == stacks
