"""Which reasons stand in an array of codes, as evidence tells them."""

from __future__ import annotations

import numpy as np

from controller.domain.decision import Reason
from controller.policy.frame import Ints
from controller.policy.snapshot import REASONS


def counted(codes: Ints) -> dict[str, int]:
    """Reason -> how often."""
    found, counts = np.unique(codes, return_counts=True)
    return {REASONS[code].value: n for code, n in zip(found.tolist(), counts.tolist(), strict=True)}


def most_common(codes: Ints) -> Reason:
    """The reason that most of these have; there must be one."""
    found, counts = np.unique(codes, return_counts=True)
    return REASONS[int(found[int(np.argmax(counts))])]
