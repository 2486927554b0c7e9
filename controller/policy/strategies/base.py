"""What a strategy is: a pure function from a snapshot, its own memory and the settings to decisions.

It reads no clock, draws no random number and keeps nothing between rounds but the memory it returns, which the
journal holds for it. Decisions come without ids; the round numbers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Decision, Reason
from controller.domain.load import RESOURCES, SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import NO_SCORE, Snapshot


@dataclass(frozen=True, slots=True)
class StrategyOutcome:
    """`decisions`: moves, and one skip for every broker without a move. `scores`: one row a broker.

    `considered`: [N] mask of the bundles whose rows could have changed the outcome; they are stored for the replay.
    `max_moves`: what the strategy's own budget allows in this round; None: `shed.max_moves_per_round`.
    `reads_latencies`: whether the frame's latencies could have changed it; else they are not stored.
    """

    decisions: tuple[Decision, ...]
    scores: tuple[Mapping[str, Any], ...]
    memory: Mapping[str, Any]
    considered: NDArray[np.bool_]
    max_moves: int | None = None
    reads_latencies: bool = False


class Strategy(Protocol):
    """`name` is what configuration and evidence call it.

    `rules` is raised whenever it decides a stored round differently, the evidence included, be it by its own code or by
    what it shares with others: a round keeps the number, and only a round of the same number is computed again.
    """

    name: str
    rules: int

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Decide one round; `memory` is what the same strategy returned in the round before, {} in the first."""
        ...


def score_rows(
    snapshot: Snapshot, mean: int | Ints, hits: Ints, sources: NDArray[np.bool_], reasons: Mapping[int, Reason]
) -> tuple[Mapping[str, Any], ...]:
    """One row a broker: what `RoundResult.scores` promises. Fractions to four digits; None where unknown.

    `mean`: of all, or [B] of the brokers that each can share work with.
    """
    eligible = snapshot.eligible
    means = np.broadcast_to(mean, (len(snapshot.brokers),)).tolist()
    rows: list[Mapping[str, Any]] = []
    for at, broker in enumerate(snapshot.brokers):
        used = snapshot.utilisation[at].tolist()
        score = int(snapshot.score[at])
        rows.append(
            {
                "broker": broker,
                "score": None if score == NO_SCORE else score / SCORE_UNIT,
                "mean": means[at] / SCORE_UNIT,
                "hits": int(hits[at]),
                "eligible": bool(eligible[at]),
                "source": bool(sources[at]),
                "reason": reasons[at].value,
                "utilisations": {r: round(u, 4) if u == u else None for r, u in zip(RESOURCES, used, strict=True)},
            }
        )
    return tuple(rows)
