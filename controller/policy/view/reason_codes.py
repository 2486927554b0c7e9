"""Reasons as small integers, for arrays of them: an index into REASONS, or ALLOWED where nothing forbids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason

REASONS = tuple(Reason)
CODES = {reason: code for code, reason in enumerate(REASONS)}
ALLOWED = -1  # in the *_block arrays: nothing forbids it

Ints = NDArray[np.int64]


def counted(codes: Ints) -> dict[str, int]:
    """Reason -> how often."""
    found, counts = np.unique(codes, return_counts=True)
    return {REASONS[code].value: n for code, n in zip(found.tolist(), counts.tolist(), strict=True)}


def most_common(codes: Ints) -> Reason:
    """The reason that most of these have; there must be one."""
    found, counts = np.unique(codes, return_counts=True)
    return REASONS[int(found[int(np.argmax(counts))])]
