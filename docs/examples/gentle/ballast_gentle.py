"""`gentle`: at most one bundle a round, from the broker with the highest score to the one with the lowest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies import DecisionLog, StrategyOutcome, Traits, score_rows
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import Snapshot
from controller.policy.what_if import Model

GAP = 1_000  # between two scores, in hundredths of a percentage point: closer brokers are left alone
REST_ROUNDS = 2  # after a move


class Gentle:
    """Rests after every move, so that the averages show what it did before it moves again."""

    name = "gentle"
    rules = 1
    traits = Traits(knobs=())

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `rest`, rounds without a move that are still to come."""
        model, scores, rest = Model(snapshot), snapshot.score, int(memory.get("rest", 0))
        mean = model.mean()
        log = DecisionLog(
            snapshot, self.name, lambda at: Reason.BALANCED, lambda at: {"score": int(scores[at]), "mean": mean}
        )
        sources, targets = np.flatnonzero(snapshot.eligible), np.flatnonzero(snapshot.target_block == ALLOWED)
        if not rest and len(sources) and len(targets):
            source, target = int(sources[np.argmax(scores[sources])]), int(targets[np.argmin(scores[targets])])
            if scores[source] - scores[target] >= GAP:
                self._move(model, log, source, target, {"score": int(scores[source]), "mean": mean})
        gave = np.isin(np.arange(len(scores)), list(log.sources))
        rows = score_rows(snapshot, mean, np.zeros(len(scores), np.int64), gave, log.reasons)
        kept = {"rest": REST_ROUNDS if log.moves else max(0, rest - 1)}
        return StrategyOutcome(log.decisions(), rows, kept, log.considered())

    def _move(self, model: Model, log: DecisionLog, source: int, target: int, seen: Mapping[str, Any]) -> None:
        log.visited[source] = True  # its bundles are stored with the round, which can so be decided again
        bundles = np.flatnonzero((model.owner == source) & (model.bundle_block == ALLOWED))
        after = model.target_after(bundles, np.array([target]))[:, 0]
        fits = after <= model.source_after(source, bundles)
        if not fits.any():
            log.deny(source, Reason.WOULD_NOT_IMPROVE, {"bundles": len(bundles)})
            return
        bundle = int(bundles[np.argmax(np.where(fits, after, -1))])
        before = model.fractions((source, target))
        model.move(bundle, target)
        log.transfer(bundle, source, target, before, model.fractions((source, target)), Reason.ABOVE_MEAN, seen)
