"""Reads client logs: what each client received, by topic and subscription. `client_log` defines the lines."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from controller.brokers.reference.store.cursor import Cursor
from controller.process.interrupts import check_interrupt


class Delivery(NamedTuple):
    """Neighbouring offsets delivered to one process, with the producer and first sequence it saw there."""

    low: int
    high: int
    producer: str
    sequence: int
    at_ms: int


class Confirmation(NamedTuple):
    """Acknowledgements of [low, high) that a broker confirmed."""

    low: int
    high: int
    at_ms: int


@dataclass(slots=True)
class Consumption:
    """What one process logged about one topic and subscription, in order."""

    ordered: bool
    events: list[Delivery | Confirmation] = field(default_factory=list)


@dataclass(slots=True)
class ClientRecords:
    """Everything in a set of client logs."""

    acked: dict[tuple[str, str], Cursor] = field(default_factory=dict)  # (topic, producer) -> sequences
    consumed: dict[tuple[str, str], list[Consumption]] = field(default_factory=dict)  # (topic, subscription)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)


def read_logs(paths: Iterable[Path]) -> ClientRecords:
    """Read client logs; an incomplete last line, left by a kill, is ignored."""
    found = ClientRecords()
    for path in sorted(paths):
        _read_one(path, found)
    return found


def count_unread(clients: ClientRecords) -> dict[tuple[str, str], int]:
    """Messages acknowledged to producers minus confirmed acknowledgements, if above 0, by (topic, subscription).

    Only valid for subscriptions that begin with the first message of their topic.
    """
    written: dict[str, int] = {}
    for (topic, _), sequences in clients.acked.items():
        written[topic] = written.get(topic, 0) + sequences.size
    left = {}
    for (topic, subscription), consumptions in clients.consumed.items():
        confirmed = Cursor()
        for event in (e for c in consumptions for e in c.events if isinstance(e, Confirmation)):
            confirmed.add(event.low, event.high)
        missing = written.get(topic, 0) - confirmed.size
        if missing > 0:
            left[topic, subscription] = missing
    return left


def wait_until_read(logs: Collection[Path], drain_s: float) -> None:
    """Wait until readers have received everything that was acknowledged to producers, `drain_s` at most."""
    deadline = time.monotonic() + drain_s
    while time.monotonic() < deadline and count_unread(read_logs(path for path in logs if path.exists())):
        check_interrupt()
        time.sleep(0.5)


def _read_one(path: Path, found: ClientRecords) -> None:
    topics: dict[int, dict[str, Any]] = {}
    consumptions: dict[int, Consumption] = {}
    producers: dict[int, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        kind = entry["t"]
        if kind == "topic":
            topics[entry["i"]] = entry
            if "subscription" in entry:
                consumption = consumptions[entry["i"]] = Consumption(entry["type"] != "shared")
                found.consumed.setdefault((entry["topic"], entry["subscription"]), []).append(consumption)
        elif kind == "producer":
            producers[entry["p"]] = entry["name"]
        elif kind == "acked":
            for number, first, last in entry["a"]:
                key = (topics[number]["topic"], topics[number]["name"])
                found.acked.setdefault(key, Cursor()).add(first, last + 1)
        elif kind in ("delivered", "again"):
            consumptions[entry["i"]].events += [
                Delivery(offset, offset + count, producers[p], sequence, entry["at_ms"])
                for offset, count, p, sequence in entry["r"]
            ]
        elif kind == "confirmed":
            consumptions[entry["i"]].events += [Confirmation(a, b, entry["at_ms"]) for a, b in entry["r"]]
        elif kind == "gap":
            found.gaps.append(entry)
        elif kind == "end":
            found.summaries.append(entry)
