"""The sessions of one agent, one after the other: register, serve under the lease, end, drop all, start the next.

Invariants: an unregistered session sends heartbeats only; after a session has ended, everything is dropped before the
next one's first heartbeat; a process that lost its place sends nothing more; a process that cannot follow the journal
starts no session, because it would be granted bundles without ever learning of it.
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
from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.session.lease import Lease
from controller.agent.session.registration import REPLACED, Standing, Verdict
from controller.domain.entries import Entry
from controller.domain.ids import Bundle, Session
from controller.domain.state import ClusterState

log = logging.getLogger(__name__)

CUT_OFF = "cut_off"  # cause of a session's end: this agent cannot follow the journal
LOOK_AGAIN_S = 0.1


class Sessions:
    """Runs in one event loop. `current` is the session whose lease is valid, or has just expired."""

    def __init__(
        self,
        first: Session,
        *,
        driver: HandoverDriver,
        heartbeats: HeartbeatSender,
        state: Callable[[], ClusterState],
        info: Mapping[str, Any],
        lease_ms: int,
        refuses: Callable[[Bundle], str | None],
        halves: Callable[[Bundle, int], Mapping[str, Any]],
        hears: Callable[[int], bool],
        deregister: Callable[[], Awaitable[None]],
        on_registered: Callable[[], object],
        on_replaced: Callable[[Verdict], None],
        on_stuck: Callable[[str], None],
        boot_ms: Callable[[], int],
        metrics: AgentMetrics,
    ) -> None:
        """`hears(since)`: whether the journal is followed and a record has come from Kafka since then (boot clock).
        `deregister` tells the controller that the current session is over. Both are called only when the session ended
        because the journal could not be followed. `on_registered` is called once a session, `on_replaced` when another
        process is this broker, `on_stuck` when the runtime would not stop serving: only the process's end ends that."""
        self.current = first
        self.registered = False
        self.over = False  # no further session is started
        self._driver = driver
        self._heartbeats = heartbeats
        self._state = state
        self._info = info
        self._lease_ms = lease_ms
        self._refuses, self._halves = refuses, halves
        self._hears, self._deregister = hears, deregister
        self._on_registered, self._on_replaced, self._on_stuck = on_registered, on_replaced, on_stuck
        self._boot_ms = boot_ms
        self._metrics = metrics
        self._ending: asyncio.Task[None] | None = None
        self.lease = Lease(lease_ms, boot_ms())
        metrics.sessions.inc()

    # ---------------------------------------------------------------- questions

    def may_act(self) -> bool:
        """Whether the session is registered, not ending, and its lease valid at this very moment."""
        return self.registered and self._ending is None and not self.lease.has_expired(self._boot_ms())

    def replaced(self) -> bool:
        """Whether the journal has named another process in this one's place, which then says nothing more."""
        return registration.judge(self._state(), self.current).standing in REPLACED

    def lease_remaining_ms(self) -> int:
        """Time until the lease expires without another acknowledgement."""
        return self.lease.remaining_ms(self._boot_ms())

    # ---------------------------------------------------------------- events

    def send_heartbeat(self) -> None:
        """Send the heartbeat that is due; none while a session ends, as its bundles are still being dropped."""
        if self._ending is None and not self.over:
            state = self._state()
            journal_id = state.journal_id if state.seq else ""  # empty: none is followed yet
            self._heartbeats.send(self.current, self.lease, state.seq, self._info, journal_id)

    def on_applied(self, entries: Sequence[Entry]) -> None:
        """These entries have just been applied to the state."""
        self._judge()
        self._driver.on_entries(entries, self._state())

    def on_jump(self) -> None:
        """The state has been replaced as a whole."""
        self._judge()
        self._driver.on_jump(self._state())

    def check_lease(self) -> None:
        """End the session if its lease has expired."""
        remaining_ms = self.lease_remaining_ms()
        if remaining_ms == 0:
            self.end("lease")
        self._metrics.lease_remaining_ms.set(remaining_ms)

    def end(self, cause: str, text: str = "") -> None:
        """End the session: drop everything, then start the next one. Returns at once; further calls change nothing."""
        if self._ending is not None or self.over:
            return
        log.warning("session %s ends: %s %s", self.current, cause, text)
        self._metrics.session_ends.labels(cause).inc()
        self._stop_acting()
        self._ending = asyncio.get_running_loop().create_task(self._end_and_begin(cause))
        self._ending.add_done_callback(self._on_end_failed)

    async def finish(self) -> bool:
        """End for good: drop everything and start no further session. False if the runtime would not stop serving."""
        self.over = True
        self._stop_acting()
        if self._ending is not None:
            await asyncio.wait([self._ending])
        try:
            await self._driver.end()
        except Exception as error:  # also what the runtime raises: the rest of the process is to end all the same
            self._on_stuck(f"the last session could not be ended: {error}")
            return False
        return True

    # ---------------------------------------------------------------- inside

    def _stop_acting(self) -> None:
        self.registered = False
        self.lease.end()
        self._metrics.registered.set(0)

    async def _end_and_begin(self, cause: str) -> None:
        ended_ms = self._boot_ms()
        await self._driver.end()
        if cause == CUT_OFF:
            if not self.replaced():
                await self._deregister()  # its heartbeats may still arrive, so the controller would keep it alive
            while not self.over and not self._hears(ended_ms):
                await asyncio.sleep(LOOK_AGAIN_S)
        if self.over:
            return
        self.current = registration.next_session(self.current)
        self.lease = Lease(self._lease_ms, self._boot_ms())
        self._ending = None
        self._metrics.sessions.inc()
        self._judge()  # the journal may have named another process meanwhile
        self.send_heartbeat()

    def _on_end_failed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.over = True
            self._on_stuck(f"a session could not be ended: {error}")

    def _judge(self) -> None:
        """Act on what the journal now says about the session."""
        if self._ending is not None or self.over:
            return
        verdict = registration.judge(self._state(), self.current)
        if verdict.standing is Standing.REGISTERED and not self.registered:
            if self.lease.has_expired(self._boot_ms()):
                return self.end("lease")
            log.info("session %s is registered at seq %d", self.current, self._state().seq)
            self.registered = True
            self._metrics.registered.set(1)
            self._driver.begin(HandoverCore(self.current, self._refuses, self._halves), self._state())
            self._on_registered()
        elif verdict.standing is Standing.ENDED:
            self.end("journal", verdict.text)
        elif verdict.standing in REPLACED:
            self._stop_acting()
            self.over = True
            self._on_replaced(verdict)
        return None
