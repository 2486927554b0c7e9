"""An event loop in virtual time: the asyncio code of one simulated process, unchanged, without waiting for anything.

Every timer is an action of the world. When one is due, the loop takes a turn: it runs callbacks until none is ready.
While the process is paused, turns wait, and then what has arrived comes before the timers that are due, as it
does on a real loop; once it has ended, there are no turns. What other threads do for a real loop
(`run_in_executor`) is done in place and answered after a simulated delay; connections are those of `network`.
"""

from __future__ import annotations

import asyncio
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any

from controller.domain.errors import BallastError
from controller.testbed.simulated.network import SimNetwork, SimServer
from controller.testbed.simulated.world import LOOK_AGAIN_MS, Injected, World

Callback = Callable[..., object]
EPSILON_MS = 1e-6  # floats: once a timer fires, the process's clock must be at its time
FAULTS_CAUSE = (OSError, BallastError, Injected)  # also in a future that nobody awaits any more
NEVER_CAUSED = (" failed", " ended")  # a callback that raises, and a client that is over: see `endpoint`


def unforeseen(context: Mapping[str, Any]) -> str:
    """What an exception handler was told of, in words; empty for what simulated faults cause. No fault makes a callback
    raise: that is an error in the code, which a real process would log, and go on."""
    error, message = context.get("exception"), str(context.get("message", ""))
    if error is None or (isinstance(error, FAULTS_CAUSE) and not message.endswith(NEVER_CAUSED)):
        return ""
    return f"{message}: {type(error).__name__}: {error}"


class _Timer:
    """A callback that waits for its time, or for its turn. `when`: the loop's time, in seconds."""

    __slots__ = ("_args", "_callback", "_context", "_loop", "_when")

    def __init__(
        self, loop: VirtualLoop, when: float, callback: Callback, args: tuple[Any, ...], context: Context | None
    ) -> None:
        self._loop, self._when = loop, when
        self._callback: Callback | None = callback
        self._args, self._context = args, context

    def cancel(self) -> None:
        """It is not called any more."""
        self._callback, self._args = None, ()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._callback is None

    def when(self) -> float:
        """The time for which it was planned."""
        return self._when

    def fire(self) -> None:
        """Its time has come."""
        if self._callback is not None:
            self._loop.take_turn(self._callback, self._args, self._context, self)

    def run_late(self) -> None:
        """The process was paused when its time came, and goes on: it may have been cancelled since."""
        if self._callback is not None:
            self._callback(*self._args)


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop of one process. `paused_until_ms`: true time before which nothing runs; may be set at any moment."""

    def __init__(
        self, network: SimNetwork, name: str, clock_rate: float = 1.0, work_ms: Callable[[], float] = lambda: 0.0
    ) -> None:
        """`name`: of the process, unlike any other's. `clock_rate`: of its clock, against true time. `work_ms`: how
        long a call in an executor takes, drawn for each."""
        self._running = self._waiting = self._halted = False
        super().__init__()
        self.name = name
        self.paused_until_ms = 0.0
        self.on_write: Callable[[bytes], None] | None = None  # told of whatever the process sends
        self._network, world = network, network.world
        self._world, self._rate, self._work_ms = world, clock_rate, work_ms
        self._ready: deque[tuple[Callback, tuple[Any, ...], Context | None]] = deque()
        self._late: deque[tuple[Callback, tuple[Any, ...], Context | None]] = deque()  # timers, after a pause
        self._busy_until: dict[Any, float] = {}  # executor -> the loop's time
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    # ------------------------------------------------------------ turns

    def take_turn(
        self, callback: Callback | None = None, args: tuple[Any, ...] = (), context: Context | None = None,
        timer: _Timer | None = None,
    ) -> None:  # fmt: skip
        """Called by the world: run this, and all that is or becomes ready. If the process is paused, all of it waits;
        `timer`: that of the callback, if there is one, which may be cancelled until then."""
        if self._halted:
            return
        if self._waiting or self._world.now_ms < self.paused_until_ms:
            self._put_off(callback, args, context, timer)
            return
        ready = self._ready
        if callback is None:
            if not ready:
                return
            callback, args, context = ready.popleft()
        elif ready:
            ready.append((callback, args, context))
            callback, args, context = ready.popleft()
        self._running = True
        _set_running_loop(self)
        try:
            while True:
                try:
                    if context is None:
                        callback(*args)
                    else:
                        context.run(callback, *args)
                except Exception as error:
                    self.call_exception_handler({"message": f"{callback} failed", "exception": error})
                if not ready:
                    break
                callback, args, context = ready.popleft()
        finally:
            _set_running_loop(None)
            self._running = False

    def _put_off(
        self, callback: Callback | None, args: tuple[Any, ...], context: Context | None, timer: _Timer | None
    ) -> None:
        """The process is paused."""
        if timer is not None:
            self._late.append((timer.run_late, (), context))
        elif callback is not None:
            self._ready.append((callback, args, context))
        if not self._waiting:
            self._waiting = True
            self._look_again()

    def halt(self) -> None:
        """Run nothing more: the process was killed."""
        self._halted = True

    def _look_again(self) -> None:
        """Wait for the end of the pause, which may come early."""
        wait_ms = self.paused_until_ms - self._world.now_ms
        if wait_ms > 0:
            self._world.after(min(wait_ms, LOOK_AGAIN_MS), self._look_again)
        else:
            self._waiting = False
            self._ready += self._late
            self._late.clear()
            self.take_turn()

    def unwind(self) -> None:
        """Cancel everything and close, in no time: for a process that is over, whatever it was doing."""
        world = World(0)  # its own from here on
        world.now_ms = max(self._world.now_ms, self.paused_until_ms)
        self._world, self._waiting, self._halted = world, False, False
        self.set_exception_handler(lambda loop, context: None)
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.take_turn()
        world.run_out(until=lambda: all(task.done() for task in tasks))
        self.close()

    # ------------------------------------------------------------ what asyncio calls

    def time(self) -> float:
        """The process's clock, in seconds."""
        return self._world.now_ms * self._rate / 1000

    def call_soon(self, callback: Callback, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        """Call it in this turn, or in one that begins at once."""
        self._ready.append((callback, args, context))
        if not self._running and len(self._ready) == 1:
            self._world.after(0.0, self.take_turn)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callback, *args: Any, context: Context | None = None
    ) -> Any:
        """As `call_soon`: there is one thread."""
        self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> Any:
        """Call it so many seconds later."""
        return self.call_at(self._world.now_ms * self._rate / 1000 + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> Any:
        """Call it at that time of the process's clock."""
        timer = _Timer(self, when, callback, args, context)
        self._world.at(when * 1000 / self._rate + EPSILON_MS, timer.fire)
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        """Run a coroutine beside everything else."""
        return asyncio.Task(coro, loop=self, name=name)

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

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to another simulated process. Raises OSError."""
        made: asyncio.Future[tuple[asyncio.Transport, asyncio.BaseProtocol]] = self.create_future()
        self._network.connect(self, protocol_factory, port, made)
        return await made

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> SimServer:
        """Listen for other simulated processes. Raises OSError."""
        return self._network.listen(self, protocol_factory, port)

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        """Who is told of exceptions that nobody catches; nobody, unless set."""
        self._handler = handler

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An exception was not caught: a real process logs it and goes on."""
        if self._handler is not None:
            self._handler(self, context)

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """Whether it is its turn."""
        return self._running

    def is_closed(self) -> bool:
        """Whether the process is over."""
        return self._closed

    def close(self) -> None:
        """Run nothing more, ever."""
        self._closed = self._halted = True
        self._ready.clear()
