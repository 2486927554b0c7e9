"""The Pareto front of imbalance and churn, and its knee.

Both axes are costs: the mean of max/best (1 is perfect) and moves for balance per bundle and day. Moves that fill a new
broker or replace a lost one are reactions to a change of the cluster and do not count. Of equal points the first one is
used. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.backtest.point.result import PointResult, PointRun

DAY_MS = 86_400_000
GAP_STEPS = 10


def span_ms(run: PointRun) -> int:
    """The length of the run, from the start of its first step to the end of its last; 0 without steps.

    The length of a step is the shortest distance between two steps; a single step counts as 0. Gaps of more than
    GAP_STEPS were not recorded and do not count.
    """
    apart = np.diff(np.array(run.timeline.at_ms, np.int64))
    if not len(apart):
        return 0
    step = int(apart.min())
    return int(np.where(apart > GAP_STEPS * step, step, apart).sum()) + step


def churn(point: PointResult, lasted_ms: int) -> float:
    """Moves for balance per bundle and day; 0 without bundles or time."""
    bundle_days = point.bundles * lasted_ms / DAY_MS
    return point.moves_balance / bundle_days if bundle_days > 0 else 0.0


def pareto_front(imbalance: Sequence[float], churned: Sequence[float]) -> tuple[int, ...]:
    """Positions of the points that no other point dominates, by increasing imbalance.

    The first of equal points represents them all. A point with a figure that is not finite is not on the front.
    """
    costs = np.array([imbalance, churned], np.float64).T.reshape(-1, 2)
    order = np.lexsort((np.arange(len(costs)), costs[:, 1], costs[:, 0]))
    order = order[np.isfinite(costs[order]).all(axis=1)]
    before = np.concatenate(([np.inf], np.minimum.accumulate(costs[order, 1])[:-1])) if len(order) else costs[order, 1]
    return tuple(int(at) for at in order[costs[order, 1] < before])


def knee(imbalance: Sequence[float], churned: Sequence[float], front: Sequence[int]) -> int | None:
    """The point of the front that is furthest below the line between its ends, with both axes scaled to 0..1.

    Beyond it, more moves buy little balance. None for fewer than three points. Ties go to the point with fewer moves.
    (Branke et al., "Finding knees in multi-objective optimization", 2004.)
    """
    if len(front) < 3:
        return None
    x = np.array([imbalance[at] for at in front])  # grows
    y = np.array([churned[at] for at in front])  # falls
    below = 1.0 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    inner = np.round(below[1:-1], 12)
    return front[1 + len(inner) - 1 - int(np.argmax(inner[::-1]))]
