"""An HTTP client for each address: httpx looks at all connections of a client for every request.

Pods come and go, each with an address of its own, so what is asked no more is closed, once no request uses it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager

import httpx


class Clients:
    """The clients by address. `make`: a new one."""

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._requests: Counter[str] = Counter()  # that use the address's client now

    @asynccontextmanager
    async def take(self, address: str) -> AsyncIterator[httpx.AsyncClient]:
        """The client for a request to this address; it stays open until the request has ended."""
        if address not in self._clients:
            self._clients[address] = self._make()
        self._requests[address] += 1
        try:
            yield self._clients[address]
        finally:
            self._requests[address] -= 1

    async def keep(self, addresses: Container[str]) -> None:
        """Close the clients of all other addresses; one in use stays until the next call."""
        over = [address for address in self._clients if address not in addresses and not self._requests[address]]
        for address in over:
            del self._requests[address]
        await asyncio.gather(*(self._clients.pop(address).aclose() for address in over))

    async def close(self) -> None:
        """Close them all."""
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))
