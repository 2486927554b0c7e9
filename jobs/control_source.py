"""The control query's Kafka source: four topics in one, no rate limit, from the journaled offsets on.

Without a rate limit a batch's planned end is its input's end: whatever was appended before the batch was planned is
read in it. The judgement of leases depends on that ("Time" in the design).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from controller.bus.security import revealed, spark_options
from controller.service.reach import SourceSettings
from controller.service.records import Row


def read_stream(spark: SparkSession, source: SourceSettings, starting: str) -> DataFrame:
    """The streaming frame; `starting` is JSON, topic -> partition -> offset. It counts for a new checkpoint only.

    `fetch.max.wait.ms`: an offset look-up of an idle partition otherwise waits half a second, in each batch.
    `failOnDataLoss` is off, because heartbeats older than their retention must not stop a start; records that are
    really missing are found by their offsets (`controller.service.records`) and reported.
    """
    options = {
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": ",".join(source.topics),
        "startingOffsets": starting,
        "failOnDataLoss": "false",
        "kafka.fetch.max.wait.ms": "20",
        "kafka.client.id": "ballast-control",
        **spark_options(source.client),
    }
    frame = spark.readStream.format("kafka").options(**revealed(options)).load()
    at_ms, key = "unix_millis(timestamp) AS ms", "CAST(key AS STRING) AS key"
    return frame.selectExpr("topic", "partition", "offset", at_ms, "value", key)


def collect(frame: DataFrame) -> list[Row]:
    """The batch's rows. One task reads all partitions: a small batch spends its time on starting tasks."""
    return [
        Row(topic, partition, offset, ms, None if value is None else bytes(value), key)
        for topic, partition, offset, ms, value, key in frame.coalesce(1).collect()
    ]
