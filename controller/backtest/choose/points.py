"""Points in words: a strategy and the knobs that say something about it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from controller.backtest.choose.choose import STEADY, knobs_that_matter, knobs_without_effect
from controller.backtest.point.grid import Value
from controller.backtest.point.result import PointResult
from controller.policy.strategies import STRATEGIES


def describe_point(results: Sequence[PointResult], point: PointResult) -> str:
    """A point in a few words: its strategy and the knobs that matter to it.

    Omits knobs that were varied without effect on this strategy, and knobs in another strategy's section.
    """
    idle = knobs_without_effect(results, point.strategy)
    telling = knobs_that_matter(results, point.strategy)
    mine = ", ".join(
        f"{short_name(name)} {format_value(value)}"
        for name, value in sorted(point.knobs.items(), key=lambda knob: knob[0])
        if name in telling or (name not in idle and _strategy_of(name) in ("", point.strategy))
    )
    return f"`{point.strategy}` with {mine}" if mine else f"`{point.strategy}`"


def format_value(value: Value) -> str:
    """The value of a knob in the form that `--grid` takes."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}"


def knob_values(results: Sequence[PointResult], strategy: str, name: str) -> set[Value]:
    """The values of a knob among the points of a strategy that have it."""
    return {result.knobs[name] for result in results if result.strategy == strategy and name in result.knobs}


def short_name(name: str) -> str:
    """The name of a knob; of those of `steady` without the section."""
    return name.removeprefix(f"{STEADY}.")


def _strategy_of(name: str) -> str:
    """The strategy whose section contains the knob, or an empty text."""
    section = name.partition(".")[0]
    return section if section in STRATEGIES else ""
