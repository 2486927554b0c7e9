"""The controller's volatile memory: when sessions were heard, and until when in-flight states may last.

Nothing here is journaled and nothing here is trusted across a restart: a new controller gives every living session
one fresh lease and restarts every deadline ("slower by one lease, never wrong"). All times are CLOCK_BOOTTIME ms.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from controller.control.kept_loads import KeptLoads
from controller.domain.ids import Session
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState

LAG_ALLOWANCE_MS = 3_000  # a heartbeat a second, and the feed's way: what was committed since lags nobody


@dataclass(slots=True)
class Watch:
    """Mutated by `step`; owned by one controller process."""

    heard: dict[Session, int] = field(default_factory=dict)
    applied: dict[Session, int] = field(default_factory=dict)  # newest journal seq each session says it applied
    deadlines: dict[str, int] = field(default_factory=dict)  # bundle in flight -> when it is too late
    lapsed: list[tuple[int, str]] = field(default_factory=list)  # (when, broker) of leases that ended
    frozen_since_ms: int | None = None
    listening_until_ms: int = 0  # before that, nobody can be known to be silent
    judged_ms: int | None = None  # when input was last read to its end
    orphans: set[str] = field(default_factory=set)  # free bundles that were owned before: assigned at once
    rejections: dict[str, dict[str, int]] = field(default_factory=dict)  # bundle -> broker that said no -> when
    alarmed: dict[str, int] = field(default_factory=dict)  # bundle in flight -> epoch already complained about
    refused: dict[str, int] = field(default_factory=dict)  # reason -> count of events without effect, for metrics
    evidence_serial: int = 0
    lookups: dict[str, None] = field(default_factory=dict)  # bundles that wait for their first owner, oldest first
    loads: KeptLoads = field(default_factory=KeptLoads)
    marks: list[tuple[int, int]] = field(default_factory=list)  # (when, newest seq) of the last batches, oldest first
    strays: set[tuple[str, str]] = field(default_factory=set)  # (alarm, other journal) told already

    @classmethod
    def fresh(cls, state: ClusterState, now_ms: int, settings: ControlSettings) -> Watch:
        """What a starting controller knows: everybody alive in the journal was heard just now."""
        watch = cls(heard=dict.fromkeys(state.sessions, now_ms))
        watch.listening_until_ms = now_ms + settings.lease_ms + settings.margin_ms
        watch.frozen_since_ms = now_ms if state.frozen else None
        watch.lapsed = [(now_ms, broker) for broker in state.silent if state.session_of(broker) is None]
        for record in state.bundles.values():
            watch.follow(record, now_ms, settings)
        return watch

    def follow(self, record: Ownership, now_ms: int, settings: ControlSettings) -> None:
        """Start or clear the bundle's clock and marks, as its newest record demands."""
        name = str(record.bundle)
        if record.state in IN_FLIGHT:
            self.deadlines[name] = now_ms + _allowance_ms(record.state, settings)
        else:
            self.deadlines.pop(name, None)
            self.alarmed.pop(name, None)
        if record.state is State.FREE and record.ever_owned:
            self.orphans.add(name)
        else:
            self.orphans.discard(name)
        if record.state is State.RETIRED:
            self.rejections.pop(name, None)

    def back_after_outage(self, now_ms: int, settings: ControlSettings) -> bool:
        """Note that input was read to its end. When that could not be for more than a lease (Kafka was away, or this
        process stood still), nobody could be heard: as after a restart, clocks start anew, and this returns True."""
        before, self.judged_ms = self.judged_ms, now_ms
        if before is None or now_ms - before <= settings.lease_ms:
            return False
        away_ms = now_ms - before
        self.heard = {session: max(at, now_ms) for session, at in self.heard.items()}
        self.deadlines = {name: at + away_ms for name, at in self.deadlines.items()}
        self.listening_until_ms = now_ms + settings.lease_ms + settings.margin_ms
        return True

    def overdue(self, now_ms: int) -> list[str]:
        """Bundles whose in-flight state lasted too long, in a stable order."""
        return sorted(name for name, at in self.deadlines.items() if now_ms > at)

    def mark(self, now_ms: int, seq: int) -> None:
        """Note how far the journal was when a batch began. The oldest mark kept is older than the allowance."""
        self.marks.append((now_ms, seq))
        while len(self.marks) > 1 and self.marks[1][0] <= now_ms - 2 * LAG_ALLOWANCE_MS:
            del self.marks[0]

    def expected_seq(self, session: Session) -> int:
        """What the session must have known of the journal when it was last heard: not what was committed meanwhile,
        or a storm of entries would make a laggard of every broker."""
        known = bisect_right(self.marks, self.heard.get(session, 0) - LAG_ALLOWANCE_MS, key=lambda mark: mark[0])
        return self.marks[known - 1][1] if known else 0

    def lags(self, session: Session, settings: ControlSettings) -> bool:
        """Whether the session is so far behind the journal that nothing should be granted to it."""
        applied = self.applied.get(session)
        return applied is not None and self.expected_seq(session) - applied > settings.lag_limit_entries

    def lagging(self, state: ClusterState, settings: ControlSettings) -> frozenset[str]:
        """The living brokers that lag, as a round is told."""
        return frozenset(session.broker for session in state.sessions if self.lags(session, settings))

    def refuse(self, reason: str) -> None:
        """Count an event that changed nothing."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


def _allowance_ms(state: State, settings: ControlSettings) -> int:
    return {
        State.ASSIGNING: settings.assign_deadline_ms,
        State.TRANSFERRING: settings.accept_deadline_ms,
        State.RELEASING: settings.release_deadline_ms,
        State.SPLITTING: settings.split_deadline_ms,
    }[state]
