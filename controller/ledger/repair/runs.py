"""Sets of entry numbers as runs: sorted, disjoint pairs of the first and the last number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

Run = tuple[int, int]


def runs_of(numbers: ArrayLike) -> list[Run]:
    """The runs of these numbers, which may come in any order and more than once."""
    found = np.unique(np.asarray(numbers, dtype=np.int64))
    if not found.size:
        return []
    starts = np.flatnonzero(np.diff(found) > 1) + 1
    return [(int(part[0]), int(part[-1])) for part in np.split(found, starts)]


def unite(*sets: Iterable[Run]) -> list[Run]:
    """The runs of all numbers in any of the sets."""
    united: list[Run] = []
    for first, last in sorted(run for runs in sets for run in runs):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(last, united[-1][1]))
        else:
            united.append((first, last))
    return united


def subtract(runs: Iterable[Run], others: Iterable[Run]) -> list[Run]:
    """The runs of the numbers that are in none of the others."""
    left = unite(runs)
    for first, last in unite(others):
        left = [part for run in left for part in _cut(run, first, last)]
    return left


def intersect(runs: Iterable[Run], others: Iterable[Run]) -> list[Run]:
    """The runs of the numbers that are in both sets."""
    runs = list(runs)
    return subtract(runs, subtract(runs, others))


def numbers_in(runs: Iterable[Run]) -> Iterator[int]:
    """Every number, ascending."""
    for first, last in runs:
        yield from range(first, last + 1)


def runs_text(runs: Sequence[Run]) -> str:
    """The runs in words: `entries 4 to 9, 12`; `entry 4` for a single one."""
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in runs]
    single = len(runs) == 1 and runs[0][0] == runs[0][1]
    return f"{'entry' if single else 'entries'} {', '.join(parts)}"


def _cut(run: Run, first: int, last: int) -> Iterator[Run]:
    if run[0] < first:
        yield run[0], min(run[1], first - 1)
    if run[1] > last:
        yield max(run[0], last + 1), run[1]
