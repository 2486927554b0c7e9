"""A graceful leave: hand everything over, drop what is left, deregister.

Invariant: the session deregisters, which ends it in the journal, only once it serves nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from controller.agent.event_publisher import EventPublisher
from controller.agent.periodic import run_unless
from controller.agent.session.session import Sessions
from controller.agent.signal import Signal
from controller.domain.ownership import State
from controller.domain.state import ClusterState

LEAVING = "leaving"  # the kind of the event, and the reason for which a leaving broker refuses bundles
REPEAT_S = 1.0


class Departure:
    """Leaves once. `asked` is true from the first request on, and the broker then takes no further bundles."""

    def __init__(
        self,
        broker: str,
        *,
        publisher: EventPublisher,
        changes: Signal,
        state: Callable[[], ClusterState],
        idle: Callable[[], bool],
        boot_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        """`idle`: whether the session's hand-overs have no work left."""
        self._broker = broker
        self._publisher = publisher
        self._changes = changes
        self._state = state
        self._idle = idle
        self._boot_ms = boot_ms
        self._timeout_ms = timeout_ms
        self._requested = asyncio.Event()

    @property
    def asked(self) -> bool:
        """Whether this broker has been asked to leave."""
        return self._requested.is_set()

    def ask(self) -> None:
        """Leave as soon as possible."""
        self._requested.set()

    async def run_unless_asked(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run the work to its end; False when the request to leave came first and cancelled it."""
        requested = asyncio.ensure_future(self._requested.wait())
        try:
            return await run_unless(work, requested)
        finally:
            requested.cancel()

    async def depart(self, sessions: Sessions) -> str:
        """Wait for the request to leave, then leave; returns a sentence on how it went."""
        await self._requested.wait()
        deadline = self._boot_ms() + self._timeout_ms
        while sessions.registered and not self._empty(sessions):
            if self._boot_ms() >= deadline:
                break
            self._publisher.event(LEAVING)
            await self._changes.wait(REPEAT_S)
        registered, empty = sessions.registered, self._empty(sessions)
        stopped = await sessions.finish()
        if registered and stopped and not sessions.replaced():
            await self._publisher.deregister()
        if not registered:
            return "left without a registered session"
        return "left" if empty else f"left after {self._timeout_ms} ms with bundles that {self._fate()}"

    def _fate(self) -> str:
        """What becomes of the bundles that are left, by the journal."""
        others = (b for b in self._state().live_brokers() if b.id != self._broker)
        taken = any(not (b.drained or b.leaving) for b in others)
        return "others now take over" if taken else "nobody takes over until a broker is there that may"

    def _empty(self, sessions: Sessions) -> bool:
        """Whether the journal knows that this broker leaves and no longer names it in any bundle's record."""
        state, session = self._state(), sessions.current
        known = state.brokers.get(self._broker)
        if known is None or not known.leaving or not self._idle():
            return False
        return not any(r.names(session) for r in state.bundles.values() if r.state is not State.RETIRED)
