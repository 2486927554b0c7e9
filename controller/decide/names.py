"""The names of a line's bundles in order, and where each of the line's bundles stands among them.

From one line to the next few bundles change places. So the lines are compared run by run: what stands in the same order
in both is not looked up again. Looking up a million names takes longer than the round that is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import ne
from typing import Any

import numpy as np

from controller.policy.view.frame import Ints, namespaces_of, place_of

FIRST_RUN = 64
LONGEST_ROWS = 4  # times the bytes of all names, that rows as long as the longest may take
LOOKED_UP = 32  # at most one of so many bundles, before all of them are


@dataclass(frozen=True, eq=False)
class Names:
    """The bundles of a line. `sorted` stays the same object while the bundles stay the same."""

    line: list[str]  # [M] as the line has them; a bundle that two brokers report appears twice
    at: Ints  # [M] the index of each among the sorted ones
    sorted: tuple[str, ...]
    spaces: Mapping[str, int]  # bundles of every namespace; "" for names without one

    @classmethod
    def of(cls, line: list[str]) -> Names:
        """Of a line of which nothing is known."""
        order = _order_of(line)
        ordered = list(map(line.__getitem__, order.tolist()))
        first = np.ones(len(line), bool)
        first[1:] = np.fromiter(map(ne, ordered[1:], ordered), bool, max(0, len(line) - 1))
        names = tuple(ordered if first.all() else compress(ordered, first.tolist()))
        at = np.empty(len(line), np.int64)
        at[order] = np.cumsum(first) - 1
        spaces, of_space = namespaces_of(names)
        held = np.bincount(of_space, minlength=len(spaces)).tolist()
        return cls(line, at, names, dict(zip(spaces, held, strict=True)))

    def follow(self, line: list[str]) -> Names:
        """The names of the next line."""
        if line == self.line:
            return self
        at = self._find_runs(line)
        if at is None:
            at = self._look_up(line)
        if at is None or not np.bincount(at, minlength=len(self.sorted)).all():
            return Names.of(line)
        return Names(line, at, self.sorted, self.spaces)

    def place_of(self, name: str) -> int | None:
        """The index of a bundle; None for one that the line lacks."""
        return place_of(self.sorted, name)

    def _find_runs(self, line: list[str]) -> Ints | None:
        """[M] the index of each of the line's bundles; None where too much of the order has changed."""
        found = np.empty(len(line), np.int64)
        stood = np.zeros(len(self.sorted), np.int64)
        stood[self.at] = np.arange(len(self.at))
        before, now, looked_up = 0, 0, 0
        while True:
            run = _count_equal(self.line, before, line, now)
            found[now : now + run] = self.at[before : before + run]
            before, now = before + run, now + run
            if now == len(line):
                return found
            place = self.place_of(line[now])
            looked_up += 1
            if place is None or looked_up * LOOKED_UP > len(line):
                return None
            next_to_it = int(stood[place]) + 1
            found[now] = place
            now += 1
            if line[now : now + 1] == self.line[next_to_it : next_to_it + 1]:  # others left, and the run goes on there
                before = next_to_it

    def _look_up(self, line: list[str]) -> Ints | None:
        index = {name: at for at, name in enumerate(self.sorted)}
        try:
            return np.fromiter(map(index.__getitem__, line), np.int64, len(line))
        except KeyError:
            return None


def _order_of(line: Sequence[str]) -> Ints:
    """[M] where the names in order stand in the line; equal ones as they stand there."""
    rows = _rows_of(line)
    if rows is None:
        return np.array(sorted(range(len(line)), key=line.__getitem__), np.int64)
    return rows.argsort(kind="stable")


def _rows_of(line: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bytes_]] | None:
    """[M] the names in UTF-8, which sort as the names do, in a third of the time. None if one of them has a NUL, which
    numpy takes for the end, or if a few long ones would make all rows long."""
    text = np.frombuffer("\0".join([*line, ""]).encode("utf-8", "surrogatepass"), np.uint8)
    ends = np.flatnonzero(text == 0)
    if len(ends) != len(line) or not len(line):
        return None
    lengths = np.diff(ends, prepend=-1)
    width = int(lengths.max())
    if width * len(line) > LONGEST_ROWS * len(text):
        return None
    if width * len(line) > len(text):
        rows = np.zeros((len(line), width), np.uint8)
        rows[np.arange(width) < lengths[:, np.newaxis]] = text
        text = rows
    return text.reshape(-1).view(f"S{width}")


def _count_equal(one: Sequence[str], at: int, other: Sequence[str], there: int) -> int:
    """How many names are equal from `at` in one and from `there` in the other on."""
    count, step = 0, FIRST_RUN
    most = min(len(one) - at, len(other) - there)
    growing = True
    while step:
        end = count + step
        equal = end <= most and one[at + count : at + end] == other[there + count : there + end]
        count = end if equal else count
        growing = growing and equal
        step = step * 2 if growing else step // 2
    return count
