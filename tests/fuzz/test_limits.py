"""The limits can be exceeded: by what takes too long, also where an event loop hides it, and by what takes memory."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from tests.fuzz import limits
from tests.fuzz.limits import BYTES_BESIDES, bounded


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS_BESIDES", 0.05)


def spin() -> None:
    while True:
        pass


def test_what_hangs_is_interrupted() -> None:
    told = pytest.raises(AssertionError, match=r"7 bytes kept it busy for more than 0\.1 s")
    with told, bounded(7), contextlib.suppress(Exception):
        spin()


def test_what_hangs_in_an_event_loop_is_told() -> None:
    """The loop hands whatever a callback raises to its handler."""
    reported: list[object] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        loop.call_soon(spin)
        await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match="kept it busy"), bounded(7):
        asyncio.run(wait())
    assert reported


def test_a_large_input_may_take_longer() -> None:
    began_s = time.process_time()
    with bounded(10**6):
        while time.process_time() < began_s + 0.2:
            pass


def test_memory_counts_by_the_byte() -> None:
    with pytest.raises(AssertionError, match="bytes of memory"), bounded(1):
        bytes(2 * BYTES_BESIDES)
    with bounded(BYTES_BESIDES):
        bytes(2 * BYTES_BESIDES)


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), bounded(1):
        raise KeyError
