"""An event loop in virtual time: the asyncio code of one simulated process, unchanged, without waiting for anything.

The loop runs until all of its tasks wait, then says when its next timer is due. What other threads do for a real loop
(`run_in_executor`) is done in place and answered after a simulated delay.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any

EPSILON_S = 1e-6  # floats: a timer must be due when its wake-up comes


class _Nothing(selectors.BaseSelector):
    """No file is ever ready. Asked to wait, it ends the loop's turn and notes for how long there is nothing to do."""

    def __init__(self) -> None:
        self.on_wait: Callable[[float | None], None] = lambda timeout_s: None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.on_wait(timeout)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class VirtualLoop(asyncio.SelectorEventLoop):
    """`wake` is called with a delay in ms whenever the loop must get a turn then; the turn is `run_ready`."""

    def __init__(
        self,
        now_ms: Callable[[], float],
        wake: Callable[[float], None],
        work_ms: Callable[[], float],
    ) -> None:
        """`now_ms`: the process's clock. `work_ms`: how long a call in an executor takes, drawn for each."""
        self._selector_of_nothing = _Nothing()
        super().__init__(self._selector_of_nothing)
        self._selector_of_nothing.on_wait = self._end_turn
        self._now_ms, self._wake, self._work_ms = now_ms, wake, work_ms
        self._busy_until: dict[Any, float] = {}  # executor -> the loop's time
        self._due_ms = float("inf")  # when the next turn comes that was asked for

    def time(self) -> float:
        """The process's clock, in seconds."""
        return self._now_ms() / 1000

    def run_ready(self) -> None:
        """Run whatever can run now."""
        if self.is_closed():
            return
        if self._now_ms() >= self._due_ms:
            self._due_ms = float("inf")
        self.run_forever()

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """From outside of its turn: the loop gets one at once."""
        handle = self.call_soon(callback, *args, context=context)
        if not self.is_running():
            self._wake(0.0)
        return handle

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call it in the midst of its time: what it finds may be old when it is heard of. Calls in the same executor,
        which has one thread, follow each other."""
        result: asyncio.Future[Any] = self.create_future()
        calls_at = max(self.time(), self._busy_until.get(executor, 0.0)) + self._work_ms() / 1000
        self._busy_until[executor] = answers_at = calls_at + self._work_ms() / 1000

        def answer(give: Callable[[Any], None], what: Any) -> None:
            if not result.done():
                give(what)

        def call() -> None:
            try:
                found = func(*args)
            except BaseException as error:  # whatever it is, the one who waits must hear of it
                self.call_at(answers_at, answer, result.set_exception, error)
            else:
                self.call_at(answers_at, answer, result.set_result, found)

        self.call_at(calls_at, call)
        return result

    def unwind(self) -> None:
        """Cancel everything and close, in no time: for a process that is over, whatever it was doing."""
        hurried_ms = [self._now_ms()]

        def hurry(timeout_s: float | None) -> None:
            hurried_ms[0] += 1000 * (timeout_s or 0.0) + EPSILON_S

        self._now_ms = lambda: hurried_ms[0]
        self._selector_of_nothing.on_wait = hurry
        self.set_exception_handler(lambda loop, context: None)
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.wait(tasks))
        self.close()

    def _end_turn(self, timeout_s: float | None) -> None:
        self.stop()
        if timeout_s is not None:
            wait_ms = (timeout_s + EPSILON_S) * 1000
            due_ms = self._now_ms() + wait_ms
            if due_ms < self._due_ms:
                self._due_ms = due_ms - EPSILON_S
                self._wake(wait_ms)
