"""How many moves a strategy may choose in a round, so that none of those it counts on is held back afterwards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from controller.policy.view.frame import Ints

FULL_PACE = 1000  # permille
UNLIMITED = 2**31


class Room(NamedTuple):
    """`brokers`: [B] moves that each may take part in, None: as many as anyone likes. `cluster`: moves of all.

    `pace`: permille of a strategy's own budget; below `FULL_PACE` after moves that failed.
    """

    brokers: Ints | None = None
    cluster: int = UNLIMITED
    pace: int = FULL_PACE

    def left(self, brokers: int) -> Ints:
        """[B] to be counted down while moves are chosen."""
        return np.full(brokers, UNLIMITED, np.int64) if self.brokers is None else self.brokers.copy()

    def budget(self, wanted: int) -> int:
        """Of the moves that a strategy allows itself, how many it may choose."""
        paced = wanted if self.pace == FULL_PACE else max(1, wanted * self.pace // FULL_PACE)
        return min(paced if wanted else 0, self.cluster)


UNBOUND = Room()
