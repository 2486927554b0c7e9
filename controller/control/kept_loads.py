"""The newest round's loads in the step, with every bundle that has gone somewhere else since.

A round is computed beside the batches: what was journaled after it read ownership is noted here and done again on its
loads when they come. They count for LOADS_COUNT_ROUNDS round intervals; without them placements go by count, as they do
between the start of a controller and its first round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from controller.domain.round_loads import RoundLoads
from controller.policy.placement.loads import ExpectedLoads

LOADS_COUNT_ROUNDS = 5

Change = Callable[[ExpectedLoads], None]


@dataclass(slots=True)
class KeptLoads:
    """Times are CLOCK_BOOTTIME ms."""

    _model: ExpectedLoads | None = None
    _heard_ms: int = 0
    _changes: deque[tuple[int, int, Change]] = field(default_factory=deque)  # when, seq of the entry, what

    def model(self, now_ms: int, round_interval_ms: int) -> ExpectedLoads | None:
        """What to place by; None: by count."""
        if self._model is not None and now_ms - self._heard_ms > LOADS_COUNT_ROUNDS * round_interval_ms:
            self._model = None
        return self._model

    @property
    def why_none(self) -> str:
        """Why there is no model: none has come yet, or the last one is too old."""
        return "outdated" if self._heard_ms else "unknown"

    def arrived(self, loads: RoundLoads, now_ms: int) -> None:
        """A round has finished: its loads replace the ones before."""
        self._model, self._heard_ms = ExpectedLoads(loads), now_ms
        while self._changes and self._changes[0][1] <= loads.state_seq:
            self._changes.popleft()
        for _, _, change in self._changes:
            change(self._model)

    def note(self, change: Change, now_ms: int, seq: int, round_interval_ms: int) -> None:
        """Something has changed by the entry with this seq; kept for as long as a round may be behind."""
        while self._changes and now_ms - self._changes[0][0] > LOADS_COUNT_ROUNDS * round_interval_ms:
            self._changes.popleft()
        self._changes.append((now_ms, seq, change))
        if self._model is not None:
            change(self._model)
