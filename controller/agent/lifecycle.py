"""The life of an agent's process: the tasks and readers of one run, and how it ends.

The first end counts. A task or a reader that fails ends the run as broken. What was started is stopped with the run,
whoever started it, and the runtime at the end of it all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from controller.agent.connections import AgentConnections, Read, Reader
from controller.agent.periodic import run_unless
from controller.agent.session.registration import Standing, Verdict
from controller.brokers.runtime import BrokerRuntime

log = logging.getLogger(__name__)

# Exit codes: left; another start mends it; replaced by another process; an invariant broke.
OK, AGAIN, LOST, BROKEN = 0, 1, 3, 4
STOP_LIMIT_S = 8.0  # of a runtime that serves nothing any more: what takes longer hangs
CANCEL_AGAIN_S = 5.0  # before Python 3.12, `asyncio.wait_for` swallows a cancellation that comes with its result


class Ending(NamedTuple):
    """How an agent's run ended."""

    code: int
    text: str


class Lifecycle:
    """One run, and no second one. `begin` first, in the loop."""

    def __init__(self, connections: AgentConnections) -> None:
        self._connections = connections
        self._ended: asyncio.Future[Ending] | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order of their start, in which they are cancelled

    def begin(self) -> None:
        """From now on the run can end. Raises RuntimeError the second time."""
        if self._ended is not None:
            raise RuntimeError("this agent runs, or has run: make another one, with a nonce of its own, to run again")
        self._ended = asyncio.get_running_loop().create_future()

    @property
    def has_ended(self) -> bool:
        """Whether the end is known."""
        return self._ended is not None and self._ended.done()

    async def ending(self) -> Ending:
        """How the run ends, once it does."""
        assert self._ended is not None, "the run has not begun"
        return await self._ended

    def end(self, code: int, text: str) -> None:
        """End the run, unless it has ended."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(Ending(code, text))

    def give_way(self, verdict: Verdict) -> None:
        """End the run, as another process is this broker; for good only if that one is newer."""
        self.end(AGAIN if verdict.standing is Standing.OUTRUN else LOST, verdict.text)

    def fail(self, error: BaseException) -> None:
        """End the run as broken."""
        log.error("the agent cannot go on", exc_info=error)
        self.end(BROKEN, f"{type(error).__name__}: {error}")

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run this beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    async def run_unless_ended(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work to its end, or until the run has ended. Raises what the work raises."""
        assert self._ended is not None, "the run has not begun"
        await run_unless(work, self._ended)

    def open_reader(self, topics: list[str], take: Callable[[Sequence[Read]], None]) -> Reader:
        """A reader of these topics, not yet started. `take` is called in its thread."""
        loop = asyncio.get_running_loop()
        return self._connections.reader(topics, take, lambda error: loop.call_soon_threadsafe(self.fail, error))

    async def stop(self) -> None:
        """Cancel what was started, and wait until it has ended."""
        while self._tasks:  # what ends may start something
            for task in self._tasks:
                task.cancel()
            ended, _ = await asyncio.wait(list(self._tasks), timeout=CANCEL_AGAIN_S)
            for task in ended:
                self._tasks.pop(task, None)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            self.fail(task.exception() or RuntimeError("a task ended"))


async def stop_in_time(runtime: BrokerRuntime) -> str:
    """Stop the runtime; returns why it did not stop, or nothing. One that hangs is given up."""
    stopping = asyncio.create_task(runtime.stop())
    await asyncio.wait([stopping], timeout=STOP_LIMIT_S)
    if not stopping.done():
        stopping.cancel()
        trouble = f"the runtime has not stopped within {STOP_LIMIT_S:g} s"
        log.error("%s", trouble)
        return trouble
    try:
        stopping.result()
    except (Exception, asyncio.CancelledError) as error:
        log.error("stopping the runtime failed", exc_info=error)
        return f"stopping the runtime failed: {type(error).__name__}: {error}"
    return ""
