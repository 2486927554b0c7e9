"""The what-if model of one round: every chosen move changes it before the next is considered.

Load is conserved: what leaves the source arrives at the target (the tests of invariant I7 add it up).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from controller.domain.decision import Reason
from controller.domain.load import SCORE_UNIT
from controller.policy.placement.rules import pools_of, track_placement
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import CODES
from controller.policy.view.snapshot import Snapshot, scores


class Model:
    """Usage, totals, scores and owners as they would be after the moves chosen so far."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.usage: Floats = snapshot.usage.copy()
        self.totals: Floats = snapshot.totals.copy()
        self.score: Ints = snapshot.score.copy()
        self.owner: Ints = snapshot.owner.copy()
        self.bundle_block: Ints = snapshot.bundle_block.copy()
        self.placement_state = track_placement(snapshot)
        self._weighted = np.flatnonzero(snapshot.weights > 0)

    def mean(self) -> int:
        """Mean score of the eligible brokers, in 1 / SCORE_UNIT; 0 when there is none."""
        eligible = self.score[self.snapshot.eligible]
        return int(np.rint(eligible.sum() / len(eligible))) if len(eligible) else 0

    def means(self) -> Ints:
        """[B] mean score of the eligible brokers that each can share work with: of all, unless isolation parts them."""
        result = np.full(len(self.score), self.mean(), np.int64)
        for pool in pools_of(self.snapshot):
            eligible = self.score[pool & self.snapshot.eligible]
            if len(eligible):
                result[pool] = np.rint(eligible.sum() / len(eligible))
        return result

    def fractions(self, brokers: Iterable[int]) -> list[float]:
        """The brokers' scores as fractions."""
        return [int(self.score[broker]) / SCORE_UNIT for broker in brokers]

    def source_after(self, source: int, bundles: Ints) -> Ints:
        """[n] the source's score without each of the bundles."""
        usage = self.usage[source] - self.snapshot.cost[bundles]
        return self._scores(usage, self.snapshot.limit[source])

    def target_after(self, bundles: Ints, targets: Ints) -> Ints:
        """[n x t] each target's score with each of the bundles."""
        usage = self.usage[targets][None, :, :] + self.snapshot.cost[bundles][:, None, :]
        return self._scores(usage, self.snapshot.limit[targets][None, :, :])

    def move(self, bundle: int, target: int) -> None:
        """Take the bundle from its owner to the target. No later move of the round may name it."""
        source = int(self.owner[bundle])
        for broker, sign in ((source, -1), (target, 1)):
            self.usage[broker] += sign * self.snapshot.cost[bundle]
            self.totals[broker] += sign * self.snapshot.fields[bundle]
            self.score[broker] = self._scores(self.usage[broker], self.snapshot.limit[broker])
        self.owner[bundle] = target
        self.bundle_block[bundle] = CODES[Reason.IN_FLIGHT]
        if self.placement_state is not None:
            self.placement_state.move(bundle, target)

    def _scores(self, usage: Floats, limit: Floats) -> Ints:
        weighted = self._weighted  # resources without weight would only make the arrays bigger
        return scores(usage[..., weighted], limit[..., weighted], self.snapshot.weights[weighted])
