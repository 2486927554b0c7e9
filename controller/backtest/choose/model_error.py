"""Learns `steady.model_error` from a recording: how far predictions of `steady` may be off.

It is the 90th percentile of |predicted - realised| load after a move, as a fraction of the level that all brokers could
share. A round makes no move that gains less than this. So an error above the tolerance is not recommended: it would
forbid the moves that the tolerance requires. Predictions are that poor if load changes a lot within a round.
"""

from __future__ import annotations

import math

from controller.backtest.point.result import PointResult

MODEL_ERROR = "steady.model_error"
FEWEST_CHECKED = 20  # predictions; with fewer, one or two decide the 90th percentile
_STEPS = 1000  # resolution: more digits would not be more precise


def model_error(point: PointResult) -> float | None:
    """The recommended value, rounded up to a thousandth, at most 1; None if too few predictions were checked."""
    if point.error_p90 is None or point.n_checked < FEWEST_CHECKED:
        return None
    return min(1.0, math.ceil(round(point.error_p90 * _STEPS, 6)) / _STEPS)


def fitting_error(point: PointResult, tolerance: float) -> float | None:
    """`model_error` if the moves it allows can keep brokers within the tolerance, else None."""
    error = model_error(point)
    return error if error is not None and error <= tolerance else None
