"""Sums of `broker-stats/topics` by bundle: rates, backlog, clients, and where a bundle's load parts.

The answer can have hundreds of megabytes, and a large cluster tells of two million topics a minute: `topic_rows`
decodes the few fields that count, and they are added up column by column. Plain values in and out, as it runs in a
worker process; no name of a topic leaves it.
"""

from __future__ import annotations

import gc
import mmap
from collections.abc import Mapping
from itertools import chain
from operator import add
from pathlib import Path

from controller.brokers.pulsar.numbers import LARGEST
from controller.brokers.pulsar.topic_rows import NotTopicStats, Topic, decode
from controller.domain.balanced_boundary import find_balanced_boundary
from controller.domain.errors import BadRecord
from controller.domain.ids import Bundle, topic_hash

RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
Stats = dict[str, float | int]


def parse_file(path: str) -> dict[str, Stats]:
    """Bundle -> sums of its topics, from a spooled answer. Raises NotTopicStats."""
    gc.disable()  # rows refer to nothing that refers back; looking for cycles among them takes an eighth of the time
    try:
        with Path(path).open("rb") as file:
            if file.seek(0, 2) == 0:
                raise NotTopicStats("an empty answer")
            return parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))  # freed with the last row
    finally:
        gc.enable()


def parse(text: bytes | mmap.mmap) -> dict[str, Stats]:
    """Bundle -> sums of its topics, and `splitBoundary` where one parts the load. Raises NotTopicStats."""
    return {
        f"{namespace}/{range_}": _sum_up(f"{namespace}/{range_}", kinds)
        for namespace, ranges in decode(text).items()
        for range_, kinds in ranges.items()
        if any(kinds.values())
    }


def _sum_up(bundle: str, kinds: Mapping[str, Mapping[str, Topic]]) -> Stats:
    """Column by column: a call for each value of each topic would cost more than to decode it."""
    names = list(chain.from_iterable(kinds.values()))
    rows = list(chain.from_iterable(topics.values() for topics in kinds.values()))
    subscriptions = [each for t in rows for each in t.subscriptions.values()]
    producers = [t.producers if t.producerCount is None else t.producerCount for t in rows]
    rates_in, rates_out = _clean([t.msgRateIn for t in rows]), _clean([t.msgRateOut for t in rows])
    sums: Stats = {
        "msgRateIn": sum(rates_in),
        "msgThroughputIn": sum(_clean([t.msgThroughputIn for t in rows])),
        "msgRateOut": sum(rates_out),
        "msgThroughputOut": sum(_clean([t.msgThroughputOut for t in rows])),
        "topics": len(rows),
        "partitions": [name.rpartition("-partition-")[2].isdecimal() for name in names].count(True),
        "producerCount": int(sum(_clean(producers))),
        "consumerCount": sum([len(each.consumers) for each in subscriptions]),
        "unackedMessages": sum(_clean([each.unackedMessages for each in subscriptions])),
        "backlogSize": sum(_clean([t.backlogSize for t in rows])),
        "storageSize": sum(_clean([t.storageSize for t in rows])),
        "nonPersistentTopics": len(kinds.get("non-persistent", ())),
    }
    boundary = _find_boundary(bundle, names, list(map(add, rates_in, rates_out)))
    return sums if boundary is None else {**sums, "splitBoundary": boundary}


def _clean(values: list[float]) -> list[float]:
    """The values, those that are negative or absurdly large as 0; JSON has neither NaN nor infinity."""
    if not values or (min(values) >= 0 and max(values) <= LARGEST):
        return values
    return [value if 0 <= value <= LARGEST else 0.0 for value in values]


def _find_boundary(name: str, topics: list[str], rates: list[float]) -> int | None:
    try:
        bundle = Bundle.parse(name)
    except BadRecord:
        return None
    hashes = [topic_hash(topic) for topic in topics]
    loads = dict(zip(hashes, rates, strict=True))
    if len(loads) < len(hashes):  # two topics with one hash
        loads = dict.fromkeys(hashes, 0.0)
        for hash_, rate in zip(hashes, rates, strict=True):
            loads[hash_] += rate
    if not (bundle.contains(min(loads)) and bundle.contains(max(loads))):
        loads = {hash_: load for hash_, load in loads.items() if bundle.contains(hash_)}
    if not any(loads.values()):
        loads = dict.fromkeys(loads, 1.0)
    return find_balanced_boundary(bundle, loads)
