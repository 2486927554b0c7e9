"""Lookups: at any agent, through the real handler, and what its answers must be.

An answer must come from an agent that has a valid lease at that moment, and must name whom the journal names up to the
seq in the answer; for a bundle that nobody has, the agent asks the controller for an owner, as it does for any client.

Some lookups come at random times, from nowhere. Those of clients come over connections, on which a request is a query
string and an answer a status, a pause and a body, which is all that HTTP carries here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import httpx
import msgspec
from starlette.responses import Response

from controller.domain.ids import topic_hash
from controller.domain.ownership import State
from controller.domain.ring import locate
from controller.domain.state import ClusterState
from controller.testbed.simulated.broker import LOOKUP, SimBroker
from controller.testbed.simulated.world import World

EVERY_MS = (100, 1_500)
TIMEOUT_S = 12.0
TOPICS = 12
FOUND, UNAVAILABLE = 200, 503
ANSWERED = "lookup answered {}"
COUNTED = (ANSWERED.format(FOUND), ANSWERED.format(UNAVAILABLE))


class SimLookups:
    """Looks up for as long as the run lasts. `breach` is told of a wrong answer."""

    def __init__(
        self, world: World, namespace: str, living: Callable[[], list[SimBroker]], breach: Callable[[str], None]
    ) -> None:
        self._world, self._living, self._breach = world, living, breach
        self._dice: Random = world.dice("clients")
        self._topics = [f"persistent://{namespace}/topic-{number}" for number in range(TOPICS)]
        self._states: dict[int, ClusterState] = {}
        self._next()

    def note(self, state: ClusterState) -> None:
        """The journal has come to this state."""
        self._states[state.seq] = state

    async def ask(self, one: SimBroker, topic: str, at_least: str = "0") -> Response:
        """What an agent answers, in its own loop."""
        request: Any = SimpleNamespace(query_params={"topic": topic, "at_least": at_least})
        response: Response = await one.lookup(request)
        self._world.counts[ANSWERED.format(response.status_code)] += 1
        if response.status_code == FOUND and one.alive:
            self._judge(one, topic, msgspec.json.decode(response.body))
        return response

    def _next(self) -> None:
        low, high = EVERY_MS
        self._world.after(self._dice.uniform(low, high), self._look_up)

    def _look_up(self) -> None:
        living, topic, drawn = self._living(), self._dice.choice(self._topics), self._dice.random()
        if living:
            one = living[int(drawn * len(living))]
            one.loop.call_soon_threadsafe(lambda: one.loop.create_task(self.ask(one, topic)))
        self._next()

    def _judge(self, one: SimBroker, topic: str, answer: dict[str, Any]) -> None:
        if not one.has_lease():
            self._breach(f"{one.broker} answers a lookup without a valid lease")
        state = self._states.get(answer["seq"])
        if state is not None and answer["broker"] != (whom := owner_for_clients(state, topic)):
            self._breach(f"{one.broker} names {answer['broker']!r} for {answer['bundle']}, the journal {whom!r}")


def owner_for_clients(state: ClusterState, topic: str) -> str:
    """Whom clients should ask, by the state table: the owner, or who takes over once a release has begun. Empty: none,
    or one whose session has ended, or whose broker has another process by now."""
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    record = state.bundles[str(locate(state.namespaces[namespace], topic_hash(topic)))]
    taking_over = record.state in (State.ASSIGNING, State.RELEASING)
    session = record.to if taking_over else record.by
    if session is None or record.state in (State.FREE, State.RETIRED) or session not in state.sessions:
        return ""
    return session.broker if state.brokers[session.broker].session.process == session.process else ""


class LookupServer(asyncio.Protocol):
    """An agent's end of a client's connection."""

    def __init__(self, one: SimBroker, lookups: SimLookups) -> None:
        self._one, self._lookups = one, lookups

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the connection is up."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """asyncio: a request."""
        query = msgspec.json.decode(data)
        self._task = self._one.loop.create_task(self._answer(query["topic"], str(query.get("at_least", 0))))

    async def _answer(self, topic: str, at_least: str) -> None:
        found = await self._lookups.ask(self._one, topic, at_least)
        head = {"status": found.status_code, "retry_after": found.headers.get("Retry-After", "")}
        self._transport.write(msgspec.json.encode(head) + b"\n" + bytes(found.body))


class Told(NamedTuple):
    """What `Lookup` reads of an `httpx.Response`, which takes much longer to make."""

    status_code: int
    headers: dict[str, str]
    content: bytes


class LookupClient:
    """What `Lookup` asks with, in place of an HTTP client: one connection a request."""

    async def get(self, url: str, *, params: dict[str, str | int]) -> httpx.Response:
        """Raises httpx.HTTPError."""
        port = int(url.removesuffix(LOOKUP).rpartition(":")[2])
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        transport: asyncio.Transport | None = None
        try:
            transport, _ = await loop.create_connection(lambda: _Answered(answer), "", port)
            transport.write(msgspec.json.encode(params))
            head, _, body = (await asyncio.wait_for(answer, TIMEOUT_S)).partition(b"\n")
        except asyncio.TimeoutError:
            raise httpx.ReadTimeout(f"{url} does not answer") from None
        except OSError as error:
            raise httpx.ConnectError(str(error)) from None
        finally:
            if transport is not None:
                transport.close()
        told = msgspec.json.decode(head)
        return cast(httpx.Response, Told(told["status"], {"Retry-After": told["retry_after"]}, body))

    async def aclose(self) -> None:
        """There is nothing to close."""


class _Answered(asyncio.Protocol):
    def __init__(self, answer: asyncio.Future[bytes]) -> None:
        self._answer = answer

    def data_received(self, data: bytes) -> None:
        if not self._answer.done():
            self._answer.set_result(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the agent closed the connection"))
