"""What `ballast produce` and `ballast consume` share: lookups, an endpoint for each partition, their end.

They need no terminal: lines come from stdin and go to stdout, whatever these are. Ctrl-C and SIGTERM end them in good
order.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from controller.brokers.reference.client.endpoint import Endpoint, Refused
from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.lookup import Lookup
from controller.config.http_access import http_access
from controller.config.settings import Settings
from controller.domain.errors import BallastError
from controller.domain.ids import partition_names, split_partition
from controller.operations.reading import Reader
from controller.operations.text import count_text

CONFIRM_S = 10.0  # for what is on its way when a client ends
Topic = Annotated[
    str, typer.Argument(help="persistent://tenant/namespace/topic, or just tenant/namespace/topic; or a partition.")
]
LookupUrls = Annotated[
    list[str] | None,
    typer.Option("--lookup", help="An agent's URL, in place of those in the tables; repeatable.", show_default=False),
]
Wait = Annotated[float, typer.Option("--wait", help="Seconds to wait until somebody serves the topic.", min=0.1)]
WAIT_S = 30.0
E = TypeVar("E", bound=Endpoint)


class NotServed(BallastError):
    """Raised when a topic cannot be opened."""


def unique_name(kind: str) -> str:
    """A name that no other client has."""
    return f"{kind}-{socket.gethostname()}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class Asked:
    """Agents to look a topic up at, which have read the journal up to `seq`: a topic that was created a moment ago has
    its partitions there."""

    urls: list[str]
    seq: int = 0


def whom_to_ask(settings: Settings, given: list[str] | None) -> Asked:
    """Where to look the topic up. Raises NotServed where no agent has told."""
    if given:
        return Asked(given)
    reader = Reader(settings, at_once=True)
    asked = Asked(reader.lookup_urls(), reader.outline().state.seq)
    if not asked.urls:
        raise NotServed("no living broker has told where it answers lookups: is an agent running? (`ballast brokers`)")
    return asked


@asynccontextmanager
async def opened(
    settings: Settings, asked: Asked, topic: str, wait_s: float, stopping: Stopping,
    make: Callable[[str, Lookup, Links], E],
) -> AsyncIterator[list[E]]:  # fmt: skip
    """What `make` makes for the topic or each of its partitions, open at the owners; closed at the end.

    Raises NotServed unless all are, in time and before the client is to stop.
    """
    lookup, links = Lookup(asked.urls, access=http_access(settings)), Links()
    endpoints: list[E] = []

    async def open_all() -> None:
        partitions = (await lookup.find(topic, asked.seq)).partitions
        await _check_partition(lookup, topic, asked.seq)
        endpoints.extend(make(name, lookup, links) for name in partition_names(topic, partitions))
        await asyncio.gather(*(endpoint.start() for endpoint in endpoints))

    try:
        waited_s = await _wait_for(open_all(), wait_s, stopping.event)
        if waited_s is not None:
            stopping.raise_failure()
            name = next((endpoint.topic for endpoint in endpoints if not endpoint.address), topic)
            why = lookup.trouble or f"`ballast topic lookup {name}` tells why"
            after = "when told to end, " if stopping.event.is_set() else ""
            raise NotServed(f"{name} is served by nobody {after}after {waited_s:.3g} s: {why}")
        yield endpoints
    finally:
        await asyncio.gather(*(endpoint.stop() for endpoint in endpoints))
        links.close()
        await lookup.close()


async def _check_partition(lookup: Lookup, topic: str, seq: int) -> None:
    """Raises NotServed for a partition that its topic does not have: it would be a topic that nobody reads."""
    whole, number = split_partition(topic)
    if number is None:
        return
    partitions = (await lookup.find(whole, seq)).partitions
    if number >= partitions > 0:
        raise NotServed(f"{whole} has {count_text(partitions, 'partition')}, numbered from 0: there is no {number}")


async def _wait_for(opening: Coroutine[Any, Any, None], wait_s: float, stop: asyncio.Event) -> float | None:
    """None once it is done; else how long it was waited for. Raises NotServed where a broker refuses for good."""
    loop = asyncio.get_running_loop()
    began_s, tasks = loop.time(), [asyncio.ensure_future(opening), asyncio.ensure_future(stop.wait())]
    await asyncio.wait(tasks, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
    opened, _ = tasks
    done = opened.done()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if not done:
        return min(loop.time() - began_s, wait_s)  # a busy machine is late to notice
    try:
        opened.result()
    except Refused as error:
        raise NotServed(str(error)) from None
    return None


def messages_text(number: int, done: str, topic: str, partitions: int) -> str:
    """`3 messages stored in TOPIC (2 partitions)`; `partitions`: 0 for a topic without."""
    parts = f" ({count_text(partitions, 'partition')})" if partitions else ""
    return f"{count_text(number, 'message')} {done} {topic}{parts}"


class Stopping:
    """Set by Ctrl-C, SIGTERM, and a client that failed for good. Make it before the client."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._failure: object = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.event.set)
        loop.set_exception_handler(self._fail)

    def raise_failure(self) -> None:
        """Raise NotServed if the client has failed."""
        if self._failure is not None:
            raise NotServed(str(self._failure))

    def _fail(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._failure = context.get("exception") or context["message"]
        self.event.set()
