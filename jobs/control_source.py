"""The control query's Kafka source: four topics in one, no rate limit, from the journaled offsets on.

Without a rate limit a batch's planned end is its input's end: whatever was appended before the batch was planned is
read in it. The judgement of leases depends on that ("Time" in the design).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from controller.bus.security import client_options, revealed, spark_options
from jobs.control_records import Offsets, Row

log = logging.getLogger(__name__)


class Reach(NamedTuple):
    """What a partition holds: offsets [oldest, end)."""

    oldest: int
    end: int


Reaches = Mapping[str, Mapping[str, Reach]]  # topic -> partition -> what it holds


@dataclass(frozen=True)
class SourceSettings:
    """Where the records are. `client` holds SASL and TLS settings in kafka-python's names."""

    bootstrap: str
    topics: tuple[str, ...]
    client: Mapping[str, object]


def read_stream(spark: SparkSession, source: SourceSettings, starting: str) -> DataFrame:
    """The streaming frame; `starting` is JSON, topic -> partition -> offset. It counts for a new checkpoint only.

    `fetch.max.wait.ms`: an offset look-up of an idle partition otherwise waits half a second, in each batch.
    `failOnDataLoss` is off, because heartbeats older than their retention must not stop a start; records that are
    really missing are found by their offsets (`jobs.control_records`) and reported.
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


def starting_offsets(reach: Reaches, applied: Offsets, from_end: str) -> dict[str, dict[str, int]]:
    """Where each partition is read from: the journaled offset, or the oldest record that Kafka still has.

    `from_end` names the heartbeats: only those to come say anything about who lives now. Spark wants every partition.
    An offset beyond a partition's end is refused before (`jobs.control_start`).
    """
    starting: dict[str, dict[str, int]] = {}
    for topic, partitions in reach.items():
        for partition, (oldest, end) in partitions.items():
            wanted = end if topic == from_end else applied.get(topic, {}).get(partition, oldest)
            if wanted < oldest:
                log.warning(
                    "%s-%s: the journal goes on at offset %d, Kafka has %d and later: %d records were removed unread",
                    topic, partition, wanted, oldest, oldest - wanted,
                )  # fmt: skip
            starting.setdefault(topic, {})[partition] = max(wanted, oldest)
    return starting


def reach_of(source: SourceSettings) -> dict[str, dict[str, Reach]]:
    """What Kafka has of every partition of the source's topics now."""
    consumer = KafkaConsumer(bootstrap_servers=source.bootstrap, group_id=None, **client_options(source.client))
    try:
        partitions = [
            TopicPartition(topic, number)
            for topic in source.topics
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        oldest, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    finally:
        consumer.close()
    found: dict[str, dict[str, Reach]] = {}
    for each in partitions:
        found.setdefault(each.topic, {})[str(each.partition)] = Reach(oldest[each], ends[each])
    return found
