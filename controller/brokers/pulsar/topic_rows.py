"""Decodes `broker-stats/topics`: namespace -> range -> persistent or not -> topic -> the fields that are read.

msgspec steps over everything else without making objects of it, at half the speed of stepping over all. It insists on
types; where Pulsar tells a value of another type, topics are decoded one by one, and the value counts as not told.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any

import msgspec

from controller.brokers.pulsar.numbers import amount

_NUMBERS = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut", "backlogSize", "storageSize")
_NOT_TOLD = msgspec.Raw(b"null")


class NotTopicStats(ValueError):
    """The text is not what `broker-stats/topics` answers, or only a part of it."""


class Client(msgspec.Struct, gc=False):
    """A consumer, which is only counted."""


class Subscription(msgspec.Struct, gc=False):
    """Of a topic."""

    consumers: list[Client] = []
    unackedMessages: float = 0.0


class Topic(msgspec.Struct, gc=False):
    """What is read of a topic's statistics, by Pulsar's names."""

    msgRateIn: float = 0.0
    msgThroughputIn: float = 0.0
    msgRateOut: float = 0.0
    msgThroughputOut: float = 0.0
    backlogSize: float = 0.0
    storageSize: float = 0.0
    producerCount: float | None = None
    publishers: msgspec.Raw = _NOT_TOLD
    subscriptions: dict[str, Subscription] = {}

    @property
    def producers(self) -> float:
        """As many as Pulsar counts; it may list none of them (exposePublisherStats)."""
        if self.producerCount is not None:
            return self.producerCount
        listed = msgspec.json.decode(self.publishers)
        return len(listed) if isinstance(listed, list) else 0


Topics = dict[str, Topic]
_TYPED = msgspec.json.Decoder(dict[str, dict[str, dict[str, Topics]]])
_RAW = msgspec.json.Decoder(dict[str, dict[str, dict[str, dict[str, msgspec.Raw]]]])


def decode(text: bytes | mmap.mmap) -> dict[str, dict[str, dict[str, Topics]]]:
    """Every topic in an answer. Raises NotTopicStats."""
    try:
        try:
            return _TYPED.decode(text)
        except msgspec.ValidationError:
            return {namespace: _decode_ranges(ranges) for namespace, ranges in _RAW.decode(text).items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotTopicStats(f"{str(error)[:200]} in {len(text)} bytes") from None


def _decode_ranges(ranges: Mapping[str, Mapping[str, Mapping[str, msgspec.Raw]]]) -> dict[str, dict[str, Topics]]:
    return {
        range_: {kind: {name: _decode_odd(raw) for name, raw in topics.items()} for kind, topics in kinds.items()}
        for range_, kinds in ranges.items()
    }


def _decode_odd(raw: msgspec.Raw) -> Topic:
    """A topic whatever the types of its values."""
    stats = msgspec.json.decode(raw, type=dict[str, Any])
    subscriptions = {
        name: Subscription([Client()] * len(_list_in(row, "consumers")), amount(row.get("unackedMessages")))
        for name, row in _mapping_in(stats, "subscriptions").items()
        if isinstance(row, dict)
    }
    counted = stats.get("producerCount")
    producers = amount(counted) if type(counted) in (int, float) else float(len(_list_in(stats, "publishers")))
    topic = Topic(producerCount=producers, subscriptions=subscriptions)
    for name in _NUMBERS:
        setattr(topic, name, amount(stats.get(name)))
    return topic


def _list_in(row: Mapping[str, Any], name: str) -> list[Any]:
    found = row.get(name)
    return found if isinstance(found, list) else []


def _mapping_in(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = row.get(name)
    return found if isinstance(found, dict) else {}
