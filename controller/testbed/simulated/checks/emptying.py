"""A broker that is drained or leaves gives its bundles away, for as long as others can take them, and gets none.

The controller offers it nothing new; what it was granted before the controller knew, it refuses once it has been asked
to leave. Whether it gives its bundles away is judged at commits, of which a controller makes several a second. A broker
can take a bundle if it runs, has a lease, refuses nothing, and was not offered this bundle in vain of late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

from controller.control.handover import REJECTION_MEMORY_MS
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.testbed.simulated.broker import SimBroker
from controller.testbed.simulated.world import World

SOON_MS = 5_000.0
CLOCK = 1.1  # a controller's time, at most, against true time


class Emptying:
    """Of one run. `breach` is told of a bundle that stays."""

    def __init__(self, world: World, brokers: Sequence[SimBroker], breach: Callable[[str], None]) -> None:
        self._world, self._brokers, self._breach = world, brokers, breach
        self._offered_ms: dict[tuple[str, str], float] = {}  # bundle, broker -> when it was offered; until it is owned
        self._since_ms: dict[tuple[str, Session], float] = {}  # bundle, owner -> since when it could begin to move
        self._granted_ms: dict[tuple[str, int, str], float] = {}  # bundle, epoch, session: when it was new to it

    def is_told_to_serve(self, one: SimBroker, bundle: Bundle) -> None:
        """An agent tells its broker to serve this."""
        record, sessions = one.agent.watcher.state.bundles.get(str(bundle)), one.agent.sessions
        if record is None or sessions is None:
            return
        granted_ms = self._granted_ms.get((str(bundle), record.epoch, str(sessions.current)), -math.inf)
        if granted_ms > one.asked_to_leave_ms:
            self._breach(f"{sessions.current} was asked to leave, and then takes {bundle} at epoch {record.epoch}")

    def commits(self, entries: Sequence[Entry], before: ClusterState, after: ClusterState) -> None:
        """A controller has committed these entries."""
        self._judge_offers(entries, before)
        for entry in entries:
            if entry.kind is Kind.OWNERSHIP and entry.to and entry.state != State.OWNED:
                self._offered_ms[str(entry.bundle), Session.parse(entry.to).broker] = self._world.now_ms
            elif entry.kind is Kind.OWNERSHIP and entry.by and entry.state == State.OWNED:
                self._offered_ms.pop((str(entry.bundle), Session.parse(entry.by).broker), None)
        living = after.live_brokers()
        emptying = {broker.session for broker in living if broker.drained or broker.leaving}
        owned = [record for record in after.bundles.values() if record.by in emptying]
        others = [broker.session for broker in living if broker.session not in emptying]
        under_way = {record.by for record in owned if record.state not in (State.OWNED, State.RETIRED)}
        waiting: dict[tuple[str, Session], float] = {}
        for record in owned:
            name, owner = str(record.bundle), record.by
            may_move = record.state is State.OWNED and owner not in under_way and not after.frozen
            if owner is not None and may_move and any(self._can_take(name, session) for session in others):
                since_ms = self._since_ms.get((name, owner), self._world.now_ms)
                waiting[name, owner] = since_ms
                if self._world.now_ms - since_ms > SOON_MS:
                    self._breach(f"{owner} is to give its bundles away, and keeps {name} although others live")
        self._since_ms = waiting

    def _can_take(self, bundle: str, session: Session) -> bool:
        waits_ms = self._world.now_ms - self._offered_ms.get((bundle, session.broker), -math.inf)
        return waits_ms > REJECTION_MEMORY_MS * CLOCK and any(
            one.alive and one.agent.sessions and one.agent.sessions.current == session and one.has_lease()
            and not one.runtime.refusing
            for one in self._brokers
        )  # fmt: skip

    def _judge_offers(self, entries: Sequence[Entry], before: ClusterState) -> None:
        drained = {broker.id for broker in before.brokers.values() if broker.drained}
        leaving = {broker.id for broker in before.brokers.values() if broker.leaving}
        named = {name: _parties(record.by, record.to) for name, record in before.bundles.items()}
        for entry in entries:
            if entry.kind is Kind.REGISTERED:
                leaving.discard(str(entry.broker))  # a session of a process that leaves is its last
            elif entry.kind is Kind.DRAIN:
                brokers = leaving if "leaving" in entry.data else drained
                is_on = entry.data.get("leaving") or entry.data.get("drained")
                (brokers.add if is_on else brokers.discard)(str(entry.broker))
            elif entry.kind is Kind.OWNERSHIP:
                if entry.to and entry.to not in named.get(str(entry.bundle), ()):
                    self._judge_offer(str(entry.bundle), entry, entry.to, drained | leaving)
                named[str(entry.bundle)] = _parties(entry.by, entry.to)

    def _judge_offer(self, name: str, entry: Entry, to: str, emptying: Collection[str]) -> None:
        if entry.state != State.RELEASING:  # whoever is to raise a fence is not asked whether it agrees
            self._granted_ms[name, entry.epoch or 0, to] = self._world.now_ms
        if Session.parse(to).broker in emptying:
            self._breach(f"{to} is drained or leaves, and is granted {name}")


def _parties(*sessions: Session | str | None) -> set[str]:
    """The sessions that a record names."""
    return {str(session) for session in sessions if session}
