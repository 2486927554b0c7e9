"""How far a backtest's recommendation can be trusted: graded by the hours, the days and the rounds that were seen.

Load that repeats does so daily and weekly. What happened once may have been chance; what no point's figures depend on
says nothing at all. Whatever the grade, something is recommended: at worst what is configured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from controller.backtest.choose.pareto import DAY_MS
from controller.backtest.point.result import PointResult

HOUR_MS = 3_600_000
DAY_SEEN_MS = 20 * HOUR_MS  # a recording of less holds no day
DAYS_HIGH = 3  # a day's course seen that often is no accident
WEEK_DAYS = 7
FEW_ROUNDS = 100  # strategies wait for rounds, average over rounds


class Grade(str, Enum):
    """From worst to best."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Confidence:
    """The grade, and why: what was seen and what was not."""

    grade: Grade
    why: str

    def __str__(self) -> str:
        """As a clause: `low confidence (5 minutes, 31 rounds: …)`."""
        return f"{'no' if self.grade is Grade.NONE else self.grade.value} confidence ({self.why})"


NOTHING_FINISHED = Confidence(Grade.NONE, "no point has finished")


def confidence(results: Sequence[PointResult], lasted_ms: int) -> Confidence:
    """Of finished points on a recording that lasted so long, gaps left out."""
    rounds = max((result.rounds for result in results), default=0)
    seen = f"{duration(lasted_ms)}, {rounds} round{'s' * (rounds != 1)}"
    if not results:
        return NOTHING_FINISHED
    if not any(result.moves_balance or result.moves_addition or result.splits for result in results):
        return Confidence(Grade.NONE, f"{seen}, and no point moved anything")
    if len(results) > 1 and len({_outcome(result) for result in results}) == 1:
        return Confidence(Grade.NONE, f"{seen}, and all {len(results)} points came to the same")
    if lasted_ms < DAY_SEEN_MS:
        return Confidence(Grade.LOW, f"{seen}: what repeats daily was not seen")
    days = lasted_ms / DAY_MS
    if rounds < FEW_ROUNDS:
        return Confidence(Grade.LOW, f"{seen}: too few for what waits for several of them")
    if days < DAYS_HIGH:
        return Confidence(Grade.MEDIUM, f"{seen}: fewer than {DAYS_HIGH} days, and what a day brings may be chance")
    if days < WEEK_DAYS:
        return Confidence(Grade.HIGH, f"{seen}: what repeats weekly was not seen")
    return Confidence(Grade.HIGH, f"{seen}: days and weekends were seen")


def duration(ms: int) -> str:
    """Minutes, hours or days, whatever is readable."""
    if ms < HOUR_MS:
        return f"{ms / 60_000:.0f} minutes"
    return f"{ms / HOUR_MS:.1f} hours" if ms < 2 * DAY_MS else f"{ms / DAY_MS:.1f} days"


def _outcome(result: PointResult) -> tuple[float, ...]:
    """What the rule looks at."""
    return (result.max_best_mean, result.moves_balance, result.splits, result.overload_minutes)
