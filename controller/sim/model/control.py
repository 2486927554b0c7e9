"""The controller's side: the control step's own functions on small integers, one event at a time.

Every change goes through the fold of the journal, which refuses what the table of transitions does not have. Which
broker gets a bundle is left open: each one that the step finds eligible makes a change of its own. Changes are cached
by the record and what the journal says of the brokers, without the epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from controller.control import handover
from controller.control.assignment import assign_orphans, evacuate
from controller.control.commands import on_command
from controller.control.context import Batch, Context
from controller.control.deadlines import expire_deadlines
from controller.control.inventory import on_inventory
from controller.control.lease_expiry import expire_leases
from controller.control.sessions import on_goodbye, on_heartbeat
from controller.control.splits import on_split_done
from controller.control.step_decisions import Choice
from controller.control.watch import Watch
from controller.domain.entries import Kind
from controller.domain.errors import InvariantBroken
from controller.domain.events import BrokerEvent, Command, Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import Ownership, State, check_transition
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import LIVE, Broker, ClusterState
from controller.sim.model.configuration import Configuration
from controller.sim.model.states import (
    ALIVE,
    ANSWERS,
    BY,
    ENDED,
    FENCER,
    NO_OLDER,
    NOBODY,
    OF_SAME_PROCESS,
    ROLES,
    STATES,
    TO,
    UNREGISTERED,
    Record,
)

BROKERS = ("a:1", "b:1", "c:1")
NOW_MS, SEQ, EPOCH = 1_000_000, 100, 10
SETTINGS = ControlSettings(guard_min_brokers=len(BROKERS) + 1)  # without the mass-failure breaker
ON_ANSWER = (
    handover.on_accepted,
    handover.on_rejected,
    handover.on_serving,
    handover.on_released,
    handover.on_fenced,
    on_split_done,
)  # in the order of ANSWERS


class On:
    """The names of events."""

    REGISTERS, ENDS, GOODBYE, ANSWER, LEAVES, LISTS = "registers", "ends", "goodbye", "answer", "leaves", "lists"
    PLACES, EVACUATES, EXPIRES = "places", "evacuates", "expires"
    MOVES, UNLOADS, SPLITS = "moves", "unloads", "splits"


class Event(NamedTuple):
    """What the controller handles. `older`: it is of the broker's older session; `answer`: which one."""

    name: str
    broker: int = 0
    older: int = 0
    answer: int = 0


class Seat(NamedTuple):
    """A broker's standing with regard to one bundle."""

    session: int
    older: int
    leaving: int
    roles: int


Seats = tuple[Seat, ...]


class Change(NamedTuple):
    """The record and the brokers after an event. `burnt`: epochs; `broken`: why the fold refuses it."""

    state: int
    burnt: int
    released: int
    fence: int
    seats: Seats
    broken: str = ""


class OpenContext(Context):
    """A batch in which any eligible broker may be chosen: the one numbered `pick`. `offered`: how many there were."""

    pick = 0
    offered = 1

    def weigh_targets(
        self, bundle: Bundle, *without: Session | None, among: Collection[str] | None = None
    ) -> Choice | None:
        """A broker that may be granted the bundle. `among` is a preference, which the model does not have."""
        barred = {session.broker for session in without if session is not None}
        able = [b for b in self.state.live_brokers() if b.id in self.placement and b.id not in barred]
        self.offered = max(self.offered, len(able))
        return Choice(able[self.pick % len(able)].session, "pin") if able else None


class ControlRules:
    """What the controller does about one bundle at an event."""

    def __init__(self, configuration: Configuration, bug: str = "") -> None:
        self.calls = 0  # of the control step
        self.taken: set[tuple[State, State]] = set()  # transitions of the table
        self.handled: set[str] = set()  # events and answers that have changed something
        self._configuration = configuration
        self._bug = bug
        self._known: dict[tuple[int, int, int, int, Seats, Event], tuple[Change, ...]] = {}

    def changes(self, bundle: int, record: Record, seats: Seats, event: Event) -> tuple[Change, ...]:
        """All that the step may make of the event; none if it changes nothing."""
        key = (bundle, record.state, record.released, record.fence, seats, event)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = tuple(self._find(bundle, record, seats, event))
        return found

    @property
    def known(self) -> Mapping[tuple[int, int, int, int, Seats, Event], tuple[Change, ...]]:
        """All that was asked for: bundle, the record without its epoch, seats and event, and the changes."""
        return self._known

    def refuses(self, bundle: int, old: Record, old_seats: Seats, new: Record, new_seats: Seats) -> str:
        """Why the table of transitions forbids the new record after the old one; empty if it does not."""
        try:
            check_transition(self.ownership(bundle, old, old_seats), self.ownership(bundle, new, new_seats))
        except InvariantBroken as error:
            return str(error)
        return ""

    # ---------------------------------------------------------------- one call of the step

    def _find(self, bundle: int, record: Record, seats: Seats, event: Event) -> dict[Change, None]:
        found: dict[Change, None] = {}
        if event.name == On.PLACES and self._bug == "orphans_wait":
            return found
        nothing = Change(record.state, 0, record.released, record.fence, seats)
        for epoch in range(EPOCH, EPOCH + len(BROKERS)):  # which broker is ordered to fence depends on the epoch
            pick, offered = 0, 1
            while pick < offered:
                ctx = self.context(bundle, record._replace(epoch=epoch), seats)
                ctx.pick = pick
                found[self._call(ctx, bundle, seats, event)] = None
                pick, offered = pick + 1, max(offered, ctx.offered)
            if event.name != On.EXPIRES:
                break
        found.pop(nothing, None)
        if found:
            self.handled.add(ANSWERS[event.answer] if event.name == On.ANSWER else event.name)
        for change in found:
            if change[:4] != nothing[:4]:
                self.taken.add((STATES[record.state], STATES[change.state]))
        return found

    def _call(self, ctx: OpenContext, bundle: int, seats: Seats, event: Event) -> Change:
        self.calls += 1
        before = ctx.state.bundles[str(self._configuration.bundles[bundle])]
        try:
            self._handle(ctx, before, seats, event)
            after = ctx.state.bundles[str(before.bundle)]
            if self._bug and after != before:
                after = self._plant(before, after, event)
        except InvariantBroken as error:
            return Change(STATES.index(before.state), 0, 0, 0, seats, broken=str(error))
        return Change(
            STATES.index(after.state),
            after.epoch - before.epoch,
            int(after.released),
            int(after.fence),
            tuple(_seat_after(ctx.state, after, name, seat) for name, seat in zip(BROKERS, seats, strict=True)),
        )

    def context(self, bundle: int, record: Record, seats: Seats) -> OpenContext:
        """A batch that begins with this record."""
        state = ClusterState(seq=SEQ, mode=LIVE)
        for name, seat in zip(BROKERS, seats, strict=True):
            current, older = sessions_of(name, seat.older)
            if seat.older:
                state.sessions[older] = 1
                state.brokers[name] = Broker(name, older, leaving=bool(seat.leaving), seq=1)
            if seat.session == ALIVE:
                state.sessions[current] = 2
            if seat.session != UNREGISTERED:
                state.brokers[name] = Broker(name, current, leaving=bool(seat.leaving), seq=2)
        ownership = self.ownership(bundle, record, seats)
        state.put(ownership)
        state.namespaces[ownership.bundle.namespace] = (ownership.bundle,)
        watch = Watch.fresh(state, NOW_MS, SETTINGS)
        return OpenContext(state, watch, Batch([], {}, 1, "model", 0), NOW_MS, SETTINGS)

    def ownership(self, bundle: int, record: Record, seats: Seats) -> Ownership:
        """The record as the journal has it."""
        parties: dict[int, Session] = {}
        for name, seat in zip(BROKERS, seats, strict=True):
            current, older = sessions_of(name, seat.older)
            parties[seat.roles % ROLES] = current
            if seat.roles >= ROLES:
                parties[seat.roles // ROLES] = older
        where = self._configuration.bundles[bundle]
        return Ownership(
            where,
            STATES[record.state],
            record.epoch,
            by=parties.get(BY),
            to=parties.get(TO),
            seq=1,
            released=bool(record.released),
            fence=bool(record.fence),
            fencer=parties.get(FENCER),
            boundary=where.middle() if STATES[record.state] is State.SPLITTING else None,
            ever_owned=True,
        )

    def _handle(self, ctx: OpenContext, record: Ownership, seats: Seats, event: Event) -> None:
        """Have the step's own function handle the event."""
        current, older = sessions_of(BROKERS[event.broker], seats[event.broker].older)
        who, name = older if event.older else current, str(record.bundle)
        match event.name:
            case On.ANSWER:
                ON_ANSWER[event.answer](ctx, BrokerEvent(ANSWERS[event.answer], who, SEQ, record.bundle), record)
            case On.REGISTERS:
                on_heartbeat(ctx, Heartbeat(who, 0))
            case On.ENDS:
                ctx.watch.heard[who] = NOW_MS - SETTINGS.lease_ms - SETTINGS.margin_ms - 1
                expire_leases(ctx)
            case On.GOODBYE:
                on_goodbye(ctx, BrokerEvent("goodbye", who, SEQ))
            case On.LEAVES:
                ctx.emit(Kind.DRAIN, broker=who.broker, session=str(who), data={"leaving": True})
            case On.LISTS:
                on_inventory(ctx, BrokerEvent("inventory", who, SEQ))
            case On.PLACES:
                assign_orphans(ctx)
            case On.EVACUATES:
                evacuate(ctx)
            case On.EXPIRES:
                ctx.watch.deadlines = {name: NOW_MS - 1}
                expire_deadlines(ctx)
            case On.MOVES:
                on_command(ctx, Command("c", "unload_bundle", {"bundle": name, "to": who.broker}))
            case On.UNLOADS:
                on_command(ctx, Command("c", "unload_bundle", {"bundle": name}))
            case On.SPLITS:
                on_command(ctx, Command("c", "split_bundle", {"bundle": name}))

    def _plant(self, before: Ownership, after: Ownership, event: Event) -> Ownership:
        """The record that a planted bug writes instead; the table of transitions must allow it."""
        planted = after
        forgets_owner = self._bug == "owner_end_frees" and event.name == On.ENDS and before.state is State.RELEASING
        forgets_grantee = self._bug == "silent_grantee_forgotten" and before.state is State.ASSIGNING
        if self._bug == "grant_without_fence" and after.fence:
            planted = replace(after, state=State.ASSIGNING, by=None, fence=False)
        elif self._bug == "silent_owner_awaited" and after.fence:
            planted = replace(after, fence=False)
        elif (
            forgets_owner
            or (forgets_grantee and event.name == On.EXPIRES)
            or (self._bug == "unload_frees" and event.name == On.UNLOADS)
        ):
            planted = replace(after, state=State.FREE, by=None, to=None, fence=False, released=False, fencer=None)
        check_transition(before, planted)
        return planted


def sessions_of(broker: str, older: int) -> tuple[Session, Session]:
    """The session of the broker's running process, and its older one: of the same process, or of an earlier one."""
    if older == OF_SAME_PROCESS:
        return Session(broker, 2, "n", 2), Session(broker, 2, "n", 1)
    return Session(broker, 2, "n", 2), Session(broker, 1, "m", 1)


def _seat_after(state: ClusterState, record: Ownership, name: str, seat: Seat) -> Seat:
    current, older = sessions_of(name, seat.older)
    session = ALIVE if current in state.sessions else ENDED if seat.session != UNREGISTERED else UNREGISTERED
    broker = state.brokers.get(name)
    leaving = broker is not None and broker.leaving and broker.session in state.sessions
    roles = _role_of(record, current) + ROLES * _role_of(record, older)
    return Seat(session, seat.older if older in state.sessions else NO_OLDER, int(leaving), roles)


def _role_of(record: Ownership, session: Session) -> int:
    parties: Sequence[Session | None] = (None, record.by, record.to, record.fencer)
    return parties.index(session) if session in parties else NOBODY
