"""The demo's figures, from the journal and the auditor. Pure, but for what is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from controller.demo.auditor import AuditReport
from controller.domain.entries import Entry, Kind


@dataclass(frozen=True, slots=True)
class RoundView:
    """One round as the journal tells it: when it was journaled, broker scores 0..1."""

    journaled_ms: int
    at_ms: int
    scores: dict[str, float]

    @property
    def mean(self) -> float:
        """Mean score."""
        return sum(self.scores.values()) / len(self.scores) if self.scores else 0.0

    @property
    def spread(self) -> float:
        """Largest minus smallest score."""
        return max(self.scores.values()) - min(self.scores.values()) if self.scores else 0.0

    def relieved(self, overloaded: float, difference: float) -> bool:
        """No broker is where a source would be: below both lines."""
        return all(s < overloaded and s < self.mean + difference for s in self.scores.values())


@dataclass(slots=True)
class DemoFigures:
    """The last line of `ballast demo --json`."""

    messages_written: int = 0
    messages_read: int = 0
    messages_lost: int = 0
    messages_duplicated: int = 0
    messages_reordered: int = 0
    redelivered: int = 0
    transfers: int = 0
    splits: int = 0
    handover_gap_p50_ms: float | None = None
    handover_gap_p99_ms: float | None = None
    failover_s: float | None = None
    skew_to_relief_s: float | None = None
    spread_before: float | None = None
    spread_after: float | None = None
    rounds: int = 0
    tables: str = ""
    first_transfer_s: float | None = None
    invariants: str = "ok"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    def take_audit(self, report: AuditReport) -> None:
        """What the auditor found."""
        self.messages_written = report.messages_written
        self.messages_read = report.messages_read
        self.messages_lost = report.messages_lost
        self.messages_duplicated = report.messages_duplicated
        self.messages_reordered = report.messages_reordered
        self.redelivered = report.redelivered
        self.handover_gap_p50_ms = report.handover_gap_p50_ms
        self.handover_gap_p99_ms = report.handover_gap_p99_ms
        if not report.ok:
            self.invariants = "; ".join(report.findings[:5]) or "the audit failed"

    @property
    def failed(self) -> bool:
        """Whether anything was lost, stored twice, reordered, or an invariant broke."""
        broken = self.messages_lost or self.messages_duplicated or self.messages_reordered
        return bool(broken) or self.invariants != "ok"


def rounds_of(entries: Sequence[Entry]) -> list[RoundView]:
    """Every round of the champion, oldest first."""
    return [
        RoundView(e.at_ms, int(e.data["at_ms"]), dict(e.data.get("memory", {}).get("scores", {})))
        for e in entries
        if e.kind is Kind.ROUND and not e.data.get("challenger")
    ]


def transfers_of(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that ended a transfer: owned by the one it was transferred to, at the transfer's epoch."""
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
    """The splits that were carried out."""
    return [e for e in entries if e.kind is Kind.SPLIT]


def describe(entry: Entry) -> str | None:
    """One line for the live view, or None for what is not worth one."""
    if entry.kind is Kind.OWNERSHIP and entry.state == "transferring":
        return f"move {entry.bundle}: {_broker(entry.by)} → {_broker(entry.to)} ({entry.reason})"
    if entry.kind is Kind.OWNERSHIP and entry.state == "splitting":
        return f"split {entry.bundle} on {_broker(entry.by)} ({entry.reason})"
    if entry.kind is Kind.SESSION_ENDED:
        return f"{entry.broker} is gone ({entry.reason})"
    if entry.kind is Kind.REGISTERED:
        return f"{entry.broker} has joined"
    if entry.kind in (Kind.ALARM, Kind.GUARD):
        return f"{entry.kind.value}: {entry.reason} {entry.bundle or entry.broker or ''}"
    return None


def _broker(session: str | None) -> str:
    return (session or "nobody").rpartition("#")[0]
