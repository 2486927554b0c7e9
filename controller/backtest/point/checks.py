"""Checks the moves of a round one window later: were the predicted loads right, and did the moves help?

*Error*: for a broker that gave or received a bundle, the difference between the predicted load (`Decision.after` of its
last move in the round, which includes earlier ones) and the load in the next window, as a fraction of the level that
all could share (at least LEAST_LEVEL). Brokers affected by anything else in between are excluded. As the load itself
keeps changing, the error combines that of the model and that change, which is what the gain of a move must exceed.

*Useless*: a move that did not reduce the difference between the loads of source and target in the next window, or
whose bundle a round moved back to the source within RETURN_MS.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.backtest.point.replay_world import Moved
from controller.domain.decision import Decision
from controller.domain.load import SCORE_UNIT
from controller.policy.strategies.steady.model import LEAST_LEVEL
from controller.policy.view.snapshot import NO_SCORE, Snapshot
from controller.sim.figures import REPEAT_MS as RETURN_MS


@dataclass(slots=True)
class _Awaited:
    """The last round: predictions by broker, differences of load by move."""

    predicted: dict[str, float]
    pairs: list[tuple[int, str, str, int]]  # index of the move, source, target, difference of their scores before


class Checks:
    """Checks round after round: first call `see` with a round's snapshot, then `expect` with its moves."""

    def __init__(self, brokers: Sequence[str]) -> None:
        """`brokers`: names by the indices that moves have."""
        self.errors: list[float] = []
        self._names = brokers
        self._useless: set[int] = set()
        self._moves: list[Moved] = []
        self._last: dict[int, int] = {}  # row -> index of its last move by a round
        self._awaited = _Awaited({}, [])

    @property
    def useless_moves(self) -> int:
        """The number of useless moves by rounds so far."""
        return len(self._useless)

    def see(self, snapshot: Snapshot, disturbed: Iterable[str]) -> None:
        """Check the last round against the next window. `disturbed`: brokers affected by anything else."""
        awaited, self._awaited = self._awaited, _Awaited({}, [])
        if not awaited.pairs:
            return
        score = {b: s for b, s in zip(snapshot.brokers, snapshot.score.tolist(), strict=True) if s != NO_SCORE}
        spoiled, level = set(disturbed), max(level_of(snapshot), LEAST_LEVEL)
        for broker, predicted in awaited.predicted.items():
            if broker in score and broker not in spoiled:
                self.errors.append(abs(score[broker] / SCORE_UNIT - predicted) / level)
        for index, source, target, before in awaited.pairs:
            if source in score and target in score and abs(score[source] - score[target]) >= before:
                self._useless.add(index)

    def expect(self, snapshot: Snapshot, done: Iterable[tuple[Decision, Moved]]) -> None:
        """Note what the round on this snapshot decided and carried out, in its order."""
        score = dict(zip(snapshot.brokers, snapshot.score.tolist(), strict=True))
        awaited = _Awaited({}, [])
        for decision, move in done:
            awaited.predicted |= decision.after
            index = self._note(move)
            source, target = self._names[move.source], self._names[move.target]
            if source in score and target in score:
                awaited.pairs.append((index, source, target, abs(score[source] - score[target])))
        self._awaited = awaited

    def _note(self, move: Moved) -> int:
        """Note a move and return its index; a move that it undoes was useless."""
        before = self._last.get(move.row)
        if before is not None:
            earlier = self._moves[before]
            if earlier.source == move.target and move.at_ms - earlier.at_ms < RETURN_MS:
                self._useless.add(before)
        self._moves.append(move)
        self._last[move.row] = len(self._moves) - 1
        return len(self._moves) - 1


def level_of(snapshot: Snapshot) -> float:
    """The largest mean utilisation of a weighted resource over the eligible brokers; 0 without any."""
    part = snapshot.eligible
    level = 0.0
    for resource in np.flatnonzero(snapshot.weights > 0).tolist():
        usage, limit = snapshot.usage[part, resource], snapshot.limit[part, resource]
        known = np.isfinite(usage) & np.isfinite(limit)
        if known.any():
            mean = float(np.maximum(usage[known], 0.0).sum() / limit[known].sum())
            level = max(level, mean * float(snapshot.weights[resource]))
    return level
