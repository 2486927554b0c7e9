"""The point of a backtest that one would run with: by one rule, for all points and for those of a strategy alike.

The rule: of the points whose mean max/best is within `WITHIN` of the best one's and that overload no broker for longer
than it, the one with the fewest moves for balance and splits. Ties: the better balance, less overload, `steady`, what
differs least from the configuration, the earlier point. So the same results in the same order give the same choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult
from controller.domain.settings.policy import PolicySettings

STEADY = "steady"
WITHIN = 0.03  # of the best max/best: reports are no more exact than that


@dataclass(frozen=True, slots=True)
class Choice:
    """One point of the results and what it was chosen from. All are positions in the results."""

    chosen: int
    best: int  # the most even one, which sets the bounds
    within: tuple[int, ...]  # all that keep to the bounds, `chosen` among them


def choose(results: Sequence[PointResult], among: Sequence[int], base: PolicySettings) -> Choice | None:
    """The point that the rule names among those positions; None when none of them has a figure."""
    judged = [at for at in among if math.isfinite(results[at].max_best_mean)]
    if not judged:
        return None
    best = min(judged, key=lambda at: (results[at].max_best_mean, *_preference(results[at], base), at))
    most, longest = results[best].max_best_mean * (1 + WITHIN), results[best].overload_minutes
    within = tuple(at for at in judged if results[at].max_best_mean <= most and results[at].overload_minutes <= longest)
    return Choice(min(within, key=lambda at: (*_preference(results[at], base), at)), best, within)


def chosen_of_each(results: Sequence[PointResult], base: PolicySettings) -> dict[str, int]:
    """Strategy -> position of its point by the rule, in the order in which strategies appear."""
    found: dict[str, int] = {}
    for strategy in dict.fromkeys(result.strategy for result in results):
        choice = choose(results, positions(results, strategy), base)
        if choice is not None:
            found[strategy] = choice.chosen
    return found


def positions(results: Sequence[PointResult], strategy: str) -> tuple[int, ...]:
    """Where the points of a strategy are."""
    return tuple(at for at, result in enumerate(results) if result.strategy == strategy)


def knobs_that_matter(results: Sequence[PointResult], strategy: str) -> frozenset[str]:
    """Names of the knobs of which some change alone changed a figure of that strategy."""
    found: set[str] = set()
    points = [result for result in results if result.strategy == strategy]
    for name in {name for point in points for name in point.knobs}:
        figures: dict[tuple[tuple[str, Value], ...], dict[str, Any]] = {}
        for point in points:
            told = point.to_json()
            others = tuple(item for item in sorted(told.pop("knobs").items()) if item[0] != name)
            if figures.setdefault(others, told) != told:
                found.add(name)
    return frozenset(found)


def configured(base: PolicySettings, name: str) -> Value:
    """The configured value of a knob by its dotted name; None also for one that there is not (any more)."""
    value: Any = base
    for part in name.split("."):
        value = getattr(value, part, None)
    return value if isinstance(value, int | float) else None


def _preference(result: PointResult, base: PolicySettings) -> tuple[float, ...]:
    """Smaller is better; what decides among points that keep to the bounds."""
    changed = sum(value != configured(base, name) for name, value in result.knobs.items())
    return (
        result.moves_balance + result.splits,
        result.max_best_mean,
        result.overload_minutes,
        result.strategy != STEADY,
        changed,
    )
