"""The Kafka source of the control query: four topics, no rate limit, starting at the journaled offsets.

Without a rate limit a batch reads everything that was appended before it was planned. The expiry of leases depends on
that (docs/ownership.md).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from controller.bus.reach import SourceSettings
from controller.bus.security import reveal_secrets, spark_options
from controller.service.records import Row


def read_stream(spark: SparkSession, source: SourceSettings, starting: str) -> DataFrame:
    """The streaming frame. `starting` is JSON, topic -> partition -> offset; it only applies to a new checkpoint.

    Without `fetch.max.wait.ms`, the offset look-up of an idle partition waits half a second in each batch.
    `failOnDataLoss` is off because heartbeats beyond their retention must not prevent a start; records that are really
    missing are detected by their offsets (`controller.service.records`) and reported.
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
    frame = spark.readStream.format("kafka").options(**reveal_secrets(options)).load()
    at_ms, key = "unix_millis(timestamp) AS ms", "CAST(key AS STRING) AS key"
    return frame.selectExpr("topic", "partition", "offset", at_ms, "value", key)


def collect(frame: DataFrame) -> list[Row]:
    """Collect the rows of a batch. One task reads all partitions, because starting tasks dominates small batches."""
    return [
        Row(topic, partition, offset, ms, None if value is None else bytes(value), key)
        for topic, partition, offset, ms, value, key in frame.coalesce(1).collect()
    ]
