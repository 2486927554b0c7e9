"""Parses `broker-stats/topics`: namespace -> range -> persistent or not -> topic -> statistics.

The answer can have hundreds of megabytes, so it is parsed topic by topic and only sums by bundle are kept: no name of a
topic and no address of a client leaves this file. Plain values in and out, as it runs in a worker process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from controller.brokers.pulsar.numbers import amount
from controller.domain.balanced_boundary import find_balanced_boundary
from controller.domain.errors import BadRecord
from controller.domain.ids import Bundle, topic_hash

_BLANK = re.compile(r"[ \t\r\n]*")
_PARTITION = re.compile(r"-partition-\d+$")
RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
SUMS = (
    *RATES,
    "topics",
    "partitions",
    "producerCount",
    "consumerCount",
    "unackedMessages",
    "backlogSize",
    "storageSize",
)
Stats = dict[str, float | int]


class NotTopicStats(ValueError):
    """The text is not what `broker-stats/topics` answers, or only a part of it."""


def parse_file(path: str) -> dict[str, Stats]:
    """Bundle -> sums of its topics, from a spooled answer. Raises NotTopicStats."""
    return parse_text(Path(path).read_bytes().decode("utf-8", "replace"))


def parse_text(text: str) -> dict[str, Stats]:
    """Bundle -> sums of its topics: `SUMS`, `nonPersistentTopics`, and `splitBoundary` where one parts the load."""
    sums: dict[str, Stats] = {}
    loads: dict[str, dict[int, float]] = {}
    for namespace, range_, kind, topic, stats in _walk(text):
        name = f"{namespace}/{range_}"
        found = sums.setdefault(name, dict.fromkeys((*SUMS, "nonPersistentTopics"), 0))
        if not isinstance(stats, dict):
            raise NotTopicStats("a topic without statistics")
        _add(found, topic, kind, stats)
        by_hash = loads.setdefault(name, {})
        hash_ = topic_hash(topic)
        by_hash[hash_] = by_hash.get(hash_, 0.0) + amount(stats.get("msgRateIn")) + amount(stats.get("msgRateOut"))
    for name, by_hash in loads.items():
        boundary = _boundary(name, by_hash)
        if boundary is not None:
            sums[name]["splitBoundary"] = boundary
    return sums


def _add(sums: Stats, topic: str, kind: str, stats: Mapping[str, Any]) -> None:
    for rate in RATES:
        sums[rate] += amount(stats.get(rate))
    sums["topics"] += 1
    sums["partitions"] += _PARTITION.search(topic) is not None
    sums["nonPersistentTopics"] += kind == "non-persistent"
    sums["producerCount"] += _count(stats.get("publishers"), stats.get("producerCount"))
    sums["backlogSize"] += amount(stats.get("backlogSize"))
    sums["storageSize"] += amount(stats.get("storageSize"))
    subscriptions = stats.get("subscriptions")
    for subscription in subscriptions.values() if isinstance(subscriptions, dict) else ():
        if isinstance(subscription, dict):
            sums["consumerCount"] += _count(subscription.get("consumers"), None)
            sums["unackedMessages"] += amount(subscription.get("unackedMessages"))


def _count(listed: Any, counted: Any) -> int:
    return len(listed) if isinstance(listed, list) else int(amount(counted))


def _boundary(name: str, by_hash: Mapping[int, float]) -> int | None:
    try:
        bundle = Bundle.parse(name)
    except BadRecord:
        return None
    inside = {hash_: load for hash_, load in by_hash.items() if bundle.contains(hash_)}
    if not any(inside.values()):
        inside = dict.fromkeys(inside, 1.0)
    return find_balanced_boundary(bundle, inside)


def _walk(text: str) -> Iterator[tuple[str, str, str, str, Any]]:
    cursor = _Cursor(text)
    for namespace in cursor.members():
        for range_ in cursor.members():
            for kind in cursor.members():
                for topic in cursor.members():
                    yield namespace, range_, kind, topic, cursor.value()
    cursor.end()


class _Cursor:
    """A position in a JSON text."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._decode = json.JSONDecoder().raw_decode

    def members(self) -> Iterator[str]:
        """The names of an object; whoever takes one has to read its value before the next."""
        self._expect("{")
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            name = self.value()
            if not isinstance(name, str):
                raise NotTopicStats(f"no name at character {self._at}")
            self._expect(":")
            yield name
            if self._peek() != ",":
                self._expect("}")
                return
            self._at += 1

    def value(self) -> Any:
        """The value here, whole."""
        self._peek()
        try:
            found, self._at = self._decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            raise NotTopicStats(f"no value at character {self._at}: {str(error)[:80]}") from None
        return found

    def end(self) -> None:
        """Raise NotTopicStats unless the text ends here."""
        if self._peek():
            raise NotTopicStats(f"more text at character {self._at}")

    def _peek(self) -> str:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._text[self._at : self._at + 1]

    def _expect(self, char: str) -> None:
        if self._peek() != char:
            raise NotTopicStats(f"no {char!r} at character {self._at} of {len(self._text)}")
        self._at += 1
