"""Shifts of load between rounds, as one worker sees them: they bring rounds about before their time.

A round that sees a shift goes by traffic and teaches the usage model nothing, a usual one as well: readings may be of
the time before. After a shift, rounds look no further back than to its begin: an average over both times is of neither.
A broker to which load has shifted counts for no other shift for a while, so that bursts that come again and again do
not bring a round about each time. Nothing here is stored. A worker that starts again finds no shift before its first
round.
"""

from __future__ import annotations

from controller.config.settings import Settings
from controller.ledger.loads import read_broker_panes
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs
from controller.policy.usage.model import UsageModel
from controller.policy.usage.shift import Shift, Works, find_shift, work_of

PANES = 2  # that a shift must last
AGAIN_MS = 600_000  # until load may shift to the same broker again


class ShiftWatch:
    """What the last round saw, and what has shifted since."""

    def __init__(self, settings: Settings, tables: TableRoot) -> None:
        self._tables = tables
        self._pane_ms = settings.loads.pane_s * 1000
        self._horizon_ms = settings.loads.short_horizon_s * 1000
        self._looked_ms = 0
        self._before: Works = {}
        self._shifted_ms: int | None = None  # the begin of the last shift
        self._shifts: dict[str, int] = {}  # broker -> when load has shifted to it
        self._unlearned = False  # whether the last usual round has taught nothing

    def horizon_ms(self, at_ms: int) -> int:
        """How far back the round at this time looks."""
        if self._shifted_ms is None or at_ms <= self._shifted_ms:
            return self._horizon_ms
        return min(self._horizon_ms, at_ms - self._shifted_ms)

    def find_shift(self, at_ms: int, model: UsageModel, usual: bool = False) -> Shift | None:
        """A shift since the last round that shows at this time, the end of a pane. Each pane is looked at once. Of two
        `usual` rounds in a row one is to teach something."""
        if at_ms <= self._looked_ms or not self._before or (usual and self._unlearned):
            return None
        self._looked_ms = at_ms
        panes = read_broker_panes(self._tables, at_ms, self._pane_ms, PANES)
        recent = [broker for broker, since_ms in self._shifts.items() if at_ms < since_ms + AGAIN_MS]
        shift = find_shift(self._before, [work_of(model, pane) for pane in panes], recent)
        if shift is not None:
            self._shifted_ms, self._shifts[shift.broker] = at_ms - PANES * self._pane_ms, at_ms
        return shift

    def note_computed(self, inputs: RoundInputs, model: UsageModel) -> None:
        """A round was computed, after which usage is known as `model` says."""
        self._before = work_of(model, inputs.brokers)
        self._unlearned = inputs.by_traffic if not inputs.early else self._unlearned
