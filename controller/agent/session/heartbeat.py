"""Sends heartbeats to Kafka; their acknowledgements renew the lease.

Invariant: the boot clock is read before a heartbeat's first send, and Kafka's own retries do not move that time.
Sending waits neither for tables nor for the runtime.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from controller.agent.connections import Sender
from controller.agent.metrics import AgentMetrics
from controller.agent.records import heartbeat
from controller.agent.session.lease import Lease
from controller.bus.topics import TopicNames
from controller.domain.ids import Session

log = logging.getLogger(__name__)


class HeartbeatSender:
    """Sends the heartbeats of one session at a time."""

    def __init__(
        self,
        sender: Sender,
        names: TopicNames,
        *,
        boot_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        metrics: AgentMetrics,
    ) -> None:
        self._sender = sender
        self._names = names
        self._boot_ms = boot_ms
        self._wall_ms = wall_ms
        self._metrics = metrics
        self._failing = False

    def send(
        self, session: Session, lease: Lease, applied_seq: int, info: Mapping[str, Any], journal_id: str | None = None
    ) -> None:
        """Send one heartbeat; its acknowledgement renews the lease in the running loop."""
        loop = asyncio.get_running_loop()
        record = heartbeat(session, applied_seq, self._wall_ms(), info, journal_id)
        topic = self._names.of_broker(session.broker).heartbeats
        first_send_ms = self._boot_ms()
        future = self._sender.send(topic, record, key=session.broker)

        def on_done(done: Future[tuple[int, int]]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._on_done, lease, first_send_ms, done)

        future.add_done_callback(on_done)

    def _on_done(self, lease: Lease, first_send_ms: int, done: Future[tuple[int, int]]) -> None:
        error = done.exception()
        if error is None:
            lease.renew(first_send_ms, self._boot_ms())
            self._metrics.heartbeats_acked.inc()
        else:
            self._metrics.heartbeats_failed.inc()
        if (error is not None) != self._failing:
            self._failing = error is not None
            log.warning("heartbeats %s", f"fail: {error}" if self._failing else "are acknowledged again")
