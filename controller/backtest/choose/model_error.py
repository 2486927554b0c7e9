"""How far predictions of `steady` may be off, as the setting that the margin of a move takes it from.

Learned on the recording: the 90th percentile of |predicted - realised| load after a move, as a fraction of the level
that all could share. A round then makes no move that brings less, so an error above the tolerance is not recommended:
what it forbids is what the tolerance asks for. Predictions are that poor where load changes much within a round.
"""

from __future__ import annotations

import math

from controller.backtest.point.result import PointResult

MODEL_ERROR = "steady.model_error"
FEWEST_CHECKED = 20  # predictions: a 90th percentile of fewer is the luck of one or two
_STEPS = 1000  # of a whole: more digits would be no more exact


def model_error(point: PointResult) -> float | None:
    """The recommended value, rounded up to a thousandth and at most 1; None when too few predictions were checked."""
    if point.error_p90 is None or point.n_checked < FEWEST_CHECKED:
        return None
    return min(1.0, math.ceil(round(point.error_p90 * _STEPS, 6)) / _STEPS)


def fitting_error(point: PointResult, tolerance: float) -> float | None:
    """`model_error`, where moves that it allows can keep brokers within the tolerance; else None."""
    error = model_error(point)
    return error if error is not None and error <= tolerance else None
