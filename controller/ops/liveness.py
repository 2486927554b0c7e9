"""Is a controller alive? It repeats its newest seq on the journal feed every second; the last record there tells.

The journal alone cannot: a controller that was killed says nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from controller.bus.cluster import KafkaUnavailable
from controller.bus.security import client_options
from controller.bus.topics import MAX_RECORD_BYTES, TopicNames

SILENT_AFTER_MS = 5_000


@dataclass(frozen=True, slots=True)
class Heard:
    """The newest word of a controller: who, how long ago by Kafka's clock against ours, and of which journal (None: an
    older version does not say)."""

    instance: str
    at_ms: int
    journal_id: str | None = None


def last_word(bootstrap: str, client: Mapping[str, Any], names: TopicNames, timeout_ms: int = 3_000) -> Heard | None:
    """The feed's last record, None when the topic is missing or empty. Raises KafkaUnavailable."""
    opened = client_options(client)
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id="ballast-status",
            group_id=None,
            enable_auto_commit=False,
            bootstrap_timeout_ms=timeout_ms,
            max_partition_fetch_bytes=MAX_RECORD_BYTES,
            allow_auto_create_topics=False,
            **opened,
        )
    except Exception as error:
        raise KafkaUnavailable(f"no Kafka answers at {bootstrap} ({type(error).__name__})") from error
    try:
        return _last(consumer, TopicPartition(names.journal_feed, 0), timeout_ms)
    finally:
        consumer.close()


def _last(consumer: Any, partition: TopicPartition, timeout_ms: int) -> Heard | None:
    if not consumer.partitions_for_topic(partition.topic):
        return None
    end, beginning = consumer.end_offsets([partition])[partition], consumer.beginning_offsets([partition])[partition]
    if end <= beginning:
        return None
    consumer.assign([partition])
    consumer.seek(partition, end - 1)
    deadline = time.monotonic() + timeout_ms / 1000
    while time.monotonic() < deadline:
        records = consumer.poll(timeout_ms=200).get(partition)
        if records:
            newest = records[-1]
            said = json.loads(newest.value)
            return Heard(str(said.get("instance", "")), newest.timestamp, said.get("journal_id"))
    return None
