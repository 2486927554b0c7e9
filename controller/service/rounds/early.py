"""Rounds that a shift of load, or moves that open orders kept back, bring about before their time.

A round that sees a shift goes by traffic and teaches the usage model nothing, a usual one as well: readings may be of
the time before. After a shift, rounds look no further back than to its begin: an average over both times is of neither.
A broker to which load has shifted counts for no other shift for a while, so that bursts that come again and again do
not bring a round about each time. Nothing here is stored. A worker that starts again finds no shift before its first
round.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.config.settings import Settings
from controller.domain.decision import MOVES, Decision, PlanPhase, RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.state import LIVE, ClusterState
from controller.ledger.loads import read_broker_panes
from controller.ledger.tables import TableRoot
from controller.policy.round import RoundInputs
from controller.policy.usage.model import UsageModel
from controller.policy.usage.shift import Works, find_shift, work_of
from controller.policy.view.tabulate import settled_from_ms

log = logging.getLogger(__name__)

PANES = 2  # that a shift must last
AGAIN_MS = 600_000  # until load may shift to the same broker again


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a round does not wait, or goes by traffic; in words and as the journal has it."""

    text: str
    data: Mapping[str, Any]


class EarlyRounds:
    """What one worker knows of the last round and of the load since."""

    def __init__(self, settings: Settings, tables: TableRoot) -> None:
        self._tables = tables
        self._pane_ms = settings.loads.pane_s * 1000
        self._horizon_ms = settings.loads.short_horizon_s * 1000
        self._most = settings.pulsar_cluster.orders_in_flight, settings.pulsar_cluster.orders_per_broker
        self._looked_ms = 0
        self._before: Works = {}
        self._shifted_ms: int | None = None  # the begin of the last shift
        self._shifts: dict[str, int] = {}  # broker -> when load has shifted to it
        self._unlearned = False  # whether the last usual round has taught nothing
        self._undone: dict[str, Decision] = {}  # moves of the last round that did not begin, until it was looked why
        self._kept_back: list[Decision] = []  # by a limit on open orders

    def horizon_ms(self, at_ms: int) -> int:
        """How far back the round at this time looks."""
        if self._shifted_ms is None or at_ms <= self._shifted_ms:
            return self._horizon_ms
        return min(self._horizon_ms, at_ms - self._shifted_ms)

    def find_shift(self, at_ms: int, model: UsageModel, usual: bool = False) -> Trigger | None:
        """A shift since the last round that shows at this time, the end of a pane. Each pane is looked at once. Of two
        `usual` rounds in a row one is to teach something."""
        if at_ms <= self._looked_ms or not self._before or (usual and self._unlearned):
            return None
        self._looked_ms = at_ms
        panes = read_broker_panes(self._tables, at_ms, self._pane_ms, PANES)
        recent = [broker for broker, since_ms in self._shifts.items() if at_ms < since_ms + AGAIN_MS]
        shift = find_shift(self._before, [work_of(model, pane) for pane in panes], recent)
        if shift is None:
            return None
        self._shifted_ms, self._shifts[shift.broker] = at_ms - PANES * self._pane_ms, at_ms
        now, before = (round(100 * above) for above in (shift.now, shift.before))
        text = f"load has shifted to {shift.broker}: {now} % above the level by its traffic, {before} % before"
        return Trigger(text, {"shifted_to": shift.broker, "above_pct": now, "before_pct": before})

    def find_kept_back(self, at_ms: int, state: ClusterState) -> Trigger | None:
        """Moves of the last round that open orders kept back, and that a round at this time could decide about."""
        waiting = [one for one in self._kept_back if self._may_begin(one, at_ms, state)]
        if not waiting:
            return None
        sources = ", ".join(sorted({str(one.source) for one in waiting}))
        text = f"too many orders were open for {len(waiting)} moves of the last round, off {sources}"
        return Trigger(text, {"kept_back": len(waiting)})

    def note_computed(self, inputs: RoundInputs, model: UsageModel, result: RoundResult) -> None:
        """A round was computed, after which usage is known as `model` says."""
        self._before = work_of(model, inputs.brokers)
        self._unlearned = inputs.by_traffic if not inputs.early else self._unlearned
        self._undone = {one.id: one for one in result.decisions if one.kind in MOVES}
        self._kept_back = []

    def note_entry(self, entry: Entry) -> None:
        """An entry of the journal: a move that begins."""
        if entry.kind in (Kind.ORDER, Kind.OWNERSHIP) and entry.decision_id is not None:
            self._undone.pop(entry.decision_id, None)

    def note_journaled(self, state: ClusterState) -> None:
        """The round and the moves that began with it are in the journal: which others did too many open orders keep
        back?"""
        undone, self._undone = self._undone, {}
        plan = state.plan is not None and state.plan.phase is not PlanPhase.DECLINED
        if undone and state.mode == LIVE and not plan:
            self._kept_back = [one for one in undone.values() if not self._has_room(one, state)]

    def _may_begin(self, move: Decision, at_ms: int, state: ClusterState) -> bool:
        """Whether a round at this time could decide about the move's two brokers, and has room for an order."""
        ends = [broker for broker in (move.source, move.target) if broker is not None]
        return self._has_room(move, state) and all(at_ms >= settled_from_ms(state.observed, end) for end in ends)

    def _has_room(self, move: Decision, state: ClusterState) -> bool:
        cluster, (in_flight, of_broker) = state.observed, self._most
        if len(cluster.orders) >= in_flight:
            return False
        return all(cluster.orders_of(end) < of_broker for end in (move.source, move.target) if end is not None)
