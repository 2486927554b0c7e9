"""An agent stops itself: it ends its session once the lease has expired or the journal can no longer be followed.

Invariant: no controller is needed for it. Ending a session drops every bundle, so an agent that is cut off stops
serving before the controller gives its bundles to others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

from controller.agent.feed_health import FeedHealth, Hearing
from controller.agent.session.session import CUT_OFF, Sessions


class SelfFencing:
    """Checks lease and feed of the current session. One event loop."""

    def __init__(
        self,
        sessions: Callable[[], Sessions],
        health: FeedHealth,
        send_probe: Callable[[], Future[tuple[int, int]] | None],
        boot_ms: Callable[[], int],
    ) -> None:
        """`send_probe` sends a record on `broker-events`, which must come back; None when nothing may be sent."""
        self._sessions = sessions
        self._health = health
        self._send_probe = send_probe
        self._boot_ms = boot_ms

    def check(self) -> None:
        """End the session if it must not go on. Call this several times a second."""
        sessions = self._sessions()
        sessions.check_lease()
        hearing = self._health.judge(self._boot_ms()) if sessions.registered else Hearing.FINE
        if hearing is Hearing.END_SESSION:
            sessions.end(CUT_OFF, self._health.reason)
        elif hearing is Hearing.PROBE:
            self._probe()

    def _probe(self) -> None:
        """After a silence: an inventory that comes back proves that this agent can still fetch from Kafka."""
        loop, sent = asyncio.get_running_loop(), self._send_probe()

        def on_acknowledged(done: Future[tuple[int, int]]) -> None:
            if done.exception() is None and not loop.is_closed():
                loop.call_soon_threadsafe(lambda: self._health.on_probe_acked(self._boot_ms()))

        if sent is not None:
            sent.add_done_callback(on_acknowledged)
