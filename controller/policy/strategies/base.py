"""What a strategy is: a pure function from a snapshot, its own memory and the settings to decisions.

It reads no clock, draws no random number and keeps nothing between rounds but the memory it returns, which the
journal holds for it. Decisions come without ids; the round numbers them. `headroom` and `weighted` also share how they
count hits: in how many consecutive rounds a broker was hot, each judged by averages, so that a spike moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from controller.domain.decision import Decision, Reason
from controller.domain.load import RESOURCES, SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import CODES
from controller.policy.view.snapshot import NO_SCORE, Bools, Snapshot

_SILENT = (CODES[Reason.NO_LOAD_DATA], CODES[Reason.OUTDATED_LOAD_DATA])


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
    considered: Bools
    max_moves: int | None = None
    reads_latencies: bool = False


@dataclass(frozen=True, slots=True)
class Traits:
    """What a strategy says about itself, as its attribute `traits`; these are the values of one that says nothing.

    `budgeted`: rounds hold it to `max_moves` and the rate limits, and it plans with operators' moves counted as done.
    Pulsar's own strategies have limits of their own; under a budget they would not be what others are compared with.
    `knobs`: the parts of `PolicySettings` that are its own, besides those that every strategy reads; None: not known,
    so it may read any. `from_pulsar`: Pulsar has it too, and it is Pulsar's to decide what it does. `estimates`: the
    scores that its moves begin and end with are those of the usage model, not the readings of the round. `early`: it
    may be asked between two rounds; one that counts rounds for how long something has lasted must not be.
    """

    budgeted: bool = True
    knobs: tuple[str, ...] | None = None
    from_pulsar: bool = False
    estimates: bool = False
    early: bool = False


_DEFAULT_TRAITS = Traits()
FROM_PULSAR = Traits(budgeted=False, knobs=("pulsar",), from_pulsar=True)


class Strategy(Protocol):
    """`name` is what configuration and evidence call it: lower-case letters, digits and underscores.

    `rules` is raised whenever the strategy decides a stored round differently, evidence included, whether by its own
    code or by what it shares with others: a round keeps the number, and only a round of the same number is computed
    again. A strategy may also have `traits: Traits`.
    """

    name: str
    rules: int

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Decide one round; `memory` is what the same strategy returned in the round before, {} in the first."""
        ...


def traits_of(strategy: Strategy) -> Traits:
    """The strategy's own, or the defaults."""
    traits: Traits = getattr(strategy, "traits", _DEFAULT_TRAITS)
    return traits


def score_rows(
    snapshot: Snapshot, mean: int | Ints, hits: Ints, sources: Bools, reasons: Mapping[int, Reason]
) -> tuple[Mapping[str, Any], ...]:
    """One row a broker, as `RoundResult.scores` promises. Fractions to four digits; None where unknown.

    `mean`: of all brokers, or [B] of those that each can share work with. In 1 / SCORE_UNIT, like the scores.
    """
    means = np.broadcast_to(mean, (len(snapshot.brokers),))
    columns = (snapshot.utilisation, snapshot.score, means, hits, snapshot.eligible, sources)
    rows: list[Mapping[str, Any]] = []
    for at, (broker, used, score, of_all, times, eligible, source) in enumerate(
        zip(snapshot.brokers, *(column.tolist() for column in columns), strict=True)
    ):
        unheard = reasons[at] is Reason.NO_LOAD_DATA and not any(share > 0 for share in used)
        rows.append(
            {
                "broker": broker,
                "score": None if unheard or score == NO_SCORE else score / SCORE_UNIT,
                "mean": None if unheard and not of_all else of_all / SCORE_UNIT,
                "hits": int(times),
                "eligible": eligible,
                "source": bool(source),
                "reason": reasons[at].value,
                "utilisations": {
                    r: None if unheard or u != u else round(u, 4) for r, u in zip(RESOURCES, used, strict=True)
                },
            }
        )
    return tuple(rows)


def count_hits(snapshot: Snapshot, hot: Bools, memory: Mapping[str, Any]) -> Ints:
    """[B] consecutive rounds in which each broker was hot, including this one ([B] `hot`).

    `memory["hits"]` is what `hits_to_memory` returned. A round without data on a broker neither adds a hit nor takes
    one away; a new incarnation starts at zero.
    """
    before = np.zeros(len(snapshot.brokers), np.int64)
    kept: Mapping[str, Any] = memory.get("hits", {})
    for at, broker in enumerate(snapshot.brokers):
        incarnation, hits = kept.get(broker, (0, 0))
        before[at] = hits if incarnation == snapshot.incarnation[at] else 0
    silent = np.isin(snapshot.source_block, _SILENT)
    return np.where(snapshot.eligible & hot, before + 1, np.where(silent, before, 0))


def hits_to_memory(snapshot: Snapshot, hits: Ints) -> dict[str, list[int]]:
    """Broker id -> [incarnation, hits], of the brokers that have any."""
    return {
        snapshot.brokers[at]: [int(snapshot.incarnation[at]), int(hits[at])] for at in np.flatnonzero(hits > 0).tolist()
    }
