"""What the moves of a round must keep to, reckoned from the level of the brokers that share the work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controller.domain.settings.policy import SteadySettings
from controller.policy.strategies.steady.model import Model
from controller.policy.strategies.steady.pairs import Bounds

STOP_SHARE = 0.8  # of the tolerance: a source that is within it has given enough
SLACK = 0.04  # of the level: how far below it a source may be left
FILL_SLACK = 0.15  # the same, when an idle broker is filled
SMALLEST = 0.1  # of what a move must bring otherwise: the least, off a broker that is far above


@dataclass(frozen=True, slots=True)
class Limits:
    """Scores. `stop`: a source there has given enough. `loose` is for sources that are far above the level."""

    stop: float
    strict: Bounds
    loose: Bounds
    filling: Bounds
    tolerance: float

    @classmethod
    def of(cls, model: Model, steady: SteadySettings) -> Limits:
        """Those of the brokers that take part in the model."""
        level, norm = model.level, model.norm
        stop, relief = level + STOP_SHARE * steady.tolerance * norm, steady.least_relief * norm
        return cls(
            stop,
            Bounds(level - SLACK * norm, stop, relief),
            Bounds(level - 2 * SLACK * norm, level + steady.tolerance * norm, relief),
            Bounds(level - FILL_SLACK * norm, stop, relief),
            steady.tolerance,
        )

    def for_excess(self, excess: float) -> list[Bounds]:
        """What a move must keep to; `excess` in levels. Far above the level, a little less than the ideal will do.

        A broker far above that has nothing but small bundles is better relieved in small pieces than not at all.
        """
        small = float(np.clip(2 * self.tolerance / max(excess, 1e-9), SMALLEST, 1.0))
        bounds = [self.strict, self.loose] if excess > 2 * self.tolerance else [self.strict]
        return [b._replace(least_relief=b.least_relief * small) for b in bounds]
