"""How much a balancer goes back and forth: the trend-discounted total variation of CockroachDB's allocator simulator.

With u and d the sums of all upward and downward steps of a series, f = min(u, d) / max(u, d) and a = f ** 0.8, it is
a * (u + d) + (1 - a) * min(u, d): nothing for a series that only rises or only falls, all of its movement for one that
goes nowhere. It is given in percent of the range that all brokers' values cover together (kvserver/asim/history).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXPONENT = 0.8


def trend_discounted_variation(values: Floats) -> float:
    """Of one series, in its own unit; values that are not numbers (the broker was not there) are left out."""
    steps = np.diff(values[np.isfinite(values)])
    up, down = float(steps[steps > 0].sum()), float(-steps[steps < 0].sum())
    least = min(up, down)
    if least == 0.0:
        return 0.0
    alpha = float((least / max(up, down)) ** EXPONENT)
    return alpha * (up + down) + (1.0 - alpha) * least


def total_variation(series: Sequence[Floats]) -> float:
    """Summed over the series, in their unit."""
    return sum(trend_discounted_variation(values) for values in series)


def thrash_pct(series: Sequence[Floats]) -> float:
    """Summed over the series, in percent of the range of all their values; 0 when nothing ever differed."""
    known = np.concatenate([values[np.isfinite(values)] for values in series]) if series else np.zeros(0)
    span = float(np.ptp(known)) if len(known) else 0.0
    return 100.0 * total_variation(series) / span if span > 1e-12 else 0.0
