"""Scores before and after moves, for the evidence of strategies that predict nothing themselves.

The same figures as `what_if.Model`, kept as plain numbers: a strategy that moves a thousand bundles a round spends less
on all of them than on a few array operations each.
"""

from __future__ import annotations

import math

import numpy as np

from controller.domain.load import RESOURCE_SCALES, RESOURCES, SCORE_UNIT
from controller.policy.view.snapshot import Snapshot


class PredictedScores:
    """Predicted usage of the brokers that moves have touched."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._counted = np.flatnonzero(snapshot.weights > 0)
        self._weights: list[float] = snapshot.weights[self._counted].tolist()
        self._usage: dict[int, list[float]] = {}
        self._limit: dict[int, list[float]] = {}

    def move(self, bundle: int, source: int, target: int) -> None:
        """Take the bundle's cost from the source to the target (indices into the snapshot)."""
        cost = self._snapshot.cost[bundle, self._counted].tolist()
        for broker, sign in ((source, -1.0), (target, 1.0)):
            self._touch(broker)
            self._usage[broker] = [used + sign * part for used, part in zip(self._usage[broker], cost, strict=True)]

    def score(self, broker: int) -> float:
        """Fraction; 0 where no weighted resource is known."""
        self._touch(broker)
        largest = 0.0
        for used, limit, weight in zip(self._usage[broker], self._limit[broker], self._weights, strict=True):
            part = max(used, 0.0) / limit * weight if limit > 0 else math.nan
            largest = part if part > largest else largest  # an unknown one is not larger
        return round(largest * SCORE_UNIT) / SCORE_UNIT

    def cost(self, bundle: int) -> dict[str, int]:
        """What the bundle is estimated to use, quantised as in RESOURCE_SCALES."""
        cost = self._snapshot.cost[bundle].tolist()
        return {name: round(c * scale) for name, c, scale in zip(RESOURCES, cost, RESOURCE_SCALES, strict=True)}

    def _touch(self, broker: int) -> None:
        if broker not in self._usage:
            self._usage[broker] = self._snapshot.usage[broker, self._counted].tolist()
            self._limit[broker] = self._snapshot.limit[broker, self._counted].tolist()
