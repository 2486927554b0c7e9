"""When Ctrl-C and SIGTERM take effect: where a command waits, and never between the start of a process and the note of
its pid. Without the note, the process would outlive its parent.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

DELAYED = (signal.SIGINT, signal.SIGTERM)
LOOK_EVERY_S = 0.2
_noted: list[int] = []  # signals that `check_interrupt` has not raised yet


@contextmanager
def note_interrupts() -> Iterator[None]:
    """Note Ctrl-C and SIGTERM within the block, where `check_interrupt` raises KeyboardInterrupt for them.

    A handler that raises does so wherever the main thread is. Inside a C library the exception can be swallowed, so
    that the command goes on, or leave a lock held. A second signal that comes before the check raises at once.
    """

    def note(number: int, frame: FrameType | None) -> None:
        _noted.append(number)
        if len(_noted) > 1:
            _noted.clear()  # raised once: what cleans up afterwards is not interrupted by the same signals
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in DELAYED}
    try:
        yield
        check_interrupt()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _noted.clear()


def check_interrupt() -> None:
    """Raise KeyboardInterrupt if a signal was noted; in the main thread only. Call it where a command waits."""
    if _noted and threading.current_thread() is threading.main_thread():
        _noted.clear()
        raise KeyboardInterrupt


def run_interruptibly(command: Sequence[str], timeout_s: float, **how: Any) -> subprocess.CompletedProcess[Any]:
    """As `subprocess.run`, and a wait that a noted signal ends: the program is killed then. `how`: as for Popen."""
    deadline = time.monotonic() + timeout_s
    with subprocess.Popen(command, **how) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=LOOK_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    check_interrupt()
                    if time.monotonic() > deadline:
                        raise subprocess.TimeoutExpired(command, timeout_s) from None
        except BaseException:
            process.kill()
            raise
    check_interrupt()  # Ctrl-C reaches the program as well: that it failed is not the news then
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@contextmanager
def no_interrupt_for_children() -> Iterator[None]:
    """Block SIGINT in the processes that this thread starts within the block, from their first instruction on.

    Ctrl-C reaches the whole group. A process that ignores it in its own code has imported for a second by then. Make a
    pool of processes before the block: the start of its resource tracker unblocks SIGINT.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def delay_interrupts() -> Iterator[None]:
    """Deliver SIGINT and SIGTERM at the end of the block.

    Python runs signal handlers in the main thread: in any other thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    # None: a handler that Python cannot restore, as it was not set by Python
    before = {number: signal.getsignal(number) for number in DELAYED}
    held = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    for number in held:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for caught in dict.fromkeys(arrived):
            signal.raise_signal(caught)
