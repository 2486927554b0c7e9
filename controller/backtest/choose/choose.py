"""Chooses the point of a backtest to run with, by one rule for all points and for those of a single strategy.

The rule considers points whose mean max/best is within `WITHIN` of the best and that overload brokers for no longer
than the best point does. Of these it takes the point with the fewest moves for balance and splits. Ties go to the
better balance, less overload, `steady`, the fewest differences from the configuration, the earlier point. So the same
results in the same order give the same choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controller.backtest.point.grid import Value, configured_value
from controller.backtest.point.result import PointResult
from controller.domain.settings.policy import PolicySettings

STEADY = "steady"
WITHIN = 0.03  # of the best max/best: reports are not more precise


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen point and the points it was chosen from, as positions in the results."""

    chosen: int
    best: int  # the most balanced point, which sets the bounds
    within: tuple[int, ...]  # all points within the bounds, including `chosen`


def choose(results: Sequence[PointResult], among: Sequence[int], base: PolicySettings) -> Choice | None:
    """The choice among these positions; None if none of them has a figure."""
    judged = [at for at in among if math.isfinite(results[at].max_best_mean)]
    if not judged:
        return None
    best = min(judged, key=lambda at: (results[at].max_best_mean, *_preference(results[at], base), at))
    most, longest = results[best].max_best_mean * (1 + WITHIN), results[best].overload_minutes
    within = tuple(at for at in judged if results[at].max_best_mean <= most and results[at].overload_minutes <= longest)
    return Choice(min(within, key=lambda at: (*_preference(results[at], base), at)), best, within)


def choose_for_each(results: Sequence[PointResult], base: PolicySettings) -> dict[str, int]:
    """Strategy -> position of its chosen point, in the order in which strategies appear."""
    found: dict[str, int] = {}
    for strategy in dict.fromkeys(result.strategy for result in results):
        choice = choose(results, positions(results, strategy), base)
        if choice is not None:
            found[strategy] = choice.chosen
    return found


def positions(results: Sequence[PointResult], strategy: str) -> tuple[int, ...]:
    """The positions of the points of a strategy."""
    return tuple(at for at, result in enumerate(results) if result.strategy == strategy)


def knobs_that_matter(results: Sequence[PointResult], strategy: str) -> frozenset[str]:
    """The knobs whose change alone changed a figure of the strategy."""
    return frozenset(name for name, changed in _varied_alone(results, strategy).items() if changed)


def knobs_without_effect(results: Sequence[PointResult], strategy: str) -> frozenset[str]:
    """The knobs whose change alone changed no figure of the strategy. Of one that differed only together with others
    nothing is known."""
    return frozenset(name for name, changed in _varied_alone(results, strategy).items() if not changed)


def _varied_alone(results: Sequence[PointResult], strategy: str) -> dict[str, bool]:
    """Knob -> whether it changed a figure, of the knobs in which alone two points of the strategy differ."""
    found: dict[str, bool] = {}
    points = [(dict(result.knobs), result.to_json()) for result in results if result.strategy == strategy]
    for _, figures in points:
        del figures["knobs"]
    for name in sorted({name for knobs, _ in points for name in knobs}):
        first: dict[tuple[tuple[str, Value], ...], tuple[Value, dict[str, Any]]] = {}
        for knobs, figures in points:
            others = tuple(item for item in sorted(knobs.items()) if item[0] != name)
            value, before = first.setdefault(others, (knobs.get(name), figures))
            if value != knobs.get(name) or figures != before:
                found[name] = found.get(name, False) or figures != before
    return found


def _preference(result: PointResult, base: PolicySettings) -> tuple[float, ...]:
    """A key that orders points within the bounds; smaller is better."""
    changed = sum(value != configured_value(base, name) for name, value in result.knobs.items())
    return (
        result.moves_balance + result.splits,
        result.max_best_mean,
        result.overload_minutes,
        result.strategy != STEADY,
        changed,
    )
