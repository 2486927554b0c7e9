"""How a client finds a topic's owner: HTTP lookups at any agent, with back-off.

`at_least` is the newest journal seq that the client has heard of. An agent that lags behind it waits or fails, so that
a client never circles between a broker that gave a bundle away and an agent that does not know it yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from controller.domain.errors import BadRecord, describe_error, shown
from controller.domain.ids import MAX_PARTITIONS
from controller.domain.strict_json import is_whole
from controller.process.access.access import NO_ACCESS_RULES, HttpAccess
from controller.process.access.client import REFUSALS, new_async_client, read_object, refusal_text

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.02
MAX_BACKOFF_S = 1.0
MOST_ADDRESS = 512  # characters


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """The broker that serves a topic, as of a journal seq. `partitions`: see `Found`."""

    broker: str
    address: str
    seq: int
    partitions: int = 0


class Http(Protocol):
    """The part of `httpx.AsyncClient` that lookups need."""

    async def get(self, url: str, *, params: dict[str, str | int]) -> httpx.Response:
        """Raises httpx.HTTPError when no answer comes."""

    async def aclose(self) -> None:
        """Close the connections."""


class Lookup:
    """Asks the agents in turn until one knows the owner. Shared by all clients of a process."""

    def __init__(
        self,
        urls: list[str],
        *,
        timeout_s: float = 12.0,
        parallel: int = 32,
        access: HttpAccess = NO_ACCESS_RULES,
        http: Http | None = None,
    ) -> None:
        """`access`: the token and certificate to show; `http`: who asks, in place of a client with that access. Raises
        ConfigError for TLS files that are of no use."""
        self._urls = [url.rstrip("/") for url in urls]
        self._next = 0
        self._http: Http = http or new_async_client(access, timeout_s)
        self._slots = asyncio.Semaphore(parallel)  # when a broker goes away, all its clients come here at once
        self.asked = 0
        self._told = self._silent = ""  # what an agent said last in place of an owner; which one did not answer
        self._refused = False  # one warning for a client that is not let in, however often it tries again

    async def find(self, topic: str, at_least: int = 0) -> TopicAddress:
        """The owner; waits while the topic has none or no agent answers."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            async with self._slots:
                found, wait_s = await self._ask(topic, at_least)
            if found is not None:
                return found
            await asyncio.sleep(wait_s if wait_s is not None else backoff_s)
            backoff_s = min(MAX_BACKOFF_S, 2 * backoff_s)

    @property
    def trouble(self) -> str:
        """Why the last lookups found no owner, in an agent's words if one has answered; empty while that is unknown."""
        return self._told or self._silent

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._http.aclose()

    async def _ask(self, topic: str, at_least: int) -> tuple[TopicAddress | None, float | None]:
        asked = self._next
        url = self._urls[asked % len(self._urls)]
        params: dict[str, str | int] = {"topic": topic}
        if at_least > 0:
            params["at_least"] = at_least
        self.asked += 1
        try:
            answer = await self._http.get(f"{url}/lookup", params=params)
            if answer.status_code == 200:
                found = _address_in(read_object(answer))
                self._told = self._silent = ""
                return found, None
        except (httpx.HTTPError, BadRecord) as error:
            self._silent = f"{url} does not answer lookups ({describe_error(error) or type(error).__name__})"
            self._turn_from(asked)  # this agent is gone or answers nonsense: try the next one
            return None, None
        self._told = refusal_text(url, answer)
        self._turn_from(asked)
        if answer.status_code in REFUSALS and not self._refused:
            self._refused = True
            log.warning("lookups are refused, trying again: %s", refusal_text(url, answer))
        return None, _retry_after_s(answer)

    def _turn_from(self, asked: int) -> None:
        """Move on from the agent that was asked, once: if two failed lookups at the same agent each took a step, the
        second step could lead back to it."""
        self._next = max(self._next, asked + 1)


def _address_in(body: Mapping[str, Any]) -> TopicAddress:
    """The address that an agent names. Raises BadRecord."""
    broker, address, seq, partitions = (body.get(key) for key in ("broker", "address", "seq", "partitions"))
    for text in (broker, address):
        if not isinstance(text, str) or len(text) > MOST_ADDRESS or not text.isprintable():
            raise BadRecord("lookup_answer", f"{shown(text)} is no broker or address")
    if not is_whole(seq):
        raise BadRecord("lookup_answer", f"{shown(seq)} is no journal seq")
    if partitions is not None and not (is_whole(partitions) and partitions <= MAX_PARTITIONS):
        raise BadRecord("lookup_answer", f"{shown(partitions)} is no number of partitions")
    return TopicAddress(str(broker), str(address), seq, partitions or 0)


def _retry_after_s(answer: httpx.Response) -> float | None:
    try:
        return min(MAX_BACKOFF_S, max(FIRST_BACKOFF_S, float(answer.headers.get("Retry-After", ""))))
    except ValueError:
        return None
