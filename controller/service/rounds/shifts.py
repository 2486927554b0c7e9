"""Shifts of load between rounds, as one worker sees them: they bring early rounds about.

A round that sees a shift does not believe the readings of brokers whose traffic has suddenly changed: they may be of
the time before. An early one teaches the usage model nothing. After a shift, rounds look no further back than its
beginning: an average over both times is of neither.

Bursts that come again and again must not bring a round about each time: a broker that was relieved counts for no other
shift for a while, and a cluster has so many shifts an hour. Nothing here is stored: a worker that starts again sees no
shift before its first round, and its windows are whole. It reads the last minutes' panes again, for the limits of new
processes and for figures that stand.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.config.settings import Settings
from controller.domain.decision import MOVES, Reason, RoundResult
from controller.domain.state import ClusterState
from controller.ledger.loads import Columns, read_broker_panes
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs
from controller.policy.usage.figures import Figure, FigureWatch
from controller.policy.usage.limits import DOUBTED_MS, LimitWatch
from controller.policy.usage.model import UsageModel
from controller.policy.usage.shift import Shift, Works, find_shift, work_of

PANES = 2  # that a shift must last
REPORTS = 3  # that the shortest window holds of a broker; a round wants two
AGAIN_MS = 600_000  # until load may shift again to a broker that was relieved
MOST, HOUR_MS = 12, 3_600_000  # shifts that count within an hour
MOST_TRIES = 3  # rounds that follow one which had to wait for brokers to settle
PANES_KEPT = 6  # a round that is due may be so many panes behind the newest
READ_MS = DOUBTED_MS + 60_000  # at the start: what a process that is doubted was before it


class ShiftWatch:
    """What the last round saw, and what has shifted since."""

    def __init__(self, settings: Settings, tables: TableRoot) -> None:
        self._tables = tables
        self._pane_ms = settings.loads.pane_s * 1000
        self._horizon_ms = settings.loads.short_horizon_s * 1000
        panes = max(PANES, -(-REPORTS * settings.agent.report_interval_ms // self._pane_ms))
        self._shortest_ms = min(self._horizon_ms, panes * self._pane_ms)
        self._panes: dict[int, Columns] = {}  # the last ones by their ends
        self._figures, self._limits = FigureWatch(), LimitWatch()
        self._before: Works = {}
        self._shifted_ms: list[int] = []  # when load had shifted, in the last hour
        self._tries = 0  # rounds that could not relieve it yet
        self._relieved: dict[str, int] = {}  # broker -> when a round after a shift moved something off it

    def horizon_ms(self, at_ms: int) -> int:
        """How far back the round at this time looks."""
        began_ms = self._shifted_ms[-1] - PANES * self._pane_ms if self._shifted_ms else at_ms - self._horizon_ms
        return max(self._shortest_ms, min(self._horizon_ms, at_ms - began_ms))

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Of brokers that measure their CPU now and then only."""
        return self._figures.standing()

    def believed(self, brokers: Columns, at_ms: int) -> Columns:
        """The averages of a round's window, with new processes' limits as they are believed."""
        return self._limits.believed(brokers, at_ms)

    def watch(self, end_ms: int) -> None:
        """Read the panes up to this end that were not read before."""
        most = max(PANES_KEPT, READ_MS // self._pane_ms)
        missed = min(most, (end_ms - max(self._panes, default=0)) // self._pane_ms)
        if missed <= 0:
            return
        first_ms = end_ms - (missed - 1) * self._pane_ms
        for number, pane in enumerate(read_broker_panes(self._tables, end_ms, self._pane_ms, missed)):
            end = first_ms + number * self._pane_ms
            self._limits.note(pane, end)
            self._panes[end] = self._limits.believed(pane, end)
            self._figures.note(self._panes[end], end, self._pane_ms)
        self._panes = {end: self._panes[end] for end in sorted(self._panes)[-PANES_KEPT:]}

    def find_shift(self, at_ms: int, state: ClusterState, model: UsageModel) -> Shift | None:
        """A shift since the last round that shows at this time, the end of a pane."""
        self._shifted_ms = [since_ms for since_ms in self._shifted_ms if at_ms < since_ms + HOUR_MS]
        ends = [at_ms - number * self._pane_ms for number in range(PANES)]
        if not self._before or len(self._shifted_ms) >= MOST or not all(end in self._panes for end in ends):
            return None
        panes = [self._panes[end] for end in ends]
        emptied = [broker.id for broker in state.brokers.values() if broker.drained or broker.leaving]
        relieved = [broker for broker, since_ms in self._relieved.items() if at_ms < since_ms + AGAIN_MS]
        shift = find_shift(self._before, [work_of(model, pane) for pane in panes], emptied, relieved)
        if shift is not None and not self._tries:
            self._shifted_ms.append(at_ms)
        return shift

    def note_computed(self, inputs: RoundInputs, model: UsageModel, result: RoundResult, shift: Shift | None) -> None:
        """A round was computed, after which usage is known as `model` says. One that could move nothing off the broker
        to which load has shifted, as its bundles or targets were still settling, may be followed by another one."""
        relieves = shift is not None and any(d.kind in MOVES and d.source == shift.broker for d in result.decisions)
        if shift is not None and relieves:
            self._relieved[shift.broker], self._tries = inputs.at_ms, 0
        elif shift is not None and self._tries < MOST_TRIES and _waits(result):
            self._tries += 1
            return
        self._before, self._tries = work_of(model, inputs.brokers), 0


def _waits(result: RoundResult) -> bool:
    return any(one.reason is Reason.SETTLING for one in result.decisions)
