"""A batch whose failure the job's own line tells, or that was to end: no stack is written."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from controller.domain.errors import ForeignCommit
from controller.ledger.store.room import NoRoom
from jobs.loads_query import STOPPED, LoadsQuery
from jobs.spark_context import JVM_BATCHES, gateway_of


class Failing:
    """A batch of the loads query that cannot be written."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def process(self, frame: DataFrame, batch_id: int, query_id: str) -> None:
        raise self.error


@pytest.fixture
def loggers(spark: SparkSession) -> Iterator[None]:
    """What is muted speaks again, and afterwards, too."""
    unmute(spark)
    yield
    unmute(spark)


def unmute(spark: SparkSession) -> None:
    logging.getLogger("py4j").setLevel(logging.WARNING)
    log4j = gateway_of(spark.sparkContext).jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(JVM_BATCHES, log4j.Level.WARN)


@pytest.mark.usefixtures("loggers")
@pytest.mark.parametrize(
    ("error", "stacks"),
    [(NoRoom("no room for table t"), 0), (ForeignCommit("another controller"), 0), (ValueError("a bug"), 1)],
)
def test_a_full_disk_or_another_controller_has_no_stack_and_a_bug_has_one(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, error: Exception, stacks: int
) -> None:
    loads = LoadsQuery(Failing(error))  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO):
        loads.query = spark.readStream.format("rate").load().writeStream.foreachBatch(loads.process).start()
        with pytest.raises(Exception, match=str(error)):
            loads.query.awaitTermination(60)
    assert loads.failure is error
    assert stacks_of(caplog) == stacks


@pytest.mark.usefixtures("loggers")
def test_a_batch_after_the_stop_has_no_stack(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """In an object store the batch before takes longer to end than a stop waits, so that Spark begins this one."""
    loads = LoadsQuery(Failing(ValueError("nobody gets here")))  # type: ignore[arg-type]
    loads._stopped.set()
    loads.query = spark.readStream.format("rate").load().writeStream.foreachBatch(loads.process).start()
    with pytest.raises(Exception, match=STOPPED):
        loads.query.awaitTermination(60)
    assert loads.failure is None
    assert stacks_of(caplog) == 0


def stacks_of(caplog: pytest.LogCaptureFixture) -> int:
    """How many py4j has written."""
    return sum(record.exc_info is not None for record in caplog.records if record.name.startswith("py4j"))
