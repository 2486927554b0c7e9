"""The control query's Kafka source: four topics in one, no rate limit, from the journaled offsets on.

Without a rate limit a batch's planned end is its input's end: whatever was appended before the batch was planned is
read in it. The judgement of leases depends on that ("Time" in the design).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from controller.bus.security import check_client_settings, spark_options
from jobs.control_records import Offsets, Row

log = logging.getLogger(__name__)

EARLIEST = -2  # Spark's word for it in startingOffsets


@dataclass(frozen=True)
class SourceSettings:
    """Where the records are. `client` holds SASL and TLS settings in kafka-python's names."""

    bootstrap: str
    topics: tuple[str, ...]
    client: Mapping[str, object]


def read_stream(spark: SparkSession, source: SourceSettings, starting: str) -> DataFrame:
    """The streaming frame; `starting` counts for a new checkpoint only.

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
    frame = spark.readStream.format("kafka").options(**options).load()
    return frame.selectExpr("topic", "partition", "offset", "unix_millis(timestamp) AS ms", "value")


def collect(frame: DataFrame) -> list[Row]:
    """The batch's rows. One task reads all partitions: a small batch spends its time on starting tasks."""
    return [
        Row(topic, partition, offset, ms, None if value is None else bytes(value))
        for topic, partition, offset, ms, value in frame.coalesce(1).collect()
    ]


def starting_offsets(source: SourceSettings, applied: Offsets) -> str:
    """`startingOffsets` for a new checkpoint: the journaled offsets, or the oldest record a partition still has.

    Spark wants every partition named. An offset beyond a partition's end is refused by the check of topic ids, which
    comes before this (`jobs.control_start`).
    """
    starting: dict[str, dict[str, int]] = {}
    for tp, oldest in _oldest(source).items():
        wanted = applied.get(tp.topic, {}).get(str(tp.partition))
        if wanted is not None and wanted < oldest:
            log.warning(
                "%s-%d: the journal goes on at offset %d, Kafka has %d and later: %d records were removed unread",
                tp.topic, tp.partition, wanted, oldest, oldest - wanted,
            )  # fmt: skip
            wanted = oldest
        starting.setdefault(tp.topic, {})[str(tp.partition)] = EARLIEST if wanted is None else wanted
    return json.dumps(starting, sort_keys=True)


def _oldest(source: SourceSettings) -> dict[Any, int]:
    check_client_settings(source.client)
    consumer = KafkaConsumer(bootstrap_servers=source.bootstrap, group_id=None, **source.client)
    try:
        partitions = [
            TopicPartition(topic, number)
            for topic in source.topics
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        return dict(consumer.beginning_offsets(partitions))
    finally:
        consumer.close()
