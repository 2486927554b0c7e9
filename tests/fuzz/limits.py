"""What a parser may use: memory in proportion to its input, a time only a hang exceeds, one short line to refuse it."""

from __future__ import annotations

import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

from tests.examples import searched

T = TypeVar("T")

BYTES_A_BYTE = 60  # `[[],[],…]` becomes 22 bytes for each of its own, `{"a":{},…}` 40
BYTES_BESIDES = 4 * 2**20  # imports, tables of regular expressions, caches
HUNG_AFTER_S = 20.0  # of the process's own CPU time, so that a busy machine changes nothing
LONGEST_ERROR = 1_000  # characters


def fuzzing(count: int, a_minute: int) -> settings:
    """Settings of a property on hostile input: `count` examples in the checks, `a_minute` in a search of a minute.

    Large input and a busy machine are no fault of a strategy.
    """
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(max_examples=searched(count, a_minute), suppress_health_check=slow)


class _Hung(BaseException):
    """No `except Exception` of a parser may hide it."""


@contextmanager
def bounded(size: int, a_byte: float = BYTES_A_BYTE, besides: int = BYTES_BESIDES) -> Iterator[None]:
    """Fail if the block hangs, or takes more than `a_byte` bytes of memory for each of the `size` bytes it reads."""
    before = signal.signal(signal.SIGPROF, _interrupt)
    signal.setitimer(signal.ITIMER_PROF, HUNG_AFTER_S)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    except _Hung:
        raise AssertionError(f"{size} bytes kept it busy for {HUNG_AFTER_S:g} s") from None
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    allowed = a_byte * size + besides
    assert peak <= allowed, f"{size} bytes took {peak} bytes of memory, at most {allowed:.0f} are allowed"


def _interrupt(number: int, frame: object) -> None:
    raise _Hung


def check_error(error: BaseException | str) -> None:
    """Fail unless the text is one short line that every terminal, table and log can show."""
    text = str(error)
    assert 0 < len(text) <= LONGEST_ERROR, f"{len(text)} characters: {text[:200]}…"
    assert text.isprintable(), f"not printable: {text!r}"


def read_or_refuse(
    read: Callable[[Any], T], given: Any, refuses: type[Exception], size: int, besides: int = BYTES_BESIDES
) -> T | None:
    """What `read` makes of the input, or None where it refuses it with one of its own errors."""
    with bounded(size, besides=besides):
        try:
            return read(given)
        except refuses as error:
            refused: Exception = error
    check_error(refused)
    return None
