"""What Kafka holds of the control topics, and where each partition is read from.

An offset beyond a partition's end is refused before (`controller.service.start`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafka import KafkaConsumer, TopicPartition

from controller.bus.security import client_options
from controller.service.records import Offsets

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


def starting_offsets(reach: Reaches, applied: Offsets, from_end: str) -> dict[str, dict[str, int]]:
    """Where each partition is read from: the journaled offset, or the oldest record that Kafka still has.

    `from_end` names the heartbeats: only those to come say anything about who lives now. Spark wants every partition.
    An offset beyond a partition's end is refused before (`controller.service.start`).
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
