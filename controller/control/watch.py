"""The controller's volatile memory: when each session was last heard, and when each in-flight state expires.

Nothing here is journaled or survives a restart: a new controller gives every live session one fresh lease and restarts
every deadline ("slower by one lease, never wrong"). All times are ms of CLOCK_BOOTTIME.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field

from controller.control.kept_loads import KeptLoads
from controller.domain.decision import Decision
from controller.domain.facts import order_allowance_ms
from controller.domain.ids import Session
from controller.domain.ownership import IN_FLIGHT, Ownership, State
from controller.domain.pulsar_policies import PlacementInForce
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState

LAG_ALLOWANCE_MS = 3_000  # for the heartbeat interval and the feed's delay: newer commits do not count as lag
OVERDUE_MS = 1_000  # a lease that is overdue for longer is kept on purpose, by the breaker for instance


@dataclass(slots=True)
class QueuedOrder:
    """A move of a namespace's unload that waits for its turn; without a target, Pulsar chooses. `refused_ms`: since
    when it has waited for a refusal to pass; None while it only waits for others to end."""

    target: str | None
    command_id: str
    refused_ms: int | None = None


@dataclass(frozen=True, slots=True)
class InTurn:
    """Decisions of a round that belong together and wait. `state_seq`: what the round was computed on."""

    round_id: str
    state_seq: int
    together: tuple[Decision, ...]
    since_ms: int


@dataclass(slots=True)
class Watch:
    """Mutated by `step`; owned by one controller process."""

    heard: dict[Session, int] = field(default_factory=dict)
    applied: dict[Session, int] = field(default_factory=dict)  # the newest journal seq that each session reported
    deadlines: dict[str, int] = field(default_factory=dict)  # bundle in flight -> when its state expires
    order_deadlines: dict[str, int] = field(default_factory=dict)  # bundle with an open order -> when it expires
    queued_orders: dict[str, QueuedOrder] = field(default_factory=dict)  # by bundle
    challenged: set[tuple[str, str]] = field(default_factory=set)  # (round, strategy) journaled since the last round
    in_turn: list[InTurn] = field(default_factory=list)  # moves of the last round, in its order
    expired: list[tuple[int, str]] = field(default_factory=list)  # (when, broker) of leases that ended
    frozen_since_ms: int | None = None
    listening_until_ms: int = 0  # until then, no session can count as silent
    judged_ms: int | None = None  # when input was last read to its end: as of then
    read_ms: int | None = None  # and when that was done
    extended_until_ms: int = 0  # outages up to then are already in the deadlines
    orphans: set[str] = field(default_factory=set)  # free bundles that were owned before, to be assigned at once
    rejections: dict[str, dict[str, int]] = field(default_factory=dict)  # bundle -> broker that refused it -> when
    alarmed: dict[str, int] = field(default_factory=dict)  # bundle in flight -> epoch that an alarm was raised for
    refused: dict[str, int] = field(default_factory=dict)  # reason -> number of events without effect, for metrics
    evidence_serial: int = 0
    lookups: dict[str, None] = field(default_factory=dict)  # bundles waiting for their first owner, oldest first
    loads: KeptLoads = field(default_factory=KeptLoads)
    placement: PlacementInForce = field(default_factory=PlacementInForce)
    marks: list[tuple[int, int]] = field(default_factory=list)  # (when, newest seq) of the last batches, oldest first
    strays: set[tuple[str, str]] = field(default_factory=set)  # (alarm, other journal) raised already
    plan: tuple[int, int] | None = None  # seq of the kept plan's phase, and since when it is in it
    unread_since: dict[str, int] = field(default_factory=dict)  # broker -> since when its agent has read no journal
    ticked: dict[str, int] = field(default_factory=dict)  # agent group -> when our tick last came back from its topic
    read_until: dict[str, int] = field(default_factory=dict)  # agent group -> what was appended before has been read

    @classmethod
    def fresh(cls, state: ClusterState, now_ms: int, settings: ControlSettings) -> Watch:
        """The memory of a starting controller: every live session counts as heard just now."""
        watch = cls(heard=dict.fromkeys(state.sessions, now_ms))
        watch.listening_until_ms = now_ms + settings.lease_ms + settings.margin_ms
        watch.judged_ms = watch.read_ms = now_ms  # Kafka may be away from the start on, when nobody can be heard
        watch.frozen_since_ms = now_ms if state.frozen else None
        watch.expired = [(now_ms, broker) for broker in state.silent if state.session_of(broker) is None]
        for record in state.bundles.values():
            watch.follow(record, now_ms, settings)
        for name in state.observed.orders:
            watch.follow_order(state, name, now_ms)
        return watch

    def follow_order(self, state: ClusterState, name: str, now_ms: int) -> None:
        """Start the deadline of the open order about a bundle."""
        cluster = state.observed
        allowance_ms = order_allowance_ms(cluster.facts, cluster.orders[name].source, state.modular)
        self.order_deadlines[name] = now_ms + allowance_ms

    def follow(self, record: Ownership, now_ms: int, settings: ControlSettings) -> None:
        """Start or clear the bundle's deadline and marks, according to its newest record."""
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

    def awaits_expiry(self, now_ms: int, settings: ControlSettings) -> bool:
        """Whether a silent session's lease ends soon, or is just overdue. Only a batch ends a lease, and only a record
        causes a batch."""
        last_ms = settings.lease_ms + settings.margin_ms + OVERDUE_MS
        return any(settings.lease_ms < now_ms - at <= last_ms for at in self.heard.values())

    def back_after_outage(self, now_ms: int, read_ms: int, settings: ControlSettings) -> bool:
        """Note that input was read to its end, of all that was there at `now_ms`, and at `read_ms` at last. If the last
        time was more than a lease ago, because Kafka was unavailable or this process was stopped, no session could be
        heard: leases and deadlines restart as after a restart, and this returns True. They do so at `read_ms`: as of
        `now_ms`, before the records were asked for, the outage may not have been over. For the same reason an outage
        may have begun after the last records were read, whatever held this process up in between. So two batches may
        notice the same outage; deadlines are extended by its length once."""
        before, self.judged_ms = self.judged_ms, now_ms
        last_read, self.read_ms = self.read_ms, read_ms
        if before is None or last_read is None:
            return False
        if max(now_ms - before, read_ms - last_read) <= settings.lease_ms:
            return False
        away_ms, self.extended_until_ms = read_ms - max(before, self.extended_until_ms), read_ms
        self.heard = {session: max(at, read_ms) for session, at in self.heard.items()}
        self.deadlines = {name: at + away_ms for name, at in self.deadlines.items()}
        self.order_deadlines = {name: at + away_ms for name, at in self.order_deadlines.items()}
        self.listening_until_ms = read_ms + settings.lease_ms + settings.margin_ms
        return True

    def overdue(self, now_ms: int) -> list[str]:
        """The bundles whose in-flight state has expired, sorted."""
        return sorted(name for name, at in self.deadlines.items() if now_ms > at)

    def mark(self, now_ms: int, seq: int) -> None:
        """Note the journal's seq at the start of a batch. The oldest mark kept is older than the allowance."""
        self.marks.append((now_ms, seq))
        while len(self.marks) > 1 and self.marks[1][0] <= now_ms - 2 * LAG_ALLOWANCE_MS:
            del self.marks[0]

    def expected_seq(self, session: Session) -> int:
        """The seq that the session should have applied when it was last heard. Later commits do not count, or a burst
        of entries would make every broker lag."""
        known = bisect_right(self.marks, (self.heard.get(session, 0) - LAG_ALLOWANCE_MS, math.inf))
        return self.marks[known - 1][1] if known else 0

    def entries_behind(self, session: Session) -> int | None:
        """How many entries the session has not applied and should have; None while it has reported nothing."""
        applied = self.applied.get(session)
        return None if applied is None else max(0, self.expected_seq(session) - applied)

    def lags(self, session: Session, settings: ControlSettings) -> bool:
        """Whether the session is too far behind the journal to be granted anything."""
        behind = self.entries_behind(session)
        return behind is not None and behind > settings.lag_limit_entries

    def lagging(self, state: ClusterState, settings: ControlSettings) -> frozenset[str]:
        """The live brokers that lag, for rounds."""
        return frozenset(session.broker for session in state.sessions if self.lags(session, settings))

    def refuse(self, reason: str) -> None:
        """Count an event that had no effect."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


def _allowance_ms(state: State, settings: ControlSettings) -> int:
    return {
        State.ASSIGNING: settings.assign_deadline_ms,
        State.TRANSFERRING: settings.accept_deadline_ms,
        State.RELEASING: settings.release_deadline_ms,
        State.SPLITTING: settings.split_deadline_ms,
    }[state]
