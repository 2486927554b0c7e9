"""The offsets that Kafka holds of the control topics, and the offset from which each partition is read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition

from controller.bus.cluster import open_consumer
from controller.service.records import Offsets

log = logging.getLogger(__name__)

CONNECT_MS = 30_000


class Reach(NamedTuple):
    """The offsets that a partition holds: [oldest, end)."""

    oldest: int
    end: int


Reaches = Mapping[str, Mapping[str, Reach]]  # topic -> partition -> what it holds


@dataclass(frozen=True)
class SourceSettings:
    """The Kafka source. `client` holds SASL and TLS settings under kafka-python's names."""

    bootstrap: str
    topics: tuple[str, ...]
    client: Mapping[str, object]


def starting_offsets(reach: Reaches, applied: Offsets, from_end: str) -> dict[str, dict[str, int]]:
    """The first offset to read of each partition: the journaled one, or the oldest that Kafka still has.

    `from_end` is the heartbeats topic, of which only new records tell who is alive now. Spark requires an offset for
    every partition. Offsets beyond a partition's end have been refused before (`controller.service.kafka_identity`).
    """
    starting: dict[str, dict[str, int]] = {}
    for topic, partitions in reach.items():
        for partition, (oldest, end) in partitions.items():
            wanted = end if topic == from_end else applied.get(topic, {}).get(partition, oldest)
            if wanted < oldest:
                log.warning(
                    "%s-%s: the journal continues at offset %d, Kafka has %d and later: %d records were removed unread",
                    topic, partition, wanted, oldest, oldest - wanted,
                )  # fmt: skip
            starting.setdefault(topic, {})[partition] = max(wanted, oldest)
    return starting


def read_reach(source: SourceSettings) -> dict[str, dict[str, Reach]]:
    """The offsets that Kafka holds now, for every partition of the source's topics. Raises KafkaUnavailable."""
    consumer = open_consumer(source.bootstrap, "ballast-reach", source.client, CONNECT_MS)
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
