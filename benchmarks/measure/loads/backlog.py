"""Fills a topic with the reports of a fleet of any size: a few templates, with each broker's own name in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from kafka import KafkaProducer

from benchmarks.measure.loads.fleet import serialize, stamp
from benchmarks.measure.loads.sent_reports import INTERVAL_MS, MIB, PANE_MS, Sent, report
from controller.domain.load import BUNDLE_FIELDS, COUNTS, RATES

TEMPLATES = 4
NAME = "b00000"  # of the broker in a template; as long as every other name


@dataclass(frozen=True, slots=True)
class Backlog:
    """`rounds` reports of each broker, of `listed` bundles; `tail`: more of them, as one row."""

    brokers: int
    listed: int
    tail: int
    rounds: int

    @property
    def rows_a_report(self) -> int:
        """Statistics in a report."""
        return self.listed + (self.tail > 0)


class Template(NamedTuple):
    """A serialized report of `NAME`, and its totals."""

    body: bytes
    totals: dict[str, float]


def templates(backlog: Backlog) -> list[Template]:
    """Different ones, always the same."""
    dice = np.random.default_rng(2)
    return [_template(backlog, dice) for _ in range(TEMPLATES)]


def _template(backlog: Backlog, dice: np.random.Generator) -> Template:
    document = report(f"{NAME}:8080", backlog.listed, dice)
    if backlog.tail:
        rates = {name: round(float(dice.uniform(0, 1000)), 3) for name in RATES}
        counts = {name: int(dice.integers(0, 1000)) for name in COUNTS}
        document["tail"] = {**rates, **counts, "bundles": backlog.tail}
        for name in BUNDLE_FIELDS:
            document["totals"][name] += document["tail"][name]
        document["totals"]["bundles"] += backlog.tail
    return Template(serialize(document), {name: document["totals"][name] for name in BUNDLE_FIELDS})


def fill_backlog(bootstrap: str, topic: str, backlog: Backlog, start_ms: int, partitions: int) -> Sent:
    """Send all reports in the order of their event times. Each partition gets as many brokers: how a hash spreads
    a few names is luck, and says nothing of those who read them."""
    made, sent = templates(backlog), Sent()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks=1, max_request_size=8 * MIB, batch_size=MIB)
    for number in range(backlog.rounds):
        for broker in range(backlog.brokers):
            at_ms = start_ms + number * INTERVAL_MS + broker * INTERVAL_MS // backlog.brokers
            body, totals = made[(number + broker) % TEMPLATES]
            name = f"b{broker:05}"
            value = stamp(body.replace(NAME.encode(), name.encode()), number + 1, at_ms)
            key, partition = f"{name}:8080".encode(), broker % partitions
            producer.send(topic, key=key, value=value, partition=partition, timestamp_ms=at_ms)
            sent.reports += 1
            sent.size_bytes += len(value)
            for field in BUNDLE_FIELDS:
                sent.sums[field] = sent.sums.get(field, 0.0) + totals[field]
            if broker % 100 == 99:
                producer.flush()  # the client's own queue has no limit
        producer.flush()
        sent.newest_end_ms = (at_ms // PANE_MS + 1) * PANE_MS
    producer.close()
    return sent
