"""Mean and standard deviation of the brokers' loads, and how a move changes them (TransferShedder.LoadStats)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LoadStats:
    """Loads are fractions. `std` is the population's standard deviation."""

    square_sum: float
    brokers: int
    average: float
    std: float

    @classmethod
    def of(cls, loads: Sequence[float]) -> LoadStats:
        """The statistics of these loads, added up in the given order; zeros without loads."""
        if not loads:
            return cls(0.0, 0, 0.0, 0.0)
        total = squares = 0.0
        for load in loads:  # Pulsar's order of additions: math.fsum would differ in the last digits
            total += load
            squares += load * load
        average = total / len(loads)
        # Surprise: rounding can make this negative for equal loads. Java returns NaN, which is never above the target.
        return cls(squares, len(loads), average, _root(squares / len(loads) - average * average))

    def after(self, highest: float, lowest: float, moved: float) -> LoadStats:
        """The statistics after `moved` went from one broker to another. The mean stays the same."""
        left = math.nan if math.isnan(moved) else max(0.0, highest - moved)
        grown = lowest + moved
        squares = self.square_sum - (highest * highest + lowest * lowest) + (left * left + grown * grown)
        std = math.sqrt(abs(squares / self.brokers - self.average * self.average))
        return replace(self, square_sum=squares, std=std)


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan
