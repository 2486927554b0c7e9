"""The median. numpy's own is the same, but imports `numpy.ma` when it is first called: up to a tenth of a second, for
which a command or the first round of a process would wait."""

from __future__ import annotations

import numpy as np

from controller.policy.view.costs import Floats


def median(values: Floats) -> float:
    """Of at least one value, none of them NaN."""
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    lower, upper = np.partition(values, (half - 1, half))[half - 1 : half + 1].tolist()
    return float((lower + upper) / 2)
