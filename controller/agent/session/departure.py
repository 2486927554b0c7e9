"""A graceful leave: hand everything over, drop what is left, say goodbye.

Invariant: the goodbye, which ends the session for the journal, is sent only after nothing is served any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from controller.agent.event_publisher import Voice
from controller.agent.lookup import Changes
from controller.agent.session.session import Sessions
from controller.domain.ownership import State
from controller.domain.state import ClusterState

LEAVING = "leaving"  # the event's kind, and the reason code of what a leaving broker refuses
REPEAT_S = 1.0


class Departure:
    """Leaves once. `asked` is true from the first wish on: the broker takes no further bundles."""

    def __init__(
        self,
        broker: str,
        *,
        voice: Voice,
        changes: Changes,
        state: Callable[[], ClusterState],
        idle: Callable[[], bool],
        boot_ms: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        """`idle`: the session's hand-overs have no work left."""
        self._broker = broker
        self._voice = voice
        self._changes = changes
        self._state = state
        self._idle = idle
        self._boot_ms = boot_ms
        self._timeout_ms = timeout_ms
        self._wish = asyncio.Event()

    @property
    def asked(self) -> bool:
        """Whether this broker is to leave."""
        return self._wish.is_set()

    def ask(self) -> None:
        """Leave as soon as possible."""
        self._wish.set()

    async def unless_asked(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work to its end; False when the wish to leave came first and broke it off."""
        working, wished = asyncio.ensure_future(work), asyncio.ensure_future(self._wish.wait())
        await asyncio.wait([working, wished], return_when=asyncio.FIRST_COMPLETED)
        wished.cancel()
        if not working.done():
            working.cancel()
            return False
        working.result()
        return True

    async def depart(self, sessions: Sessions) -> str:
        """Wait for the wish, carry it out; returns a sentence on how it went."""
        await self._wish.wait()
        deadline = self._boot_ms() + self._timeout_ms
        while sessions.registered and not self._empty(sessions):
            if self._boot_ms() >= deadline:
                break
            self._voice.event(LEAVING)
            await self._changes.wait(REPEAT_S)
        registered, empty = sessions.registered, self._empty(sessions)
        await sessions.finish()
        if registered:
            await self._voice.goodbye()
        if not registered:
            return "left without a registered session"
        return "left" if empty else f"left after {self._timeout_ms} ms with bundles that others now take over"

    def _empty(self, sessions: Sessions) -> bool:
        """The journal knows that this broker leaves, and names it as a party to nothing."""
        state, session = self._state(), sessions.current
        known = state.brokers.get(self._broker)
        if known is None or not known.leaving or not self._idle():
            return False
        return not any(r.names(session) for r in state.bundles.values() if r.state is not State.RETIRED)
