"""Reports whose time lies far from the rest of a recording, as of a clock that was not set yet. Pure.

A single one would make a replay wait for years, or add a round that sees nothing else. A recording with a pause is no
such case: both of its parts hold many reports. Invariant: the order of the reports makes no difference.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise

from controller.domain.errors import BadRecord

APART_MS = 24 * 3_600_000  # a report that is further than this from the next one belongs to another part
# A part counts with the largest one if it has this many reports, and this share of the largest part's.
LEAST_REPORTS, LEAST_SHARE = 10, 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """Reports without a pause of a day among them."""

    first_ms: int
    last_ms: int
    reports: int


@dataclass(frozen=True, slots=True)
class Strays:
    """The parts of a recording that do not count, in order of time, and the span of the largest one."""

    parts: tuple[Part, ...]
    main: Part | None = None

    def holds(self, at_ms: int) -> bool:
        """Whether a report of this time does not count."""
        at = bisect_right(self.parts, at_ms, key=lambda part: part.first_ms) - 1
        return at >= 0 and at_ms <= self.parts[at].last_ms

    def refusal(self, number: int, at_ms: int) -> BadRecord:
        """Why the report of a line does not count. Only for a time that is among these."""
        assert self.main is not None, "a recording without parts has no strays"
        span = " to ".join(_utc(ms) for ms in (self.main.first_ms, self.main.last_ms))
        text = f"line {number}: its time is {_utc(at_ms)} ({at_ms} ms), more than a day from the recording's {span}"
        return BadRecord("stray_time", text)


def find_strays(at_ms: Iterable[int]) -> Strays:
    """The times that lie apart from the others. Of two equal parts the later one counts."""
    parts = list(_parts(sorted(at_ms)))
    if len(parts) < 2:
        return Strays(())
    main = max(parts, key=lambda part: (part.reports, part.last_ms))
    least = max(LEAST_REPORTS, LEAST_SHARE * main.reports)
    return Strays(tuple(part for part in parts if part is not main and part.reports < least), main)


def _parts(times: list[int]) -> Iterator[Part]:
    """Split sorted times at each pause."""
    starts = [0, *(at for at, (one, other) in enumerate(pairwise(times), 1) if other - one > APART_MS), len(times)]
    for start, end in pairwise(starts):
        if start < end:
            yield Part(times[start], times[end - 1], end - start)


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
