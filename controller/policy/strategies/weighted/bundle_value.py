"""Which bundles of a source go first: as few as bring it back under its limits, and of those the least valuable.

The value of a bundle is what its leaving costs those who use it, and what it does for its broker, each as a share of
the broker's total:

| weight | share | because |
| --- | --- | --- |
| 0.4 | producers and consumers | every one of them reconnects |
| 0.3 | unacknowledged messages | they may be delivered again |
| 0.2 | traffic in and out, bytes/s | it pauses while the bundle moves |
| 0.1 | the limit that the broker exceeds most | the limits decide how much must go, so it only separates equals |

The smallest value goes first; equal ones go by name. Value alone would move many small bundles instead of one, so it
chooses only among bundles with which the fewest possible moves still suffice, unless `fewest_moves` is off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.domain.load import BUNDLE_FIELDS
from controller.policy.strategies.weighted.figures import Figures
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Bools

SESSIONS, UNACKED, TRAFFIC, LOAD = 0.4, 0.3, 0.2, 0.1
UNIT = 1_000_000  # values are compared in millionths
WORTH_IT = 0.01  # of a limit: where nothing brings the source back under it, a move must take at least this off it
_F = {name: at for at, name in enumerate(BUNDLE_FIELDS)}


def values(figures: Figures, source: int, bundles: Ints) -> Ints:
    """[n] of bundles of one source, in 1 / UNIT."""
    fields, totals = figures.snapshot.fields[bundles], figures.snapshot.totals[source]
    sessions = np.maximum(fields[:, _F["sessions"]], fields[:, _F["producers"]] + fields[:, _F["consumers"]])
    all_sessions = max(totals[_F["sessions"]], totals[_F["producers"]] + totals[_F["consumers"]])
    traffic = fields[:, _F["throughput_in"]] + fields[:, _F["throughput_out"]]
    all_traffic = totals[_F["throughput_in"]] + totals[_F["throughput_out"]]
    worst = int(np.argmax(figures.fullness()[source]))
    value = (
        SESSIONS * _share(sessions, all_sessions)
        + UNACKED * _share(fields[:, _F["unacked"]], totals[_F["unacked"]])
        + TRAFFIC * _share(traffic, all_traffic)
        + LOAD * _share(figures.part[bundles, worst], figures.usage[source, worst])
    )
    return np.rint(value * UNIT).astype(np.int64)


class SheddingOrder(NamedTuple):
    """`rows`: which bundles to try, in order. `moves`: the fewest that bring the source back; 0: none do."""

    rows: Ints
    moves: int


def shedding_order(relief: Floats, excess: Floats, limit: Floats, value: Ints) -> SheddingOrder:
    """Of n bundles that each take relief [n x D] off the D limits that are exceeded by excess [D].

    Let m be the fewest moves that suffice for each limit by itself. First come the bundles that leave no more than the
    m - 1 largest others can take off, the least valuable first; then all others, the one that relieves most first.
    Where all together do not suffice, that order holds for all, and those that relieve next to nothing are left out.
    """
    ordered = -np.sort(-relief, axis=0)
    sums = np.cumsum(ordered, axis=0)
    relieved = (np.minimum(relief, excess) / limit).sum(axis=1)
    if not len(relief) or (sums[-1] < excess).any():
        worth = np.flatnonzero((relief / limit >= WORTH_IT).any(axis=1))
        return SheddingOrder(worth[_order(worth, -relieved[worth], value[worth])], 0)
    needed = 1 + np.argmax(sums >= excess, axis=0)  # [D] the first that suffice
    moves = int(needed.max())
    others = np.where(moves > 1, sums[moves - 2], 0.0)
    enough: Bools = (others + np.minimum(relief, ordered[moves - 1]) >= excess).all(axis=1)
    first, rest = np.flatnonzero(enough), np.flatnonzero(~enough & (relieved > 0))
    first = first[_order(first, np.zeros(len(first)), value[first])]
    rest = rest[_order(rest, -relieved[rest], value[rest])]
    return SheddingOrder(np.concatenate([first, rest]), moves)


def strictly_by_value(relief: Floats, value: Ints) -> Ints:
    """All that relieve anything [n x D], the least valuable first."""
    rows = np.flatnonzero((relief > 0).any(axis=1))
    return rows[_order(rows, np.zeros(len(rows)), value[rows])]


def _order(rows: Ints, by: Floats, value: Ints) -> Ints:
    """Lowest `by`, then value, then row: bundles come by name."""
    return np.lexsort((rows, value, by))


def _share(values_: Floats, total: float) -> Floats:
    return np.minimum(values_ / total, 1.0) if total > 0 else np.zeros(len(values_))
