"""Keeps the newest round's loads in the step, and applies every move since to them.

A round is computed beside the batches, so changes journaled after it read ownership are noted here and applied again to
its loads when they arrive. Loads are valid for LOADS_COUNT_ROUNDS round intervals; without them placement is by count,
as between a controller's start and its first round.
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
    _received_ms: int = 0
    _changes: deque[tuple[int, int, Change]] = field(default_factory=deque)  # when, seq of the entry, what

    def model(self, now_ms: int, round_interval_ms: int) -> ExpectedLoads | None:
        """The loads to place by; None: place by count."""
        if self._model is not None and now_ms - self._received_ms > LOADS_COUNT_ROUNDS * round_interval_ms:
            self._model = None
        return self._model

    @property
    def why_none(self) -> str:
        """Why there is no model: `unknown` before the first round, `outdated` after the last one's validity."""
        return "outdated" if self._received_ms else "unknown"

    def replace(self, loads: RoundLoads, now_ms: int) -> None:
        """Take over the loads of a finished round, with the changes noted since it read ownership."""
        self._model, self._received_ms = ExpectedLoads(loads), now_ms
        while self._changes and self._changes[0][1] <= loads.state_seq:
            self._changes.popleft()
        for _, _, change in self._changes:
            change(self._model)

    def note(self, change: Change, now_ms: int, seq: int, round_interval_ms: int) -> None:
        """Apply a change by the entry with this seq, and keep it for rounds that have not seen that entry."""
        while self._changes and now_ms - self._changes[0][0] > LOADS_COUNT_ROUNDS * round_interval_ms:
            self._changes.popleft()
        self._changes.append((now_ms, seq, change))
        if self._model is not None:
            change(self._model)
