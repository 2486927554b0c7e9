"""What the clients of a run saw, according to their logs: lost, repeated and reordered messages, and gaps.

lost: acknowledged to the producer, and never delivered. Messages that were neither acknowledged nor delivered are
`unconfirmed`: the producer was not told that they are safe.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from controller.brokers.reference.store.cursor import Cursor
from controller.testbed.pulsar.spec import PulsarFailed

MOST_TEXTS = 10


@dataclass(frozen=True)
class Gap:
    """A wait of one topic beyond its sending interval; `at_ms`: when it ended, by the wall clock."""

    topic: str
    ms: int
    at_ms: int


@dataclass
class ClientCounts:
    """Messages as clients saw them, over all topics."""

    sent: int = 0
    acknowledged: int = 0
    received: int = 0
    lost: int = 0
    unconfirmed: int = 0
    duplicated: int = 0
    redelivered: int = 0
    reordered: int = 0

    @property
    def clean(self) -> bool:
        """Nothing was lost, and first deliveries were in order. Repetitions are normal without deduplication."""
        return not (self.lost or self.reordered)


@dataclass
class TrafficReport(ClientCounts):
    """The counts, and gaps as the longest of every quarter of a second and topic."""

    publish_gaps: list[Gap] = field(default_factory=list)
    consume_gaps: list[Gap] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The figures as one JSON document: of the gaps their quantiles."""
        counts = {name: value for name, value in asdict(self).items() if isinstance(value, int)}
        return {
            **counts,
            "publish_gap_ms": quantiles([gap.ms for gap in self.publish_gaps]),
            "consume_gap_ms": quantiles([gap.ms for gap in self.consume_gaps]),
            "first_findings": self.texts,
        }


def read_report(producers: Iterable[Path], consumers: Iterable[Path]) -> TrafficReport:
    """The report over the logs of both sides. Raises PulsarFailed for a client that was cut short: it has no totals."""
    report = TrafficReport()
    sent, seen = dict[str, Cursor](), dict[str, Cursor]()
    for file in producers:
        for topic, totals in _totals(file, report.publish_gaps):
            report.sent += totals["sent"]
            report.unconfirmed += totals["sent"] - _add(sent, topic, totals["acked"])
    for file in consumers:
        for topic, totals in _totals(file, report.consume_gaps):
            _add(seen, topic, totals["seen"])
            report.received += totals["received"]
            report.redelivered += totals["redelivered"]
            report.duplicated += totals["duplicated"]
            report.reordered += totals["reordered"]
            _say(report, topic, totals["duplicated"], "stored twice")
            _say(report, topic, totals["reordered"], "delivered out of order")
    for topic, acked in sent.items():
        report.acknowledged += acked.size
        _say(report, topic, _count_lost(acked, seen.get(topic, Cursor()), report), "lost")
    return report


def gaps_between(gaps: Iterable[Gap], topics: Iterable[str], since_ms: int, until_ms: int) -> int:
    """The longest gap of these topics that ended in the interval, or 0: what one move cost their clients."""
    wanted = set(topics)
    return max((gap.ms for gap in gaps if gap.topic in wanted and since_ms <= gap.at_ms <= until_ms), default=0)


def quantiles(values: Sequence[int]) -> dict[str, int]:
    """p50, p99 and max, or nothing of nothing."""
    ordered = sorted(values)
    if not ordered:
        return {}
    at = {name: ordered[max(0, math.ceil(share * len(ordered)) - 1)] for name, share in (("p50", 0.5), ("p99", 0.99))}
    return {**at, "max": ordered[-1]}


def _totals(file: Path, gaps: list[Gap]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The totals of a client's topics, once its gaps are collected."""
    ended = False
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["t"] == "topic" and entry["gap_ms"] > 0:
                gaps.append(Gap(entry["topic"], entry["gap_ms"], entry["gap_at_ms"]))
            elif entry["t"] == "end":
                ended = True
                yield from entry["topics"].items()
    if not ended:
        raise PulsarFailed(f"{file} has no totals: the client was killed, or has not ended yet")


def _add(cursors: dict[str, Cursor], topic: str, ranges: list[list[int]]) -> int:
    """Add ranges to a topic's cursor; returns how many sequences they hold."""
    cursor = cursors.setdefault(topic, Cursor())
    for low, high in ranges:
        cursor.add(low, high)
    return sum(high - low for low, high in ranges)


def _count_lost(acked: Cursor, seen: Cursor, report: TrafficReport) -> int:
    """How many acknowledged sequences were never seen; adds them to the report."""
    lost = 0
    for low, high in [(0, acked.mark), *acked.ranges]:
        at = low
        while (at := seen.next_open(at)) < high:
            until = min([high, *(other for other, _ in seen.ranges if other > at)])
            lost += until - at
            at = until
    report.lost += lost
    return lost


def _say(report: TrafficReport, topic: str, count: int, what: str) -> None:
    if count and len(report.texts) < MOST_TEXTS:
        report.texts.append(f"{topic}: {count} {what}")
