"""Periodic tasks on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def run_periodically(interval_ms: int, act: Callable[[], object]) -> None:
    """Call `act` at a fixed rate, starting now, until cancelled. Missed calls are skipped, not made up for."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        act()
        due = max(due + interval_ms / 1000, loop.time())
        await asyncio.sleep(due - loop.time())
