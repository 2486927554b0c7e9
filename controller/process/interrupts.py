"""Keeps Ctrl-C and SIGTERM from falling between the start of a process and the note of its pid.

Such a process would outlive its parent, which no longer knows of it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

DELAYED = (signal.SIGINT, signal.SIGTERM)


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
