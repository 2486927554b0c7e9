"""What must hold in a simulated deployment at every moment, told from what processes really do, not from what they say.

- I1, strictly: at most one server a hash, also where only a fence keeps two apart that the journal did not order.
- A bundle is granted only when nobody else serves any of it, unless the journal has ordered a fence in between.
- The controller ends a session for its lease only when that lease has expired for the agent, too, never while the
  mass-failure breaker keeps leases alive, and only a lease after an outage of Kafka in which nobody could be heard.
- Without a valid lease an agent begins to serve nothing and publishes nothing; it begins no session and leaves none
  while it still serves something. Its broker opens nothing for clients, and delivers and acknowledges nothing.
- After every commit: I2, I3, and that only the living are granted anything. A snapshot is the state it
  was made of, none takes the place of a newer one, and the journal continues each of them.
- What the journal takes for said, was said (`checks.answers`); the breaker trips when it has to (`checks.breaker`); the
  journal refuses what contradicts it (`checks.refusals`); agents and leaving brokers: `checks.agents`; who has lost its
  lease stops serving soon (`checks.stopping`), and never has that lease again (`checks.leases`).

A breach is kept, as the code in which it is noticed may well survive an exception, and raised after the action.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from controller.brokers.reference.store.protocol import header_of
from controller.bus.topics import TopicNames
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode
from controller.sim.ownership.invariants import (
    check_fold,
    check_one_server,
    check_state,
    is_fenced_apart,
    list_ordered_fences,
)
from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.checks.agents import Agents
from controller.testbed.simulated.checks.answers import Answers
from controller.testbed.simulated.checks.breaker import Breaker
from controller.testbed.simulated.checks.emptying import Emptying
from controller.testbed.simulated.checks.halves import Halves
from controller.testbed.simulated.checks.leases import Leases
from controller.testbed.simulated.checks.refusals import check_refusals
from controller.testbed.simulated.checks.stopping import Stopping
from controller.testbed.simulated.kafka import SimKafka
from controller.testbed.simulated.snapshots import Rows
from controller.testbed.simulated.world import World

CLOCK_LEAST = 0.9  # of the true time, by any clock
REFUSALS = 0.1  # of the commits: what they must not be is tried as well
WITH_A_LEASE = ("opened", "sent", "deliver", "acked")  # what a broker tells clients
SERVES_NOTHING = ("released", "rejected")  # of a range, says who says this


class Witness:
    """Of one run. `brokers`: every process that ever ran."""

    def __init__(
        self, world: World, kafka: SimKafka, brokers: Sequence[SimBroker], names: TopicNames, settings: ControlSettings
    ) -> None:
        self.ordered: list[tuple[Bundle, int]] = []  # fences that the journal has ordered
        self._world, self._brokers, self._names = world, brokers, names
        self._breach = ""
        self._kafka, self._lease_ms = kafka, settings.lease_ms
        self._answers = Answers(self.note, self._known_to_serve)
        self._breaker = Breaker(settings, self.note, self._lives)
        self.agents = Agents(world, settings, self.note)
        self._halves, self._emptying = Halves(self.note), Emptying(world, brokers, self.note)
        self._stopping, self.leases = Stopping(world, brokers, self.note), Leases(self.note)
        self._dice = world.dice("refusals")
        self._someone_serves = False

    def check(self) -> None:
        """After an action in which something was noticed: raise InvariantBroken for that. Only who begins to serve can
        be a second server."""
        if self._breach:
            raise InvariantBroken(self._breach)
        if self._someone_serves:
            self._someone_serves = False
            check_one_server(self._serving(), self.ordered)

    # ------------------------------------------------------------ told by processes

    def begins_to_serve(self, one: SimBroker, bundles: Collection[Bundle], *, by_split: bool = False) -> None:
        """A broker has begun to serve these."""
        self._someone_serves = self._world.alarmed = True
        serving = one.runtime.serving()
        twice = [(new, old) for new in bundles for old in serving if new != old and new.overlaps(old)]
        if twice:
            self.note(f"{one.broker} begins to serve {twice[0][0]} while it serves {twice[0][1]}")
        self.agents.serve(one, bundles, by_split)

    def is_fenced(self, one: SimBroker, bundle: Bundle, epoch: int) -> None:
        """The store has refused what a broker wrote, which has told so."""
        if one.runtime.serving().get(bundle) == epoch:
            self.note(f"{one.broker} goes on serving {bundle} at epoch {epoch}, which the store has fenced")

    def is_told_to_serve(self, one: SimBroker, bundle: Bundle) -> None:
        """An agent tells its broker to serve this."""
        self._emptying.is_told_to_serve(one, bundle)
        if not one.has_lease():
            self.note(f"{one.broker} is told to serve {bundle} without a valid lease")

    def sends(self, one: SimBroker, topic: str, record: Mapping[str, Any]) -> None:
        """An agent sends a record."""
        sessions, topics = one.agent.sessions, self._names.of_broker(one.broker)
        if sessions is None or topic not in (topics.heartbeats, topics.broker_events):
            return
        serving, kind = one.runtime.serving(), record.get("kind")
        self.agents.send(one, record)
        if topic == topics.heartbeats:
            begins = record["session"] > one.sessions_begun
            one.sessions_begun = max(one.sessions_begun, int(record["session"]))
            if begins and serving:
                self.note(f"{one.broker} begins session {record['session']} while it serves {serving}")
            return
        self._answers.say(sessions.current, record)
        self._halves.say(record)
        if kind in SERVES_NOTHING and not _refuses_to_split(one, record):
            served = [str(other) for other in serving if other.overlaps(Bundle.parse(record["bundle"]))]
            if served:
                self.note(f"{one.broker} says {kind!r} of {record['bundle']} while it serves {served}")
        if kind == "goodbye":
            if serving:
                self.note(f"{one.broker} says goodbye while it serves {serving}")
        elif not one.has_lease() or record["session"] != sessions.current.number:
            self.note(f"{one.broker} publishes {kind} of session {record['session']} without a valid lease")

    def writes(self, one: SimBroker, data: bytes) -> None:
        """A broker sends a frame to a client or to the store."""
        if not one.has_lease():
            header = header_of(data)
            if header is not None and header.get("op") in WITH_A_LEASE:
                self.note(f"{one.broker} tells a client {header['op']!r} without a valid lease")

    def commits(
        self, entries: Sequence[Entry], before: ClusterState, after: ClusterState, decided_ms: float, since_ms: float
    ) -> None:
        """A controller has committed these entries, which it decided as of that time. `since_ms`: it counts leases from
        then on."""
        self.ordered += list_ordered_fences(entries)
        frozen = before.frozen
        self._answers.commits(entries, before)
        self._breaker.commits(entries, before, decided_ms)
        self.agents.commits(entries, after)
        self._halves.commits(entries)
        self._emptying.commits(entries, before, after)
        if self._dice.random() < REFUSALS:
            check_refusals(entries, before, self.note)
        for entry in entries:
            if entry.kind is Kind.GUARD:
                frozen = bool(entry.data.get("frozen"))
            elif entry.kind is Kind.SESSION_ENDED and entry.reason == "lease" and entry.session:
                self._check_lease(Session.parse(entry.session), frozen, since_ms, decided_ms)
            elif entry.kind is Kind.OWNERSHIP and entry.state == State.ASSIGNING.value and entry.bundle:
                self._check_grant(Bundle.parse(entry.bundle), entry.epoch or 0, entry.to)
        if any(entry.kind is not Kind.OFFSETS for entry in entries):
            check_state(before, after)

    def saves(self, state: ClusterState, rows: Rows, first_seq: int) -> None:
        """A snapshot was made of the state; the journal begins at `first_seq`."""
        (oldest, _), (newest, text) = rows[0], rows[-1]
        if newest != state.seq:
            self.note(f"a snapshot of seq {state.seq} takes the place of one of seq {newest}")
        if oldest + 1 < first_seq:
            self.note(f"the snapshot of seq {oldest} cannot be continued: the journal begins at entry {first_seq}")
        check_fold(decode(text), [], state)

    # ------------------------------------------------------------ inside

    def _lives(self, session: Session) -> bool:
        """Whether a process holds a lease of the session at this moment."""
        return any(
            one.alive and one.agent.sessions and one.agent.sessions.current == session
            and one.agent.sessions.lease_remaining_ms() > 0
            for one in self._brokers
        )  # fmt: skip

    def _check_lease(self, session: Session, frozen: bool, counts_since_ms: float, decided_ms: float) -> None:
        if frozen:
            self.note(f"the controller ends {session} for its lease although the breaker has tripped")
        since_ms = self._kafka.since_outage_ms(self._lease_ms / CLOCK_LEAST, counts_since_ms, decided_ms)
        if since_ms < self._lease_ms * CLOCK_LEAST:
            self.note(f"the controller ends {session} for its lease, and Kafka was away for longer until just now")
        for one in self._brokers:
            sessions = one.agent.sessions
            if one.alive and sessions and sessions.current == session and sessions.lease_remaining_ms() > 0:
                self.note(f"the controller ends {session}, whose lease lives {sessions.lease_remaining_ms()} ms more")

    def _check_grant(self, bundle: Bundle, epoch: int, to: str | None) -> None:
        for session, serving in self._serving().items():
            if str(session) == to:
                continue
            for other, served in serving.items():
                excused = is_fenced_apart(self.ordered, other, bundle, served, epoch)
                if other.overlaps(bundle) and served < epoch and not excused:
                    self.note(f"{bundle} is granted at epoch {epoch} while {session} serves {other} at {served}")

    def _serving(self) -> dict[Session, dict[Bundle, int]]:
        return {one.agent.sessions.current: one.serving() for one in self._brokers if one.agent.sessions}

    def _known_to_serve(self) -> dict[Session, dict[Bundle, int]]:
        """Without what a split that failed left: its agent lists none of that, and has it taken back."""
        unsure = {one.agent.sessions.current: one.runtime.half_split for one in self._brokers if one.agent.sessions}
        return {
            session: {bundle: epoch for bundle, epoch in serving.items() if bundle not in unsure[session]}
            for session, serving in self._serving().items()
        }

    def note(self, breach: str) -> None:
        """Keep the first breach, to be raised after the action."""
        self._breach = self._breach or breach
        self._world.alarmed = True


def _refuses_to_split(one: SimBroker, said: Mapping[str, Any]) -> bool:
    """A broker that is to split a bundle keeps it where it says `rejected`, and may go on serving it."""
    known = one.agent.watcher.state.bundles.get(said["bundle"])
    return (
        said["kind"] == "rejected"
        and known is not None
        and (known.state, known.epoch) == (State.SPLITTING, said["epoch"])
    )
