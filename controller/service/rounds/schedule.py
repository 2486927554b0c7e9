"""When a round is due, in event time of the load reports. Pure, so that a replay's speed makes no difference.

Rounds are at multiples of the interval. The round at T is due once a report newer than T + the late allowance has been
committed. A live controller that lags skips to the newest T that is due; a replay evaluates every T in order. Between
two of them a live controller may run early ones, at least `least_ms` after the round before.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """The loads query's progress: event times of its oldest and newest committed report, ms."""

    first_event_ms: int
    newest_event_ms: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of rounds. `every`: skip no T, as in replays. `least_ms`: None for no early rounds."""

    interval_ms: int
    late_allowance_ms: int
    pane_ms: int
    every: bool = False
    least_ms: int | None = None

    def next_due(self, last_at_ms: int, progress: Progress | None) -> int | None:
        """The T of the round to run now, or None. `last_at_ms` is the newest journaled round's T, 0 for none."""
        if progress is None:
            return None
        newest = self._complete(progress, self.interval_ms)
        after_first = -(-(progress.first_event_ms + 1) // self.interval_ms) * self.interval_ms
        following = max((last_at_ms // self.interval_ms + 1) * self.interval_ms, after_first)
        if following > newest:
            return None
        return following if self.every else newest

    @property
    def watches(self) -> bool:
        """Whether shifts of load between rounds make a difference."""
        return not self.every and self.least_ms is not None

    def early(self, last_at_ms: int, progress: Progress | None) -> int | None:
        """The T at which an early round could be run now, or None."""
        if self.every or self.least_ms is None or not last_at_ms:
            return None
        newest = self.now(progress)
        return newest if newest is not None and newest >= last_at_ms + self.least_ms else None

    def now(self, progress: Progress | None) -> int | None:
        """The T of a commanded round: the end of the newest complete pane; None without one."""
        if progress is None:
            return None
        newest = self._complete(progress, self.pane_ms)
        return newest if newest > progress.first_event_ms else None

    def _complete(self, progress: Progress, step_ms: int) -> int:
        return (progress.newest_event_ms - self.late_allowance_ms - 1) // step_ms * step_ms
