"""Doing something again and again on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def every(interval_ms: int, act: Callable[[], object]) -> None:
    """At a fixed rate, beginning now, until cancelled; beats that were missed are skipped, not made up for."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        act()
        due = max(due + interval_ms / 1000, loop.time())
        await asyncio.sleep(due - loop.time())
