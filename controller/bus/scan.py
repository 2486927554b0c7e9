"""Reads a single-partition topic once, without a consumer group: up to its end, or its newest record alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import TopicPartition

from controller.bus.cluster import NO_SETTINGS, check_visible, open_consumer
from controller.bus.consumer import POLL_MS, KafkaRecord
from controller.bus.failures import READ, TopicUnreadable, telling_refusals
from controller.bus.topics import MAX_RECORD_BYTES


def scan(
    bootstrap: str,
    topic: str,
    on_record: Callable[[int, bytes | None], None],
    client: Mapping[str, object] = NO_SETTINGS,
    *,
    back_ms: int | None = None,
    timeout_ms: int = 30_000,
) -> int:
    """Pass (offset, value) of every record up to the current end to `on_record`; returns that end.

    `back_ms`: start this long before the newest record instead of at the oldest. `timeout_ms`: the longest wait without
    any record. Raises KafkaUnavailable, TopicUnreadable, of which NoRight is one.
    """
    with _open(bootstrap, "ballast-scan", topic, client, timeout_ms) as consumer:
        return _scan(consumer, TopicPartition(topic, 0), on_record, back_ms, timeout_ms)


def read_newest(
    bootstrap: str, topic: str, client: Mapping[str, object] = NO_SETTINGS, *, timeout_ms: int
) -> KafkaRecord | None:
    """The topic's last record; None when the topic is missing or empty. Raises KafkaUnavailable, NoRight."""
    partition = TopicPartition(topic, 0)
    with _open(bootstrap, "ballast-newest", topic, client, timeout_ms) as consumer:
        if not consumer.partitions_for_topic(topic):
            check_visible(bootstrap, topic, client, timeout_ms)
            return None
        consumer.assign([partition])
        return _newest(consumer, partition, int(consumer.end_offsets([partition])[partition]), timeout_ms)


@contextmanager
def _open(bootstrap: str, name: str, topic: str, client: Mapping[str, object], timeout_ms: int) -> Iterator[Any]:
    consumer = open_consumer(bootstrap, name, client, timeout_ms, max_partition_fetch_bytes=MAX_RECORD_BYTES)
    try:
        with telling_refusals(client, READ, topic):
            yield consumer
    finally:
        consumer.close()


def _scan(
    consumer: Any,
    partition: TopicPartition,
    on_record: Callable[[int, bytes | None], None],
    back_ms: int | None,
    timeout_ms: int,
) -> int:
    consumer.assign([partition])
    end = int(consumer.end_offsets([partition])[partition])
    consumer.seek_to_beginning(partition)
    if back_ms is not None and consumer.position(partition) < end:
        newest = _newest(consumer, partition, end, timeout_ms)
        found = consumer.offsets_for_times({partition: newest.timestamp_ms - back_ms})[partition] if newest else None
        consumer.seek_to_beginning(partition) if found is None else consumer.seek(partition, found.offset)
    waited_from = time.monotonic()
    while consumer.position(partition) < end:
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            waited_from = time.monotonic()
            for record in records:
                on_record(record.offset, record.value)
        if time.monotonic() - waited_from > timeout_ms / 1000:
            raise TopicUnreadable(f"topic {partition.topic} could not be read to its end within {timeout_ms} ms")
    return max(end, int(consumer.position(partition)))


def _newest(consumer: Any, partition: TopicPartition, end: int, timeout_ms: int) -> KafkaRecord | None:
    """The last record before `end`, if retention has left one."""
    if end <= consumer.beginning_offsets([partition])[partition]:
        return None
    consumer.seek(partition, end - 1)
    deadline = time.monotonic() + timeout_ms / 1000
    while time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=POLL_MS).values():
            newest = records[-1]
            return KafkaRecord(newest.topic, newest.partition, newest.offset, newest.timestamp, newest.value)
        if consumer.position(partition) >= end:
            break
    return None
