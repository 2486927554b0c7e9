"""Reasons as small integers, for arrays: an index into REASONS, or ALLOWED where no rule forbids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason

REASONS = tuple(Reason)
CODES = {reason: code for code, reason in enumerate(REASONS)}
ALLOWED = -1  # in the *_block arrays: no rule forbids it
LOST_BY = (*(reason.value for reason in REASONS), "")  # what evidence calls a code; ALLOWED is the last

Ints = NDArray[np.int64]


def count_reasons(codes: Ints) -> dict[str, int]:
    """Reason -> how often it occurs among the codes."""
    found, counts = np.unique(codes, return_counts=True)
    return {REASONS[code].value: n for code, n in zip(found.tolist(), counts.tolist(), strict=True)}


def most_common_reason(codes: Ints) -> Reason:
    """The reason that most of the codes name; at least one code."""
    found, counts = np.unique(codes, return_counts=True)
    return REASONS[int(found[int(np.argmax(counts))])]
