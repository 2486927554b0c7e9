"""What a round of `steady` has chosen so far: every choice changes the model, the budget and the record at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.policy.strategies.steady.candidates import Held
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.pairs import Pairs
from controller.policy.strategies.steady.record import Record
from controller.policy.strategies.steady.swap import Swap
from controller.policy.strategies.steady.wording import move_decision, split_decision
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.snapshot import Snapshot

Evidence = Mapping[str, Any]


class Choices:
    """`left`: [B] moves that each broker may still take part in. A bundle is named by one choice at most."""

    def __init__(self, snapshot: Snapshot, model: Model, record: Record, budget: int) -> None:
        self.budget, self.moves = budget, 0
        self.left: Ints = snapshot.quota.remaining(len(snapshot.brokers))
        self._snapshot, self._model, self._record = snapshot, model, record
        self._grouped: Held | None = None

    @property
    def held(self) -> Held:
        """The bundles by broker, grouped when first needed: a quiet round never does."""
        if self._grouped is None:
            self._grouped = Held(self._model)
        return self._grouped

    def spent(self, broker: int, moves: int = 1) -> bool:
        """Whether so many more moves of the broker would be over a budget."""
        return self.moves + moves > self.budget or bool(self.left[broker] < moves)

    def best_of(self, pairs: Pairs, best: tuple[int, int], reason: Reason) -> None:
        """The move of a pair (row, column), with what the others lost by."""
        row, column = best
        source, target = pairs.candidates.source, int(pairs.targets[column])
        told = {**self._record.seen(source), **self._record.lost(pairs)}
        told["disruption_permille"] = round(1000 * float(pairs.candidates.disruption[row]))
        bundle = int(pairs.candidates.bundles[row])
        self.transfer(bundle, pairs.candidates.work[row], (source, target), reason, told)

    def transfer(self, bundle: int, work: Floats, way: tuple[int, int], reason: Reason, evidence: Evidence) -> None:
        """One bundle goes along `way` (source, target)."""
        before = self._scores(way)
        self._model.move(bundle, work, way[1])
        self.held.name(bundle)
        after = self._scores(way)
        self._record.note(way[0], move_decision(self._snapshot, bundle, way, before, after, reason, evidence))
        self._count(way, 1)

    def exchange(self, source: int, swap: Swap, reason: Reason, evidence: Evidence) -> None:
        """Two bundles change places."""
        way = source, swap.target
        before = self._scores(way)
        self._model.move(swap.leaving, swap.leaving_work, swap.target)
        self._model.move(swap.returning, swap.returning_work, source)
        self.held.name(swap.leaving)
        self.held.name(swap.returning)
        after = self._scores(way)
        back = swap.target, source
        singly = evidence.get("pairs", [])  # why no bundle moves alone
        for bundle, other, ends, scores, pairs in (
            (swap.leaving, swap.returning, way, (before, after), [*swap.leavers, *singly]),
            (swap.returning, swap.leaving, back, (_reversed(before), _reversed(after)), swap.returners),
        ):
            told = {**evidence, "pairs": pairs, "swapped_with": self._snapshot.bundles[other]}
            self._record.note(ends[0], move_decision(self._snapshot, bundle, ends, *scores, reason, told))
        self._count(way, 2)

    def split(self, source: int, bundle: int, boundary: int, evidence: Evidence) -> None:
        """A bundle is cut; both parts stay where they are for now."""
        told = {**self._record.seen(source), **evidence}
        self._record.note(source, split_decision(self._snapshot, bundle, source, boundary, told))
        self.held.name(bundle)

    def _scores(self, way: tuple[int, int]) -> tuple[float, float]:
        return float(self._model.score[way[0]]), float(self._model.score[way[1]])

    def _count(self, way: tuple[int, int], moves: int) -> None:
        self.moves += moves
        self.left[np.array(way)] -= moves


def _reversed(scores: tuple[float, float]) -> tuple[float, float]:
    return scores[1], scores[0]
