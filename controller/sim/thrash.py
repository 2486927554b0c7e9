"""Measures how much a balancer goes back and forth: the trend-discounted total variation of CockroachDB's simulator.

With u and d the sums of all upward and downward steps of a series, f = min(u, d) / max(u, d) and a = f ** 0.8, it is
a * (u + d) + (1 - a) * min(u, d): zero for a series that only rises or only falls, all of its movement for one that
goes nowhere. It is given in percent of the range of all brokers' values together (kvserver/asim/history).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXPONENT = 0.8


def trend_discounted_variation(values: Floats) -> float:
    """The variation of one series in its own unit; NaN values (the broker was absent) are ignored."""
    steps = np.diff(values[np.isfinite(values)])
    up, down = float(steps[steps > 0].sum()), float(-steps[steps < 0].sum())
    least = min(up, down)
    if least == 0.0:
        return 0.0
    alpha = float((least / max(up, down)) ** EXPONENT)
    return alpha * (up + down) + (1.0 - alpha) * least


def total_variation(series: Sequence[Floats]) -> float:
    """The sum over all series, in their unit."""
    return sum(trend_discounted_variation(values) for values in series)


def thrash_pct(series: Sequence[Floats]) -> float:
    """The sum over all series, in percent of the range of all values; 0 if all values are equal."""
    known = np.concatenate([values[np.isfinite(values)] for values in series]) if series else np.zeros(0)
    span = float(np.ptp(known)) if len(known) else 0.0
    return 100.0 * total_variation(series) / span if span > 1e-12 else 0.0
