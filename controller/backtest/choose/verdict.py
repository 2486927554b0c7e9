"""What to do about a backtest, in one sentence: the decision, and what it would change.

The rule: where the recording cannot tell (`confidence`), change nothing. Otherwise the chosen point is the answer: keep
the configuration if that is it, else change to it. What that would change is measured against the point that is
configured now or, where that has no figure because it was interrupted, against the most even one. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from controller.backtest.choose.choose import WITHIN, Choice, knobs_without_effect, positions
from controller.backtest.choose.confidence import Confidence, Grade
from controller.backtest.choose.points import describe_point
from controller.backtest.point.grid import configured_value
from controller.backtest.point.result import PointResult
from controller.domain.settings.policy import PolicySettings
from controller.operations.text import count_text, duration_text
from controller.policy.strategies import get, has, reads

MINUTE_MS = 60_000
ALIKE = 0.0005  # changes of the imbalance below a twentieth of a percent are none
NOT_COMPARED = "What is configured has no figure to compare with."
MANY_TIMES = 3.0  # from here on "times as many" says more than percent


class Action(str, Enum):
    """What to do with the configuration."""

    NOTHING = "nothing"  # the recording does not tell
    KEEP = "keep"
    CHANGE = "change"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`headline` and `effect` are the halves of one sentence; names of strategies are in backticks."""

    action: Action
    headline: str
    effect: str

    @property
    def text(self) -> str:
        """The sentence."""
        return f"{self.headline}: {self.effect}"


NO_VERDICT = Verdict(Action.NOTHING, "Change nothing", "no finished point has a figure.")


def judge(results: Sequence[PointResult], overall: Choice | None, base: PolicySettings, sure: Confidence) -> Verdict:
    """The verdict on finished points. `overall`: the choice among all of them; `base`: the configuration."""
    if overall is None:
        return NO_VERDICT
    if sure.grade is Grade.NONE:
        recording = "a recording this short" if sure.too_short else "the recording"
        more = " Record an hour at least, better a day." if sure.too_short else ""
        return Verdict(Action.NOTHING, "Change nothing", f"{recording} does not tell what is better.{more}")
    chosen, best = results[overall.chosen], results[overall.best]
    now = configured_position(results, base)
    if now == overall.chosen:
        return Verdict(Action.KEEP, f"Keep {describe_point(results, chosen)}", _why_keep(results, overall))
    headline = f"Use {describe_point(results, chosen)}"
    if now is not None and math.isfinite(results[now].max_best_mean):
        before = describe_point(results, results[now])
        if _outcome(results[now]) == _outcome(chosen):
            return Verdict(Action.CHANGE, headline, f"it comes to the same as now ({before}), and is preferred then.")
        return Verdict(Action.CHANGE, headline, f"{compare(results[now], chosen)} than now ({before}).")
    if chosen is not best:
        than = f"than the most even point ({describe_point(results, best)})"
        return Verdict(Action.CHANGE, headline, f"{compare(best, chosen)} {than}. {NOT_COMPARED}")
    return Verdict(Action.CHANGE, headline, f"{_first_of(results, overall)}. {NOT_COMPARED}")


def configured_position(results: Sequence[PointResult], base: PolicySettings) -> int | None:
    """The position of the point that is configured now; None if it was not run.

    Knobs that the strategy does not read, or that were varied without effect, may differ.
    """
    idle = knobs_without_effect(results, base.strategy)

    def differs(name: str, value: object) -> bool:
        read = not has(base.strategy) or reads(get(base.strategy), name.partition(".")[0])
        return read and name not in idle and value != configured_value(base, name)

    def changed(at: int) -> int:
        return sum(value != configured_value(base, name) for name, value in results[at].knobs.items())

    found = [
        at
        for at in positions(results, base.strategy)
        if not any(differs(name, value) for name, value in results[at].knobs.items())
    ]
    return min(found, key=changed, default=None)  # they all came to the same; `choose` breaks ties in this way, too


def compare(old: PointResult, new: PointResult) -> str:
    """What changes from one point to the other: `26 % fewer moves for 0.4 % more imbalance`."""
    before, after = (point.moves_balance + point.splits for point in (old, new))
    change = new.max_best_mean / old.max_best_mean - 1
    trade = (after - before) * change < 0 and abs(change) >= ALIKE
    what = "moves and splits" if old.splits or new.splits else "moves"
    text = f"{_moves(before, after, what)} {'for' if trade else 'and'} {_imbalance(change)}"
    more_ms = (new.overload_minutes - old.overload_minutes) * MINUTE_MS
    if abs(more_ms) >= 1_000:
        text += f" and {duration_text(abs(more_ms))} {'more' if more_ms > 0 else 'less'} overload"
    return text


def _outcome(result: PointResult) -> tuple[float, ...]:
    """What `compare` looks at."""
    return (result.max_best_mean, result.moves_balance + result.splits, result.overload_minutes)


def _why_keep(results: Sequence[PointResult], overall: Choice) -> str:
    chosen, best = results[overall.chosen], results[overall.best]
    if chosen is best:
        return f"{_first_of(results, overall)}."
    return f"the most even point, {describe_point(results, best)}, would mean {compare(chosen, best)}."


def _first_of(results: Sequence[PointResult], overall: Choice) -> str:
    """Why the most even point is also the chosen one."""
    if len(results) == 1:
        return "it is the only point that was run, so there is nothing to compare it with"
    text = f"it is the most even of {count_text(len(results), 'point')}"
    return text + (
        f", and of those within {100 * WITHIN:.0f} % of it none moves less" if len(overall.within) > 1 else ""
    )


def _moves(before: int, after: int, what: str) -> str:
    if before == after:
        return f"no more {what}"
    if not before or not after:
        return f"{after or 'no'} {what} instead of {before or 'none'}"
    if after / before >= MANY_TIMES:
        return f"{after / before:.1f} times as many {what}"
    return f"{_percent(after / before - 1)} {'more' if after > before else 'fewer'} {what}"


def _imbalance(change: float) -> str:
    if abs(change) < ALIKE:
        return "no more imbalance"
    return f"{_percent(change)} {'more' if change > 0 else 'less'} imbalance"


def _percent(change: float) -> str:
    size = 100 * abs(change)
    return f"{size:.0f} %" if size >= 10 else f"{size:.1f} %"
