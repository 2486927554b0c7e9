"""An event that is waited for with a time limit, without a task for each wait: `asyncio.wait_for` makes one."""

from __future__ import annotations

import asyncio


class Signal:
    """Set by somebody, waited for by others. One event loop."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: dict[asyncio.Future[bool], None] = {}  # in the order in which they came

    def set(self) -> None:
        """Whoever waits goes on; nobody waits any more until `clear`."""
        self._is_set = True
        self.wake()

    def wake(self) -> None:
        """Whoever waits now goes on."""
        for waiting in self._waiting:
            _answer(waiting, True)

    def clear(self) -> None:
        """Wait again."""
        self._is_set = False

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it is set, at most so long; whether it was."""
        if self._is_set:
            return True
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[bool] = loop.create_future()
        self._waiting[waiting] = None
        limit = loop.call_later(max(timeout_s, 0.0), _answer, waiting, False)
        try:
            return await waiting
        finally:
            limit.cancel()
            del self._waiting[waiting]


def _answer(waiting: asyncio.Future[bool], is_set: bool) -> None:
    if not waiting.done():
        waiting.set_result(is_set)
