"""The balance score of a cluster: 0 to 100, for people. No decision depends on it.

`score = 100 x (1 - (highest - mean) / max(highest, LEAST_LOAD))`, where `highest` and `mean` are the scores of the
brokers that can be compared, as fractions of their limits, and a broker's score is that of its worst resource.

So 100 means that all brokers are equally loaded; 80, that the average broker has 80 % of the load of the busiest one
(max/mean 1.25); near 0, that one broker has all the load. Where even the busiest broker is below LEAST_LOAD, the
distance is measured against LEAST_LOAD: the noise of an idle cluster is no imbalance. Load that cannot be divided, such
as one hot bundle, lowers the score although nothing can be moved to raise it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

LEAST_LOAD = 0.10


def balance_score(highest: float | None, mean: float | None) -> float | None:
    """The score by the highest and the mean load, both as fractions; None where either is unknown.

    Loads may be above 1. A mean above the highest, which only rounding makes, counts as equal.
    """
    if highest is None or mean is None or math.isnan(highest) or math.isnan(mean):
        return None
    excess = max(0.0, highest - mean) / max(highest, LEAST_LOAD)
    return 100.0 * (1.0 - min(1.0, excess))


def balance_score_of(loads: Iterable[float | None]) -> float | None:
    """The score of brokers with these loads; unknown ones are left out. None without a known one."""
    known = [load for load in loads if load is not None and not math.isnan(load)]
    return balance_score(max(known), sum(known) / len(known)) if known else None
