"""Divides the latency of an event, from sending to application, into eight steps that add up. Pure.

All moments are in milliseconds of one machine's wall clock. If a moment appears to lie before its predecessor (Kafka
truncates to whole milliseconds), it counts as equal to it. So no step is negative, and the steps of an event add up to
its latency exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from benchmarks.measure.figures import percentile

# In order; a step is what happens between two moments of an event.
STEPS = {
    "produce": "the client's send until Kafka has appended the record",
    "kafka": "waiting in Kafka for the batch in hand to end and the next one to begin",
    "source": "Spark: offsets, write-ahead log, planning, the way to Python",
    "collect": "Spark reads the batch's rows and hands them over",
    "step": "parsing, the control step, evidence",
    "commit": "the journal's commit",
    "feed": "the entry's way over Kafka to the agent",
    "apply": "the agent applies it",
}


@dataclass(slots=True)
class Batch:
    """Moments of one micro-batch, ms."""

    triggered: float = 0.0
    collecting: float = 0.0
    collected: float = 0.0
    committing: float = 0.0
    committed: float = 0.0


@dataclass(slots=True)
class Event:
    """Moments of one event, ms, and the batch that read it."""

    sent: float | None = None
    appended: float | None = None
    batch: int | None = None
    heard: float | None = None
    applied: float | None = None


@dataclass(slots=True)
class Chains:
    """Events by command id, batches by number; filled during the run, read afterwards."""

    events: dict[str, Event] = field(default_factory=dict)
    batches: dict[int, Batch] = field(default_factory=dict)

    def event(self, identity: str) -> Event:
        """The event of that id, created on first use: several threads set its moments."""
        return self.events.setdefault(identity, Event())

    def steps(self) -> list[dict[str, float]]:
        """The milliseconds of every complete event, by step."""
        found = []
        for event in self.events.values():
            batch = None if event.batch is None else self.batches.get(event.batch)
            if batch is None or not batch.triggered or None in (event.sent, event.appended, event.heard, event.applied):
                continue
            moments = (
                event.sent,
                event.appended,
                batch.triggered,
                batch.collecting,
                batch.collected,
                batch.committing,
                batch.committed,
                event.heard,
                event.applied,
            )
            in_order = list(accumulate((float(m or 0.0) for m in moments), max))
            gaps = [after - before for before, after in pairwise(in_order)]
            found.append(dict(zip(STEPS, gaps, strict=True)))
        return found


def profile(steps: Sequence[Mapping[str, float]], slowest_percent: float = 5.0) -> dict[str, dict[str, float]]:
    """Step -> mean, p50, p90, p99 and the mean among the slowest events, ms; `total` is the events' latency.

    Only means add up; so both means are given, of all and of the slowest.
    """
    if not steps:
        return {}
    rows = [{**event, "total": sum(event.values())} for event in steps]
    rows.sort(key=lambda row: row["total"])
    slowest = rows[-max(1, round(len(rows) * slowest_percent / 100)) :]
    found = {}
    for name in (*STEPS, "total"):
        values = [row[name] for row in rows]
        found[name] = {
            "mean": round(sum(values) / len(values), 1),
            "p50": round(percentile(values, 50), 1),
            "p90": round(percentile(values, 90), 1),
            "p99": round(percentile(values, 99), 1),
            "mean_of_slowest": round(sum(row[name] for row in slowest) / len(slowest), 1),
        }
    return found
