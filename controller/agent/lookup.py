"""The lookup server of an agent: `GET /lookup?topic=…[&at_least=seq]` for any topic, from the replicated view.

It works without the controller, but not without a live session: an agent cut off from Kafka or the journal would send
clients to brokers that own nothing any more. For a topic without an owner it sends an assign request, once a second
while a client waits; after a bounded wait the client gets 503 with Retry-After.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from controller.agent.directory import Found, UnknownNamespace, find
from controller.agent.metrics import AgentMetrics
from controller.agent.signal import Signal
from controller.domain.errors import BadRecord
from controller.domain.ids import Bundle
from controller.domain.state import ClusterState

ASK_AGAIN_S = 1.0
MAX_SEQ_DIGITS = 18
RETRY_AFTER = {"Retry-After": "1"}


class LookupService:
    """Answers lookups; `ask` sends one assign request for a bundle."""

    def __init__(
        self,
        state: Callable[[], ClusterState | None],
        changes: Signal,
        ask: Callable[[Bundle], None],
        wait_ms: int,
        metrics: AgentMetrics,
        follows: Callable[[], bool] = lambda: True,
    ) -> None:
        """`follows`: whether the agent's session is live, so that its view of the journal is at most one lease old."""
        self._view = state
        self._follows = follows
        self._changes = changes
        self._ask = ask
        self._wait_s = wait_ms / 1000
        self._metrics = metrics
        self._asked: dict[Bundle, float] = {}

    def routes(self) -> list[Route]:
        """`/lookup` and `/brokers`."""
        return [Route("/lookup", self.lookup), Route("/brokers", self.brokers)]

    def _state(self) -> ClusterState:
        return self._view() or ClusterState()

    async def lookup(self, request: Request) -> Response:
        """200 with the owner; 400 bad name or number; 404 unknown namespace; 503 no owner yet, or view too old."""
        topic, least = request.query_params.get("topic", ""), request.query_params.get("at_least", "0")
        if not (least.isascii() and least.isdigit() and len(least) <= MAX_SEQ_DIGITS):
            return self._refuse("bad_request", 400, f"at_least={least[:40]!r} is not a journal seq")
        deadline = _now() + self._wait_s
        if self._view() is None:
            return self._refuse("starting", 503, "this agent has not read the journal yet; ask again")
        if not self._follows():
            return self._refuse_cut_off()
        try:
            if not await self._wait_for_seq(int(least), deadline):
                text = f"this agent has applied seq {self._state().seq}, not {least} yet; ask again"
                return self._refuse("behind", 503, text)
            found = await self._wait_for_owner(topic, deadline)
        except BadRecord as error:
            return self._refuse("bad_request", 400, error.text)
        except UnknownNamespace as error:
            return self._refuse("unknown_namespace", 404, str(error))
        if not self._follows():  # the session may have ended while this waited
            return self._refuse_cut_off()
        if not found.broker:
            text = f"nobody serves {found.bundle} (epoch {found.epoch}, seq {found.seq}); asked for it, try again"
            return self._refuse("unowned", 503, text)
        self._metrics.lookups.labels("found").inc()
        return JSONResponse(found.to_json())

    async def brokers(self, request: Request) -> Response:
        """The live brokers with their addresses, according to the journal."""
        state = self._state()
        rows: list[dict[str, Any]] = [
            {
                "broker": broker.id,
                "session": str(broker.session),
                "address": broker.info.get("data_address", ""),
                "lookup_url": broker.info.get("lookup_url", ""),
                "drained": broker.drained,
                "leaving": broker.leaving,
            }
            for broker in state.live_brokers()
        ]
        return JSONResponse({"seq": state.seq, "brokers": rows})

    async def _wait_for_seq(self, seq: int, deadline: float) -> bool:
        while self._state().seq < seq:
            if _now() >= deadline:
                return False
            await self._changes.wait(deadline - _now())
        return True

    async def _wait_for_owner(self, topic: str, deadline: float) -> Found:
        """The owner; after the deadline, what is known without one."""
        while True:
            found = find(self._state(), topic)
            left = deadline - _now()
            if found.broker or left <= 0:
                self._asked.pop(found.bundle, None)
                return found
            self._ask_once_a_second(found.bundle)
            await self._changes.wait(min(left, ASK_AGAIN_S))

    def _ask_once_a_second(self, bundle: Bundle) -> None:
        now = _now()
        if now - self._asked.get(bundle, -ASK_AGAIN_S) >= ASK_AGAIN_S:
            self._asked[bundle] = now
            self._metrics.assign_requests.inc()
            self._ask(bundle)

    def _refuse_cut_off(self) -> Response:
        """It may name itself for what others serve by now, and a client that keeps asking would never get away."""
        return self._refuse("cut_off", 503, "this agent has no living session, its view may be old; ask another")

    def _refuse(self, outcome: str, status: int, text: str) -> Response:
        self._metrics.lookups.labels(outcome).inc()
        headers = RETRY_AFTER if status == 503 else None
        return JSONResponse({"error": outcome, "text": text, "seq": self._state().seq}, status, headers)


def _now() -> float:
    return asyncio.get_running_loop().time()
