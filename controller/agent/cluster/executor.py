"""Runs the orders of a cluster's agent, each in a task of its own, and tells their outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from controller.agent.cluster import orders as ask
from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.metrics import ClusterMetrics
from controller.agent.cluster.non_persistent import NonPersistentTopics
from controller.agent.cluster.orders import Ended, carry_out
from controller.agent.cluster.sessions import ClusterSessions
from controller.agent.cluster.speaker import Speaker
from controller.domain.observed import Order

log = logging.getLogger(__name__)

StartTask = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
BEGUN_KEPT = 10_000


class OrderExecutor:
    """Begins each order once. An order that the journal has ended is dropped, wherever it is."""

    def __init__(
        self,
        nonce: str,
        calls: PulsarCalls,
        speaker: Speaker,
        sessions: ClusterSessions,
        start_task: StartTask,
        non_persistent: NonPersistentTopics,
        metrics: ClusterMetrics,
        *,
        boot_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._nonce, self._calls, self._speaker, self._sessions = nonce, calls, speaker, sessions
        self._start_task, self._boot_ms, self._wall_ms = start_task, boot_ms, wall_ms
        self._non_persistent, self._metrics = non_persistent, metrics
        metrics.orders_open.set_function(lambda: len(self._running))
        self._running: dict[str, asyncio.Task[None]] = {}
        self._begun: dict[str, None] = {}

    def on_applied(self) -> None:
        """Begin the orders that the journal gave to this agent, and drop those that ended."""
        open_orders = self._speaker.state().observed.orders.values()
        ours = {order.id: order for order in open_orders if order.executor == self._nonce}
        for gone in self._running.keys() - ours.keys():
            self._running.pop(gone).cancel()
        for order in sorted(ours.values(), key=lambda order: order.seq):
            if order.id not in self._begun:
                self._begun[order.id] = None
                self._running[order.id] = self._start_task(self._carry_out(order))
        while len(self._begun) > BEGUN_KEPT:
            del self._begun[next(iter(self._begun))]

    async def _carry_out(self, order: Order) -> None:
        began_ms = self._boot_ms()
        try:
            ended = await self._ask_until_ended(order)
        finally:
            self._running.pop(order.id, None)
        if ended is None:
            return
        took_ms = self._boot_ms() - began_ms
        log.info("order %s of %s: %s", order.id, order.bundle, ended.outcome.value)
        self._metrics.note_order(ended.outcome, took_ms)
        took = {"took_ms": took_ms, "ended_at_ms": self._wall_ms()}
        session = self._sessions.session_of(order.source) or self._sessions.any_session()
        if session is not None:
            data = {"id": order.id, **ended.to_data(), **took}
            self._speaker.send(session, "order_ended", bundle=str(order.bundle), data=data)

    async def _ask_until_ended(self, order: Order) -> Ended | None:
        """The order's end; None if it was not sent because the lease had ended: the journal will end it."""
        spare = self._non_persistent.spares(order)
        run = carry_out(order, self._speaker.state().modular, spare)
        answer: Any = None
        while True:
            try:
                call = run.send(answer)
            except StopIteration as stop:
                ended: Ended = stop.value
                return ended
            if isinstance(call, ask.Unload | ask.Split) and not self._sessions.may_act(order.source):
                log.warning("order %s is not sent: the lease of %s has ended", order.id, order.source)
                return None
            answer = await self._calls.answer(call)
            if isinstance(call, ask.CountNonPersistent):
                self._non_persistent.note(str(call.bundle), answer)
            if isinstance(call, ask.Split):
                await self._speaker.tell_ring(call.bundle.namespace)
