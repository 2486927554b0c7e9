"""Grades the confidence in a recommendation by the hours, days and rounds of the recording.

Load repeats daily and weekly; what happened once may be chance. Without confidence nothing is recommended and the
configuration stays: nothing can be learned if no point's figures differ, or from a recording of minutes, in which
strategies that wait for several rounds, and the time for which a moved bundle rests, decide more than load does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from controller.backtest.choose.pareto import DAY_MS
from controller.backtest.point.result import PointResult
from controller.operations.text import count_text

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SHORTEST_MS = HOUR_MS  # a shorter recording recommends nothing
DAY_SEEN_MS = 20 * HOUR_MS  # a shorter recording does not contain a day
DAYS_HIGH = 3  # what happens on this many days is no accident
WEEK_DAYS = 7
FEW_ROUNDS = 100  # strategies wait for several rounds and average over them


class Grade(str, Enum):
    """From worst to best."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Confidence:
    """The grade and its reason: what the recording contains and what it lacks."""

    grade: Grade
    why: str
    too_short: bool = False  # to recommend anything

    def __str__(self) -> str:
        """As a clause: `low confidence (5 minutes, 31 rounds: …)`."""
        return f"{'no' if self.grade is Grade.NONE else self.grade.value} confidence ({self.why})"


NOTHING_FINISHED = Confidence(Grade.NONE, "no point has finished")


def confidence(results: Sequence[PointResult], lasted_ms: int) -> Confidence:
    """The confidence in finished points. `lasted_ms`: length of the recording without gaps."""
    rounds = max((result.rounds for result in results), default=0)
    seen = f"{duration(lasted_ms)}, {rounds} round{'s' * (rounds != 1)}"
    if not results:
        return NOTHING_FINISHED
    if lasted_ms < SHORTEST_MS:
        return Confidence(Grade.NONE, f"{seen}: too short to choose by", too_short=True)
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
    """The length of a recording in seconds, minutes, hours or days; that of a single step is not known."""
    if not ms:
        return "a single step"
    if ms < MINUTE_MS:
        return count_text(round(ms / 1_000), "second")
    if ms < HOUR_MS:
        return count_text(round(ms / MINUTE_MS), "minute")
    return f"{ms / HOUR_MS:.1f} hours" if ms < 2 * DAY_MS else f"{ms / DAY_MS:.1f} days"


def _outcome(result: PointResult) -> tuple[float, ...]:
    """The figures that the rule of `choose` uses."""
    return (result.max_best_mean, result.moves_balance, result.splits, result.overload_minutes)
