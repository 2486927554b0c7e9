"""Self-restraint: what to do when moves bring far less than they were predicted to.

The last MOVES moves whose sources can be judged are summed. If they brought less than `least` of what was predicted,
the usage model is wrong about this cluster: it is dropped for the prior first. If the next MOVES moves are no better,
the next round tells the controller, which raises an alarm and may stop acting (`controller.control.rounds`). A source
that was at its limit before or after is never judged. Kept in memory: a worker that starts again begins anew.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from controller.domain.decision import Gains
from controller.policy.usage.judged import Judged

log = logging.getLogger(__name__)

MOVES = 50  # that are judged together


class _Relief(NamedTuple):
    moves: int
    predicted: float  # of the limit, as what was to go
    realised: float


class Restraint:
    """The newest judged moves. `least`: share of the prediction that they must bring; None: nothing is ever done."""

    def __init__(self, least: float | None) -> None:
        self._least = least
        self._reliefs: deque[_Relief] = deque()
        self._on_prior = False
        self._untold: Gains | None = None

    def note(self, judged: Sequence[Judged]) -> bool:
        """Take newly judged moves into account; returns whether the usage model is to be dropped for the prior."""
        for end in judged:
            if end.realised is not None and end.predicted < 0:
                self._reliefs.append(_Relief(end.moves, -end.predicted, -end.realised))
        while sum(one.moves for one in self._reliefs) - (self._reliefs[0].moves if self._reliefs else 0) >= MOVES:
            self._reliefs.popleft()
        gains = self._sum()
        if self._least is None or gains.moves < MOVES:
            return False
        if gains.realised >= self._least * gains.predicted:
            self._on_prior = False
            return False
        self._reliefs.clear()  # what comes next is judged by itself
        told = f"{gains.moves} moves took {gains.realised:.1%} of the limit off their sources, {gains.predicted:.1%}"
        if self._on_prior:
            log.error("%s were predicted, by the prior: the controller is told", told)
            self._untold = gains
            return False
        log.warning("%s were predicted: what was learned of usage is dropped", told)
        self._on_prior = True
        return True

    def take_untold(self) -> Gains | None:
        """The figures to tell the controller, once."""
        found, self._untold = self._untold, None
        return found

    def _sum(self) -> Gains:
        return Gains(
            sum(one.moves for one in self._reliefs),
            sum(one.predicted for one in self._reliefs),
            sum(one.realised for one in self._reliefs),
        )
