"""Periodic tasks on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def run_periodically(interval_ms: int, act: Callable[[], object]) -> None:
    """Call `act` at a fixed rate, starting now, until cancelled. Missed calls are skipped, not made up for. What `act`
    raises ends it, and is raised here.

    The calls are timers of the loop: an agent has dozens a second, and to wake a task costs more than most of them do.
    """
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()
    due = loop.time()
    timer: asyncio.TimerHandle | None = None

    def turn() -> None:
        nonlocal due, timer
        if failed.done():  # cancelled, in this very iteration of the loop
            return
        try:
            act()
        except Exception as error:
            failed.set_exception(error)
            return
        due = max(due + interval_ms / 1000, loop.time())
        timer = loop.call_at(due, turn)

    turn()
    try:
        await failed
    finally:
        if timer is not None:
            timer.cancel()
