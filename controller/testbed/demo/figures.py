"""The figures of a demo, from the journal and the checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from controller.domain.entries import Entry, Kind
from controller.testbed.checker.checker import CheckReport

UNEVEN = 1.5  # times the difference that makes a source: a smaller spread is no skew
CLEARLY_LESS = 0.75


@dataclass(frozen=True, slots=True)
class RoundView:
    """One round from the journal: when it was committed, and the scores (0..1) of living brokers."""

    journaled_ms: int
    at_ms: int
    scores: dict[str, float]

    @property
    def mean(self) -> float:
        """Mean score."""
        return sum(self.scores.values()) / len(self.scores) if self.scores else 0.0

    @property
    def spread(self) -> float:
        """Highest minus lowest score."""
        return max(self.scores.values()) - min(self.scores.values()) if self.scores else 0.0

    def relieved(self, overloaded: float, difference: float) -> bool:
        """Whether every broker is below both limits that make a source."""
        return all(s < overloaded and s < self.mean + difference for s in self.scores.values())


@dataclass(slots=True)
class DemoFigures:
    """The last line of `ballast demo --json`. Scores are fractions; `None` stands for what was not observed."""

    messages_written: int = 0
    messages_read: int = 0
    messages_lost: int = 0
    messages_duplicated: int = 0
    messages_reordered: int = 0
    redelivered: int = 0
    transfers: int = 0
    splits: int = 0
    handovers_measured: int = 0  # changes of owner by transfer that producers saw, one per topic
    handover_gap_p50_ms: float | None = None  # acknowledgement to acknowledgement, the sending interval included
    handover_gap_p99_ms: float | None = None
    handover_beyond_interval_p50_ms: float | None = None  # the same, less the producer's own sending interval
    handover_beyond_interval_max_ms: float | None = None
    sending_interval_p50_ms: float | None = None  # of the producers whose hand-overs were measured
    failover_s: float | None = None
    failover_gap_max_ms: float | None = None
    skew_to_relief_s: float | None = None
    skew_spread_before: float | None = None  # of the first skew: at its worst, and in the round that found it relieved
    skew_spread_after: float | None = None
    spread_before: float | None = None  # of the whole run: between two brokers at the worst, and in the last round
    spread_after: float | None = None
    scores_after: dict[str, float] = field(default_factory=dict)  # of the last round before the clients stopped
    calm: bool = False  # by the balancer's own word, after the last event
    calm_after_s: float | None = None  # from that event
    not_calm: list[str] = field(default_factory=list)  # why
    rounds: int = 0
    tables: str = ""
    pictures: list[str] = field(default_factory=list)  # of the page, at the end of a headless run
    first_transfer_s: float | None = None
    invariants: str = "ok"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    def take_check(self, report: CheckReport) -> None:
        """Take over the report of the checker."""
        self.messages_written = report.messages_written
        self.messages_read = report.messages_read
        self.messages_lost = report.messages_lost
        self.messages_duplicated = report.messages_duplicated
        self.messages_reordered = report.messages_reordered
        self.redelivered = report.redelivered
        self.handovers_measured = report.handovers
        self.handover_gap_p50_ms = report.handover_gap_p50_ms
        self.handover_gap_p99_ms = report.handover_gap_p99_ms
        self.handover_beyond_interval_p50_ms = report.handover_beyond_interval_p50_ms
        self.handover_beyond_interval_max_ms = report.handover_beyond_interval_max_ms
        self.sending_interval_p50_ms = report.sending_interval_p50_ms
        self.failover_gap_max_ms = report.failover_gap_max_ms
        if not report.ok:
            self.invariants = "; ".join(report.findings[:5]) or "the check failed"

    def take_balance(self, rounds: Sequence[RoundView]) -> None:
        """Take over how uneven the run was at its worst and at its end."""
        judged = [view for view in rounds if view.scores]
        if judged:
            self.spread_before = round(max(view.spread for view in judged), 3)
            self.spread_after = round(judged[-1].spread, 3)
            self.scores_after = {broker: round(score, 3) for broker, score in sorted(judged[-1].scores.items())}

    @property
    def failed(self) -> bool:
        """Whether anything was lost, stored twice, reordered, or an invariant broke."""
        broken = self.messages_lost or self.messages_duplicated or self.messages_reordered
        return bool(broken) or self.invariants != "ok"


def find_relief(
    rounds: Sequence[RoundView], overloaded: float, difference: float
) -> tuple[RoundView, RoundView] | None:
    """The round with the largest spread, and the first later one that is within both limits and clearly more even.

    None if there is no such pair. A balancer that acts while load still rises may keep every broker within the limits
    all the time; that is relief, too.
    """
    peak = max(range(len(rounds)), key=lambda at: rounds[at].spread, default=None)
    if peak is None or rounds[peak].spread <= UNEVEN * difference:
        return None
    most = CLEARLY_LESS * rounds[peak].spread
    ends = (r for r in rounds[peak + 1 :] if r.relieved(overloaded, difference) and r.spread <= most)
    end = next(ends, None)
    return None if end is None else (rounds[peak], end)


def rounds_of(entries: Sequence[Entry]) -> list[RoundView]:
    """Every round of the strategy in charge, oldest first, without the scores of brokers that were gone by then."""
    gone: set[str] = set()
    sessions: dict[str, str | None] = {}
    views = []
    for entry in entries:
        if entry.kind is Kind.REGISTERED and entry.broker:
            sessions[entry.broker] = entry.session
            gone.discard(entry.broker)
        elif entry.kind is Kind.SESSION_ENDED and entry.broker:
            if sessions.get(entry.broker, entry.session) == entry.session:
                gone.add(entry.broker)
        elif entry.kind is Kind.ROUND and not entry.data.get("challenger"):
            scores = entry.data.get("memory", {}).get("scores", {})
            living = {broker: score for broker, score in scores.items() if broker not in gone}
            views.append(RoundView(entry.at_ms, int(entry.data["at_ms"]), living))
    return views


def transfers_of(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that complete a transfer: the target owns the bundle at the transfer's epoch."""
    wanted: dict[tuple[str | None, int | None], str | None] = {}
    done = []
    for entry in entries:
        if entry.kind is not Kind.OWNERSHIP:
            continue
        key = (entry.bundle, entry.epoch)
        if entry.state == "transferring":
            wanted[key] = entry.to
        elif entry.state == "owned" and wanted.pop(key, None) == entry.by:
            done.append(entry)
    return done


def splits_of(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of completed splits."""
    return [e for e in entries if e.kind is Kind.SPLIT]
