"""What a parser may use: memory and time in proportion to its input, and one short line to refuse it."""

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
# CPU time of the process, so that a busy machine changes little: a third of a lease of 6 s, and more for what is large.
# Under `tracemalloc` parsers take 0.3 s at most, for a megabyte; YAML takes 3 µs a byte, all else half of it.
SECONDS_BESIDES, SECONDS_A_BYTE = 2.0, 2e-6
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
    """Fail if the block takes more than `a_byte` bytes of memory for each of the `size` bytes it reads, or more CPU
    time than so many bytes may take. It is interrupted then; an event loop hides that, but not from here."""
    most_s, too_long = SECONDS_BESIDES + SECONDS_A_BYTE * size, list[int]()

    def interrupt(number: int, frame: object) -> None:
        too_long.append(number)
        raise _Hung

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, most_s)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    except BaseException:
        if not too_long:
            raise
    finally:
        tracemalloc.stop()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert not too_long, f"{size} bytes kept it busy for more than {most_s:.1f} s"
    allowed = a_byte * size + besides
    assert peak <= allowed, f"{size} bytes took {peak} bytes of memory, at most {allowed:.0f} are allowed"


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
