"""The offsets that Kafka holds of some topics, for every partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import TopicPartition

from controller.bus.cluster import open_consumer
from controller.bus.failures import READ, telling_refusals

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


def read_reach(source: SourceSettings, timeout_ms: int = CONNECT_MS) -> dict[str, dict[str, Reach]]:
    """The offsets that Kafka holds now, for every partition of the source's topics. Raises KafkaUnavailable,
    NoRight."""
    consumer = open_consumer(source.bootstrap, "ballast-reach", source.client, timeout_ms)
    try:
        with telling_refusals(source.client, READ):
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
