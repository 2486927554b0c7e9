"""What `ballast produce` and `ballast consume` share: lookups, one endpoint, its end.

They need no terminal: lines come from stdin and go to stdout, whatever these are. Ctrl-C and SIGTERM end them in good
order.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

import typer

from controller.brokers.reference.client.endpoint import Endpoint, Refused
from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.lookup import Lookup
from controller.config.http_access import http_access
from controller.config.settings import Settings
from controller.domain.errors import BallastError
from controller.operations.reading import Reader

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
Opener = Callable[[Lookup, Links], Endpoint]


class NotServed(BallastError):
    """Raised when a topic cannot be opened."""


def unique_name(kind: str) -> str:
    """A name that no other client has."""
    return f"{kind}-{socket.gethostname()}-{uuid.uuid4().hex[:8]}"


def lookup_urls(settings: Settings, given: list[str] | None) -> list[str]:
    """Where to look the topic up. Raises NotServed where no agent has told."""
    urls = given or Reader(settings).lookup_urls()
    if not urls:
        raise NotServed("no living broker has told where it answers lookups: is an agent running? (`ballast brokers`)")
    return urls


@asynccontextmanager
async def opened(settings: Settings, urls: list[str], wait_s: float, make: Opener) -> AsyncIterator[Endpoint]:
    """The endpoint that `make` makes, open at the topic's owner; closed at the end. Raises NotServed."""
    lookup, links = Lookup(urls, access=http_access(settings)), Links()
    endpoint = make(lookup, links)
    try:
        try:
            await asyncio.wait_for(endpoint.start(), wait_s)
        except asyncio.TimeoutError:
            raise NotServed(
                f"{endpoint.topic} is served by nobody after {wait_s:g} s: `ballast topic lookup {endpoint.topic}` "
                "tells why"
            ) from None
        except Refused as error:
            raise NotServed(str(error)) from None
        yield endpoint
    finally:
        await endpoint.stop()
        links.close()
        await lookup.close()


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
