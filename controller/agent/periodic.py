"""Work on the event loop: at a fixed rate, or until something else comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def run_unless(work: Coroutine[Any, Any, None], stop: asyncio.Future[Any]) -> bool:
    """Run the work to its end; False when `stop` came first and cancelled it. Raises what the work raises."""
    task = asyncio.ensure_future(work)
    either: list[asyncio.Future[Any]] = [task, stop]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = task.done()
        task.cancel()  # does nothing to what is done
    if ended:
        task.result()
    return ended


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
