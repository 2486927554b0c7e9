"""The sessions of one agent, one after the other: register, live by the lease, end, drop all, begin the next.

Invariants: a session that is not registered says nothing but heartbeats; when a session has ended, everything is
dropped before the next one's first heartbeat; a process that lost its place says nothing more; one that cannot follow
the journal begins no session until it can, as it would be granted bundles that it never hears of.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from controller.agent.handover.core import HandoverCore
from controller.agent.handover.driver import HandoverDriver
from controller.agent.metrics import AgentMetrics
from controller.agent.session import registration
from controller.agent.session.heartbeat import Heart
from controller.agent.session.lease import Lease
from controller.agent.session.registration import Standing
from controller.domain.entries import Entry
from controller.domain.ids import Bundle, Session
from controller.domain.state import ClusterState

log = logging.getLogger(__name__)

CUT_OFF = "cut_off"  # the session ended because this agent cannot follow the journal
LOOK_AGAIN_S = 0.1


class Sessions:
    """Runs in one event loop. `current` is the session whose lease lives, or has just lapsed."""

    def __init__(
        self,
        first: Session,
        *,
        driver: HandoverDriver,
        heart: Heart,
        state: Callable[[], ClusterState],
        info: Mapping[str, Any],
        lease_ms: int,
        refuses: Callable[[Bundle], str | None],
        halves: Callable[[Bundle, int], Mapping[str, Any]],
        hears: Callable[[int], bool],
        goodbye: Callable[[], Awaitable[None]],
        on_registered: Callable[[], object],
        on_lost: Callable[[str], None],
        boot_ms: Callable[[], int],
        metrics: AgentMetrics,
    ) -> None:
        """`hears(since)`: the journal is followed, and something came from Kafka since that boot clock; `goodbye` says
        that the current session is over. Both are asked after a cut only. `on_registered` is called once a session,
        `on_lost` when this process has to go."""
        self.current = first
        self.registered = False
        self.over = False  # no further session is begun
        self._driver = driver
        self._heart = heart
        self._state = state
        self._info = info
        self._lease_ms = lease_ms
        self._refuses, self._halves = refuses, halves
        self._hears, self._goodbye = hears, goodbye
        self._on_registered, self._on_lost = on_registered, on_lost
        self._boot_ms = boot_ms
        self._metrics = metrics
        self._ending: asyncio.Task[None] | None = None
        self.lease = Lease(lease_ms, boot_ms())
        metrics.sessions.inc()

    # ---------------------------------------------------------------- what others ask

    def may_act(self) -> bool:
        """Registered, not ending, and the lease lives at this very moment."""
        return self.registered and self._ending is None and not self.lease.lapsed(self._boot_ms())

    def lease_remaining_ms(self) -> int:
        """How long the lease lives without another acknowledgement."""
        return self.lease.remaining_ms(self._boot_ms())

    # ---------------------------------------------------------------- what happens

    def beat(self) -> None:
        """A heartbeat is due. None while a session ends: what it owned is still being dropped."""
        if self._ending is None and not self.over:
            state = self._state()
            journal_id = state.journal_id if state.seq else ""  # that none is followed yet is a word of its own
            self._heart.beat(self.current, self.lease, state.seq, self._info, journal_id)

    def on_applied(self, entries: Sequence[Entry]) -> None:
        """The state has changed by these entries."""
        self._judge()
        self._driver.on_entries(entries, self._state())

    def on_jump(self) -> None:
        """The state has been replaced."""
        self._judge()
        self._driver.on_jump(self._state())

    def check_lease(self) -> None:
        """End the session if its lease has lapsed."""
        if self.lease.lapsed(self._boot_ms()):
            self.end("lease")
        self._metrics.lease_remaining_ms.set(self.lease_remaining_ms())

    def end(self, cause: str, text: str = "") -> None:
        """End the session: drop everything, then begin the next one. Returns at once; once a session."""
        if self._ending is not None or self.over:
            return
        log.warning("session %s ends: %s %s", self.current, cause, text)
        self._metrics.session_ends.labels(cause).inc()
        self._stop_acting()
        self._ending = asyncio.get_running_loop().create_task(self._end_and_begin(cause))
        self._ending.add_done_callback(self._end_failed)

    async def finish(self) -> None:
        """Drop everything for good: no session follows."""
        self.over = True
        self._stop_acting()
        if self._ending is not None:
            await asyncio.wait([self._ending])
        await self._driver.end()

    # ---------------------------------------------------------------- inside

    def _stop_acting(self) -> None:
        self.registered = False
        self.lease.end()
        self._metrics.registered.set(0)

    async def _end_and_begin(self, cause: str) -> None:
        ended_ms = self._boot_ms()
        await self._driver.end()
        if cause == CUT_OFF:
            await self._goodbye()  # heartbeats may still arrive: nobody else would know that this session is over
            while not self.over and not self._hears(ended_ms):
                await asyncio.sleep(LOOK_AGAIN_S)
        if self.over:
            return
        self.current = registration.next_session(self.current)
        self.lease = Lease(self._lease_ms, self._boot_ms())
        self._ending = None
        self._metrics.sessions.inc()
        self.beat()
        self._judge()

    def _end_failed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.over = True
            self._on_lost(f"a session could not be ended: {error}")

    def _judge(self) -> None:
        """What the journal now says of the session."""
        if self._ending is not None or self.over:
            return
        verdict = registration.judge(self._state(), self.current)
        if verdict.standing is Standing.REGISTERED and not self.registered:
            if self.lease.lapsed(self._boot_ms()):
                return self.end("lease")
            log.info("session %s is registered at seq %d", self.current, self._state().seq)
            self.registered = True
            self._metrics.registered.set(1)
            self._driver.begin(HandoverCore(self.current, self._refuses, self._halves), self._state())
            self._on_registered()
        elif verdict.standing is Standing.ENDED:
            self.end("journal", verdict.text)
        elif verdict.standing is Standing.LOST:
            self._stop_acting()
            self.over = True
            self._on_lost(verdict.text)
        return None
