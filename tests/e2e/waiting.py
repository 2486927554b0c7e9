"""Waiting for a condition of another process or thread, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.05) -> None:
    """Returns as soon as the condition holds; fails the test when it does not within `timeout_s`, which is there to
    catch a hang: it costs nothing to be generous."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(every_s)
