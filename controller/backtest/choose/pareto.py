"""Imbalance against churn: which points no other beats, and where the front bends.

Both axes are costs: the mean of max/best (1 is as even as it gets) and moves for balance of a bundle a day. Moves
that fill a new broker or replace a lost one answer a change of the cluster and are not counted. Pure; equal points give
the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.backtest.point.result import PointResult, PointRun

DAY_MS = 86_400_000
GAP_STEPS = 10


def span_ms(run: PointRun) -> int:
    """How long the run lasted: from the start of its first step to the end of its last; 0 without steps.

    A step is as long as the shortest distance between two; of a single step that is not known, and it counts as 0.
    More than GAP_STEPS without a step were not recorded, and are left out.
    """
    apart = np.diff(np.array(run.timeline.at_ms, np.int64))
    if not len(apart):
        return 0
    step = int(apart.min())
    return int(np.where(apart > GAP_STEPS * step, step, apart).sum()) + step


def churn(point: PointResult, lasted_ms: int) -> float:
    """Moves for balance of a bundle a day; 0 where there was no bundle or no time."""
    bundle_days = point.bundles * lasted_ms / DAY_MS
    return point.moves_balance / bundle_days if bundle_days > 0 else 0.0


def pareto_front(imbalance: Sequence[float], churned: Sequence[float]) -> tuple[int, ...]:
    """Positions of the points that no other is below on one axis and not above on the other, by imbalance upwards.

    Of equal points the first stands for all. A point with a figure that is no number is on no front.
    """
    costs = np.array([imbalance, churned], np.float64).T.reshape(-1, 2)
    order = np.lexsort((np.arange(len(costs)), costs[:, 1], costs[:, 0]))
    order = order[np.isfinite(costs[order]).all(axis=1)]
    before = np.concatenate(([np.inf], np.minimum.accumulate(costs[order, 1])[:-1])) if len(order) else costs[order, 1]
    return tuple(int(at) for at in order[costs[order, 1] < before])


def knee(imbalance: Sequence[float], churned: Sequence[float], front: Sequence[int]) -> int | None:
    """The point of the front that lies furthest below the line between its ends, both axes scaled to 0..1.

    From there on, more moves buy little balance. None for a front of fewer than three points: it does not bend. Of
    equal distances the one with fewer moves. (Branke et al., "Finding knees in multi-objective optimization", 2004.)
    """
    if len(front) < 3:
        return None
    x = np.array([imbalance[at] for at in front])  # grows
    y = np.array([churned[at] for at in front])  # falls
    below = 1.0 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    inner = np.round(below[1:-1], 12)
    return front[1 + len(inner) - 1 - int(np.argmax(inner[::-1]))]
