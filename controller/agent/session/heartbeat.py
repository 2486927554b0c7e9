"""Heartbeats to Kafka, and the lease they renew.

Invariant: the boot clock is noted before a heartbeat's first send; Kafka's own retries of it do not move that time.
Sending never waits for tables or the runtime: it has only the event loop and Kafka between itself and the topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from controller.agent.metrics import AgentMetrics
from controller.agent.records import heartbeat
from controller.agent.session.lease import Lease
from controller.domain.ids import Session

log = logging.getLogger(__name__)


class Sender(Protocol):
    """The part of `JsonProducer` that the agent uses."""

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        """Queue one record; the future ends with its acknowledgement or failure, in another thread."""


class Heart:
    """Beats for one session at a time."""

    def __init__(
        self,
        sender: Sender,
        topic: str,
        *,
        boot_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        metrics: AgentMetrics,
    ) -> None:
        self._sender = sender
        self._topic = topic
        self._boot_ms = boot_ms
        self._wall_ms = wall_ms
        self._metrics = metrics
        self._failing = False

    def beat(
        self, session: Session, lease: Lease, applied_seq: int, info: Mapping[str, Any], journal_id: str | None = None
    ) -> None:
        """Send one heartbeat; its acknowledgement renews the lease, in the running loop."""
        loop = asyncio.get_running_loop()
        record = heartbeat(session, applied_seq, self._wall_ms(), info, journal_id)
        first_send_ms = self._boot_ms()
        future = self._sender.send(self._topic, record, key=session.broker)

        def ended(done: Future[tuple[int, int]]) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._ended, lease, first_send_ms, done)

        future.add_done_callback(ended)

    def _ended(self, lease: Lease, first_send_ms: int, done: Future[tuple[int, int]]) -> None:
        error = done.exception()
        if error is None:
            lease.renew(first_send_ms, self._boot_ms())
            self._metrics.heartbeats_acked.inc()
        else:
            self._metrics.heartbeats_failed.inc()
        if (error is not None) != self._failing:
            self._failing = error is not None
            log.warning("heartbeats %s", f"fail: {error}" if self._failing else "are acknowledged again")
