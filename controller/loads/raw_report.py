"""A record of `load-reports` as a task gets it, before anything is known about its contents."""

from __future__ import annotations


class RawReport:
    """One Kafka record. `size` is its full size in bytes; `value` is only its head when it is too large."""

    __slots__ = ("event_ms", "key", "offset", "partition", "size", "topic", "value")

    def __init__(
        self, key: bytes | None, value: bytes | None, size: int, topic: str, partition: int, offset: int, event_ms: int
    ) -> None:
        self.key, self.value, self.size = key, value, size
        self.topic, self.partition, self.offset, self.event_ms = topic, partition, offset, event_ms
