"""How many calls run at once: 32 in all, 2 to a broker, and few to brokers that did not answer lately.

A broker that hangs holds its slots until its calls time out. From then on it is asked with slots of its own, so that
the others never wait for it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager

TOTAL, PER_BROKER, FOR_SLOW = 32, 2, 8


class Slots:
    """The slots of one kind of call."""

    def __init__(self, total: int = TOTAL, per_broker: int = PER_BROKER, for_slow: int = FOR_SLOW) -> None:
        self._all = asyncio.Semaphore(total)
        self._for_slow = asyncio.Semaphore(for_slow)
        self._of_broker: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(per_broker))
        self._slow: set[str] = set()

    @asynccontextmanager
    async def take(self, address: str) -> AsyncIterator[None]:
        """Hold a slot for a call to this address."""
        async with self._of_broker[address], self._for_slow if address in self._slow else self._all:
            yield

    def note(self, address: str, timed_out: bool) -> None:
        """Remember whether the last call to this address timed out."""
        (self._slow.add if timed_out else self._slow.discard)(address)

    def is_slow(self, address: str) -> bool:
        """Whether the last call to this address timed out."""
        return address in self._slow

    def keep(self, addresses: Container[str]) -> None:
        """Forget all other addresses. Who holds a slot of one, or waits for it, still gets it."""
        for address in [address for address in self._of_broker if address not in addresses]:
            del self._of_broker[address]
        self._slow = {address for address in self._slow if address in addresses}
