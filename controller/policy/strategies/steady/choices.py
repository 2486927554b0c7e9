"""What a round of `steady` has chosen so far: every choice changes the model, the budget and the log at once.

A namespace that has no moves left is closed: what would be chosen of it pacing would hold back, while the model counted
on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from controller.domain.decision import Reason
from controller.domain.load import SCORE_UNIT
from controller.policy.strategies.decision_log import DecisionLog
from controller.policy.strategies.steady.candidates import Held
from controller.policy.strategies.steady.evidence import Evidence, split_decision
from controller.policy.strategies.steady.model import Model, in_units
from controller.policy.strategies.steady.pairs import Judged
from controller.policy.strategies.steady.swap import Swap
from controller.policy.view.frame import Ints, namespace_of_bundle
from controller.policy.view.snapshot import Snapshot


class Choices:
    """`left`: [B] moves that each broker may still take part in. A bundle is named by one choice at most."""

    def __init__(self, snapshot: Snapshot, model: Model, log: DecisionLog, evidence: Evidence, budget: int) -> None:
        self.budget, self.moves = budget, 0
        self.left: Ints = snapshot.quota.remaining(len(snapshot.brokers))
        self._snapshot, self._model, self._log, self._evidence = snapshot, model, log, evidence
        self._left_of: dict[str, int] = dict(snapshot.quota.namespaces)
        self.closed = {namespace for namespace, left in self._left_of.items() if left <= 0}

    @cached_property
    def held(self) -> Held:
        """The bundles by broker, grouped when first needed: a quiet round never does."""
        held = Held(self._model)
        for namespace in self.closed:
            held.close(namespace)
        return held

    def closed_among(self, bundles: Ints) -> str:
        """The first namespace of these bundles that has no moves left; empty without one."""
        found = (namespace_of_bundle(self._snapshot.bundles[bundle]) for bundle in bundles.tolist())
        return next((namespace for namespace in found if namespace in self.closed), "") if self.closed else ""

    def spent(self, broker: int, moves: int = 1) -> bool:
        """Whether so many more moves of the broker would be over a budget."""
        return self.moves + moves > self.budget or bool(self.left[broker] < moves)

    def move_pair(self, judged: Judged, pair: tuple[int, int], reason: Reason, first: int | None = None) -> int:
        """Move the bundle of a pair (row, column), with what the others lost by; the bundle. `first`: the one that
        began the step, if others have moved since the pairs were judged."""
        (row, column), pairs = pair, judged.pairs
        source, target = pairs.candidates.source, int(pairs.targets[column])
        if first is None:
            of_pairs = self._evidence.of_pairs(judged, source in self._log.sources)
        else:
            of_pairs = self._evidence.of_next(judged, row, column, first)
        evidence = {**self._evidence.of_broker(source), **of_pairs}
        evidence["disruption_permille"] = round(1000 * float(pairs.candidates.disruption[row]))
        bundle = int(pairs.candidates.bundles[row])
        self.move(bundle, source, target, reason, evidence)
        return bundle

    def move(self, bundle: int, source: int, target: int, reason: Reason, evidence: Mapping[str, Any]) -> None:
        """Move one bundle."""
        before = self._scores(source, target)
        self._model.move(bundle, target)
        self.held.name(bundle)
        self._log.transfer(bundle, source, target, before, self._scores(source, target), reason, evidence)
        self._count(source, target, bundle)

    def swap(self, source: int, swap: Swap, reason: Reason, evidence: Mapping[str, Any]) -> None:
        """Let two bundles change places."""
        target = swap.target
        before = self._scores(source, target)
        self._model.move(swap.leaving, target)
        self._model.move(swap.returning, source)
        self.held.name(swap.leaving)
        self.held.name(swap.returning)
        after = self._scores(source, target)
        alone = evidence.get("pairs", [])  # why no bundle moves alone
        for bundle, other, start, end, scores, pairs in (
            (swap.leaving, swap.returning, source, target, (before, after), [*swap.leavers, *alone]),
            (swap.returning, swap.leaving, target, source, (before[::-1], after[::-1]), swap.returners),
        ):
            of_half = {**evidence, "pairs": pairs, "swapped_with": self._snapshot.bundles[other]}
            self._log.transfer(bundle, start, end, *scores, reason, of_half)
        self._count(source, target, swap.leaving, swap.returning)

    def split(self, source: int, bundle: int, boundary: int, evidence: Mapping[str, Any]) -> None:
        """Split a bundle; both halves stay where they are for now."""
        evidence = {**self._evidence.of_broker(source), **evidence}
        self._log.note(source, split_decision(self._snapshot, bundle, source, boundary, evidence))
        self.held.name(bundle)

    def _scores(self, source: int, target: int) -> list[float]:
        """What the two are judged by, as fractions, as precise as evidence shows them: of the source what lasts, of the
        target all that it carries now, or nine tenths of its reading."""
        judged = float(self._model.score[source]), float(self._model.peak[target])
        return [in_units(score) / SCORE_UNIT for score in judged]

    def _count(self, source: int, target: int, *bundles: int) -> None:
        self.moves += len(bundles)
        for broker in (source, target):
            self.left[broker] -= len(bundles)
        for bundle in bundles:
            namespace = namespace_of_bundle(self._snapshot.bundles[bundle])
            left = self._left_of[namespace] = self._left_of.get(namespace, self._snapshot.quota.namespace) - 1
            if left <= 0 and namespace:
                self.closed.add(namespace)
                self.held.close(namespace)
