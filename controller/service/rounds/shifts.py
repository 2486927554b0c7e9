"""Shifts of load between rounds, as one worker sees them: they bring early rounds about.

A round that sees a shift does not believe the readings of brokers whose traffic has suddenly changed: they may be of
the time before. An early one teaches the usage model nothing. After a shift, rounds look no further back than its
beginning: an average over both times is of neither.

Bursts that come again and again must not bring a round about each time: a broker that was relieved counts for no other
shift for a while, and a cluster has so many shifts an hour. Nothing here is stored: a worker that starts again sees no
shift before its first round, and its windows are whole.
"""

from __future__ import annotations

from controller.config.settings import Settings
from controller.domain.decision import MOVES, RoundResult
from controller.domain.state import ClusterState
from controller.ledger.loads import read_broker_panes
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs
from controller.policy.usage.model import UsageModel
from controller.policy.usage.shift import Shift, Works, find_shift, work_of

PANES = 2  # that a shift must last
REPORTS = 3  # that the shortest window holds of a broker; a round wants two
AGAIN_MS = 600_000  # until load may shift again to a broker that was relieved
MOST, HOUR_MS = 12, 3_600_000  # shifts that count within an hour


class ShiftWatch:
    """What the last round saw, and what has shifted since."""

    def __init__(self, settings: Settings, tables: TableRoot) -> None:
        self._tables = tables
        self._pane_ms = settings.loads.pane_s * 1000
        self._horizon_ms = settings.loads.short_horizon_s * 1000
        panes = max(PANES, -(-REPORTS * settings.agent.report_interval_ms // self._pane_ms))
        self._shortest_ms = min(self._horizon_ms, panes * self._pane_ms)
        self._looked_ms = 0
        self._before: Works = {}
        self._shifted_ms: list[int] = []  # when load had shifted, in the last hour
        self._relieved: dict[str, int] = {}  # broker -> when a round after a shift moved something off it

    def horizon_ms(self, at_ms: int) -> int:
        """How far back the round at this time looks."""
        began_ms = self._shifted_ms[-1] - PANES * self._pane_ms if self._shifted_ms else at_ms - self._horizon_ms
        return max(self._shortest_ms, min(self._horizon_ms, at_ms - began_ms))

    def find_shift(self, at_ms: int, state: ClusterState, model: UsageModel) -> Shift | None:
        """A shift since the last round that shows at this time, the end of a pane. Each pane is looked at once."""
        self._shifted_ms = [since_ms for since_ms in self._shifted_ms if at_ms < since_ms + HOUR_MS]
        if at_ms <= self._looked_ms or not self._before or len(self._shifted_ms) >= MOST:
            return None
        self._looked_ms = at_ms
        panes = read_broker_panes(self._tables, at_ms, self._pane_ms, PANES)
        emptied = [broker.id for broker in state.brokers.values() if broker.drained or broker.leaving]
        relieved = [broker for broker, since_ms in self._relieved.items() if at_ms < since_ms + AGAIN_MS]
        shift = find_shift(self._before, [work_of(model, pane) for pane in panes], emptied, relieved)
        if shift is not None:
            self._shifted_ms.append(at_ms)
        return shift

    def note_computed(self, inputs: RoundInputs, model: UsageModel, result: RoundResult, shift: Shift | None) -> None:
        """A round was computed, after which usage is known as `model` says."""
        self._before = work_of(model, inputs.brokers)
        if shift is not None and any(one.kind in MOVES and one.source == shift.broker for one in result.decisions):
            self._relieved[shift.broker] = inputs.at_ms
