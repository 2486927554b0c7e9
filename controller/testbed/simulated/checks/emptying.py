"""A broker that is drained or leaves gives its bundles away, for as long as others can take them.

Judged at commits, of which a controller makes several a second. A broker can take a bundle if it runs, has a lease,
refuses nothing, and was not offered this bundle in vain of late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from controller.control.handover import REJECTION_MEMORY_MS
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Session
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

    def commits(self, entries: Sequence[Entry], after: ClusterState) -> None:
        """A controller has committed these entries."""
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
