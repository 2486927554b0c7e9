"""Waiting for what a Pulsar cluster does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SOON_S = 120.0


def wait_until(read: Callable[[], T], holds: Callable[[T], bool], what: str, timeout_s: float = SOON_S) -> T:
    """Read until the value is as wanted; returns it. Fails with the last value."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = read()
        if holds(value):
            return value
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:g} s: {value!r}"
        time.sleep(0.2)
