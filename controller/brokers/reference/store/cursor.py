"""The position of a subscription: all offsets below `mark` are acknowledged, and the ranges above it.

Ranges are half-open [low, high), disjoint, sorted, never touching each other or the mark.
The store keeps the durable cursor; the broker keeps a copy to decide what to deliver.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


class Cursor:
    """Acknowledged offsets of one subscription."""

    __slots__ = ("_highs", "_lows", "mark", "start")

    def __init__(self, mark: int = 0, ranges: Iterable[tuple[int, int]] = (), start: int | None = None) -> None:
        self.mark = mark
        self.start = mark if start is None else start  # where the subscription began; it does not cover older offsets
        self._lows: list[int] = []
        self._highs: list[int] = []
        for low, high in ranges:
            self.add(low, high)

    def add(self, low: int, high: int) -> None:
        """Acknowledge [low, high); parts of it may be acknowledged already."""
        low = max(low, self.mark)
        if low >= high:
            return
        first = bisect_left(self._highs, low)
        last = bisect_right(self._lows, high)
        if first < last:
            low, high = min(low, self._lows[first]), max(high, self._highs[last - 1])
        self._lows[first:last] = [low]
        self._highs[first:last] = [high]
        if self._lows[0] <= self.mark:
            self.mark = max(self.mark, self._highs.pop(0))
            self._lows.pop(0)

    def acknowledge_below(self, offset: int) -> None:
        """Acknowledge every offset below `offset` (cumulative)."""
        if offset > self.mark:
            self.add(self.mark, offset)

    def contains(self, offset: int) -> bool:
        """Whether the offset is acknowledged."""
        if offset < self.mark:
            return True
        at = bisect_right(self._lows, offset) - 1
        return at >= 0 and offset < self._highs[at]

    def next_open(self, offset: int) -> int:
        """The first offset at or above `offset` that is not acknowledged."""
        offset = max(offset, self.mark)
        at = bisect_right(self._lows, offset) - 1
        return self._highs[at] if at >= 0 and offset < self._highs[at] else offset

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The acknowledged ranges above the mark."""
        return list(zip(self._lows, self._highs, strict=True))

    @property
    def size(self) -> int:
        """How many offsets are acknowledged, counted from 0."""
        return self.mark + sum(self._highs) - sum(self._lows)

    def backlog(self, end: int) -> int:
        """How many offsets below `end` are not acknowledged."""
        return max(0, end - self.size)
