"""The figures of the Pulsar demo: balance and moves from the journal, losses and gaps from the clients. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, topic_hash
from controller.domain.observed import OrderOutcome
from controller.testbed.demo.figures import RoundView
from controller.testbed.pulsar.ballast import outcomes_of_orders
from controller.testbed.pulsar.traffic.report import ClientCounts, TrafficReport, gaps_between, quantiles

SETTLED_MS = 5_000  # after the end of an order, within which the last of its clients is back


@dataclass
class PulsarDemoFigures(ClientCounts):
    """The last line of `ballast pulsar demo --json`. Spread: the highest load of a broker over the mean."""

    round_interval_s: int = 0
    rounds: int = 0
    took_s: float | None = None
    skew_to_first_move_s: float | None = None  # from the later of skew and mode live
    skew_to_relief_s: float | None = None  # from the same
    spread_before: float | None = None  # the worst round of the first skew
    spread_after: float | None = None  # the last round before the clients stopped
    orders: dict[str, int] = field(default_factory=dict)  # by outcome
    order_took_ms: dict[str, int] = field(default_factory=dict)
    move_gap_ms: dict[str, int] = field(default_factory=dict)  # of publishers to the moved bundles
    kill_gap_ms: int | None = None  # of publishers, the longest
    not_seen: list[str] = field(default_factory=list)  # effects that did not come in time

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    def take_orders(self, entries: Sequence[Entry]) -> None:
        """Take over what became of the orders."""
        self.orders = outcomes_of_orders(entries)
        ended = [e for e in entries if e.kind is Kind.ORDER_ENDED and e.data.get("took_ms") is not None]
        self.order_took_ms = quantiles([int(entry.data["took_ms"]) for entry in ended])

    def take_clients(self, report: TrafficReport, topics: Sequence[str], moves: Sequence[Move]) -> None:
        """Take over what the clients saw."""
        for count in fields(ClientCounts):
            setattr(self, count.name, getattr(report, count.name))
        gaps = [
            gaps_between(
                report.publish_gaps, [t for t in topics if t in move], move.since_ms, move.ended_ms + SETTLED_MS
            )
            for move in moves
        ]
        self.move_gap_ms = quantiles(gaps)


@dataclass(frozen=True)
class Move:
    """A move that was ordered and arrived."""

    bundle: Bundle
    since_ms: int
    ended_ms: int

    def __contains__(self, topic: str) -> bool:
        return topic.startswith(f"persistent://{self.bundle.namespace}/") and self.bundle.contains(topic_hash(topic))


def moves_of(entries: Sequence[Entry]) -> list[Move]:
    """The moves that arrived, oldest first."""
    begun = {str(entry.data["id"]): entry for entry in entries if entry.kind is Kind.ORDER}
    return [
        Move(Bundle.parse(str(entry.bundle)), begun[order].at_ms, entry.at_ms)
        for entry in entries
        if entry.kind is Kind.ORDER_ENDED
        and entry.data["outcome"] == OrderOutcome.MOVED.value
        and (order := str(entry.data["id"])) in begun
    ]


def spread_of(view: RoundView) -> float | None:
    """The highest load over the mean; None without load."""
    return max(view.scores.values()) / view.mean if view.scores and view.mean > 0 else None
