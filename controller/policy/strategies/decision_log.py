"""What one round of a strategy does and does not do, and why: a reason for every broker, evidence for every decision.

A broker that gives something away keeps the reason of its first move. Every other broker becomes one skip, with the
reason that was noted last, so that each broker is accounted for in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.policy.decisions import make_transfer
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Bools, Snapshot


class DecisionLog:
    """Brokers and bundles are indices into the snapshot.

    `moves`: moves and splits in the order they were chosen. `sources`: brokers that gave something away. `reasons`: of
    every broker, for its row of scores. `visited`: [B] brokers whose bundles were looked into; strategies set it.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        strategy: str,
        first_reason: Callable[[int], Reason],
        seen: Callable[[int], Mapping[str, Any]],
    ) -> None:
        """`first_reason`: why a broker that may be a source gives nothing, before anything was tried.

        `seen`: what a broker is judged by, as it stands when asked; the evidence of its skip.
        """
        self._snapshot, self._strategy, self._seen = snapshot, strategy, seen
        self.moves: list[Decision] = []
        self.sources: set[int] = set()
        self.visited: Bools = np.zeros(len(snapshot.brokers), bool)
        self.reasons = {
            at: first_reason(at) if block == ALLOWED else REASONS[block]
            for at, block in enumerate(snapshot.source_block.tolist())
        }
        self._evidence: dict[int, Mapping[str, Any]] = {}

    def transfer(
        self, bundle: int, source: int, target: int, before: Sequence[float], after: Sequence[float],
        reason: Reason, evidence: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Note a move. `before`, `after`: predicted scores of source and target, as fractions."""
        decision = make_transfer(
            self._snapshot, bundle, (source, target), before, after,
            reason=reason, strategy=self._strategy, evidence=evidence,
        )  # fmt: skip
        self.note(source, decision)

    def note(self, source: int, decision: Decision) -> None:
        """Note a move or split off the source."""
        if source not in self.sources:
            self.reasons[source] = decision.reason
        self.sources.add(source)
        self.moves.append(decision)

    def deny(self, source: int, reason: Reason, evidence: Mapping[str, Any] | None = None) -> None:
        """Note why the source gives nothing (more), with what was seen beside its own figures."""
        if source not in self.sources:
            self.reasons[source] = reason
            self._evidence[source] = {**self._seen(source), **(evidence or {})}

    def decisions(self) -> tuple[Decision, ...]:
        """All moves, then one skip for every broker that gave nothing away."""
        skips = (
            skip_decision(name, self.reasons[at], self._strategy, self._evidence.get(at) or self._seen(at))
            for at, name in enumerate(self._snapshot.brokers)
            if at not in self.sources
        )
        return (*self.moves, *skips)

    def considered(self) -> Bools:
        """[N] the bundles of the brokers that were looked into."""
        return np.asarray(np.append(self.visited, False)[self._snapshot.owner])  # the last one stands for NOBODY


def skip_decision(broker: str, reason: Reason, strategy: str, evidence: Mapping[str, Any]) -> Decision:
    """Why this broker gives nothing away."""
    return Decision("", DecisionKind.SKIP, Label.SKIP, reason, source=broker, strategy=strategy, evidence=evidence)
