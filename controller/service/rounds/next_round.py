"""The round that would run now, from the tables alone: computed by the code of the worker, journaled by nobody.

What only the controller process knows is missing: which agents lag behind the journal, and since when load has shifted,
so that a round would look back no further. `notes` names the former, and whatever else the tables could not tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controller.backtest.advise.advice import Advice, advice_of
from controller.backtest.advise.rounds import ShadowRound
from controller.config.settings import Settings
from controller.domain.decision import MOVES, PlanPhase
from controller.domain.errors import BallastError, few_text
from controller.domain.ownership import IN_FLIGHT
from controller.domain.state import LIVE, ClusterState
from controller.ledger.loads_progress import loads_progress
from controller.ledger.snapshots import load_state
from controller.ledger.tables import TableRoot
from controller.operations.capture.about import slice_end_ms
from controller.operations.stopped import DEMO
from controller.operations.text import count_text, duration_text, time_text
from controller.policy.round import RoundInputs, run_round
from controller.policy.strategies import get
from controller.policy.view.tabulate import Columns
from controller.service.rounds.inputs import InputReader, schedule_of
from controller.service.rounds.schedule import Progress
from controller.service.rounds.shifts import ShiftWatch
from controller.service.rounds.usage import LearnedUsage

ROUND_ID = "plan"
IN_A_SLICE = "These tables are a captured slice: nobody carries this out."
_HOLDS_BACK = {
    PlanPhase.WAITING: "waits for `ballast approve` or `decline`",
    PlanPhase.APPROVED: "is being carried out",
    PlanPhase.DECLINED: "was declined, which holds others of its size back for a while",
}


class NoLoads(BallastError):
    """Raised when there are no load reports to plan with."""


@dataclass(frozen=True, slots=True)
class NextRound:
    """A round that nobody carries out. `seq`: how far it knows the journal. `loads_age_ms`: of the newest report."""

    advice: Advice
    mode: str
    seq: int
    due_ms: int
    loads_age_ms: int
    notes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The document of `ballast plan --json`."""
        return {
            **self.advice.to_json(),
            "mode": self.mode,
            "seq": self.seq,
            "next_round_ms": self.due_ms,
            "loads_age_ms": self.loads_age_ms,
            "notes": list(self.notes),
        }


def plan_next_round(
    settings: Settings, tables: TableRoot, now_ms: int, strategy: str | None = None, state: ClusterState | None = None
) -> NextRound:
    """Decide on the newest panes and the journal as it is; of a captured slice as of its end. `strategy`: in place of
    the one in charge. `state`: for those who follow the journal and need not read it.

    Raises NoLoads, and ConfigError for an unknown strategy.
    """
    state = load_state(tables) if state is None else state
    if strategy is not None:
        state = replace(state, strategy=get(strategy).name)
    progress = loads_progress(tables)
    schedule = schedule_of(settings)
    newest = schedule.now(Progress(*progress)) if progress is not None else None
    if progress is None or newest is None:
        raise NoLoads(
            f"no load reports to plan with at {tables.root}: a round needs those of {settings.loads.pane_s} s or more; "
            "are agents and the loads query running? (`ballast doctor`)"
        )
    usage = LearnedUsage(tables, state.round_at_ms).model
    shifts = ShiftWatch(settings, tables)
    shifts.watch(newest)
    inputs = InputReader(settings, tables, schedule).read(
        ROUND_ID, max(newest, state.round_at_ms), state, usage, shifts
    )
    result = run_round(inputs)
    seen = ShadowRound(result, inputs.brokers, _owners(state))
    advice = replace(advice_of([seen], {}, usable_names=False), rounds=state.rounds)
    due_ms = (state.round_at_ms // schedule.interval_ms + 1) * schedule.interval_ms
    until_ms = slice_end_ms(tables.root)
    age_ms = (now_ms if until_ms is None else min(now_ms, until_ms)) - progress.newest_event_ms
    late_ms = schedule.interval_ms + schedule.late_allowance_ms + schedule.pane_ms
    moves = sum(one.kind in MOVES for one in result.decisions)
    mode = IN_A_SLICE if until_ms is not None else _mode_note(state, settings, moves)
    notes = [mode, *_notes_on_loads(inputs, age_ms, late_ms), *_notes_on_state(inputs, advice)]
    return NextRound(advice, state.mode, state.seq, max(due_ms, inputs.at_ms), age_ms, notes)


def _owners(state: ClusterState) -> Columns:
    """The owner of every bundle, as the column that an advice counts."""
    owned = [record.by.broker for record in state.bundles.values() if record.by is not None]
    observed = [seen.broker for seen in state.observed.bundles.values() if seen.broker]
    return {"broker": np.array([*owned, *observed], object)}


def _mode_note(state: ClusterState, settings: Settings, moves: int) -> str:
    """What would become of the plan, which has so many moves."""
    approve_above = settings.rounds.approve_above
    if not state.controller_running and settings.profile == DEMO:
        return "This demo's controller has stopped: nobody carries this out."
    if not state.controller_running:
        return "No controller runs: nobody carries this out (`ballast run`)."
    if state.frozen:
        return "The mass-failure breaker has tripped: rounds move nothing until it resets (`ballast thaw`)."
    if state.mode != LIVE:
        return f"The mode is {state.mode}: rounds only record what they decide (`ballast mode live`)."
    too_many = approve_above is not None and moves > approve_above
    if state.plan is not None and (too_many or state.plan.phase is not PlanPhase.DECLINED):
        return (
            f"The mode is live, but the plan of {state.plan.round_id} {_HOLDS_BACK[state.plan.phase]}: the next round "
            "moves only what an override asks for, and bundles off brokers over their limit."
        )
    if approve_above is not None and too_many:
        return (
            f"The mode is live, but a round of more than {count_text(approve_above, 'move')} waits for `ballast "
            "approve` (rounds.approve_above), except for moves that an override asks for, and off brokers over their "
            "limit."
        )
    return "The mode is live: the next round decides anew and carries out what it decides."


def _notes_on_loads(inputs: RoundInputs, age_ms: int, late_ms: int) -> Iterator[str]:
    """What is not known of the brokers' load."""
    state = inputs.state
    if age_ms > late_ms:
        yield (
            f"Loads are stale: the newest report is {duration_text(age_ms)} old, so this is the plan as of "
            f"{time_text(inputs.at_ms)}; what happened since is unknown."
        )
    elif inputs.at_ms == state.round_at_ms:
        yield "No load came after the last round: this one sees the loads that it saw."
    heard = set(inputs.brokers["broker"].tolist())
    silent = [broker.id for broker in state.live_brokers() if broker.id not in heard]
    if silent:
        yield f"Without a load report in the window, so neither source nor target: {few_text(silent)}."
    if not inputs.usage.rounds:
        yield "No usage model is stored yet: what bundles cost is taken from the prior."


def _notes_on_state(inputs: RoundInputs, advice: Advice) -> Iterator[str]:
    """What is not known beyond the loads."""
    state = inputs.state
    moving = sum(record.state in IN_FLIGHT for record in state.bundles.values()) + len(state.observed.orders)
    if moving:
        yield f"{moving} bundle{' is' if moving == 1 else 's are'} between two owners, and left alone."
    if advice.strategy not in state.round_memory:
        yield f"{advice.strategy} has no memory of earlier rounds here: what takes several rounds begins anew."
    yield "Which agents lag behind the journal is known to the controller alone: a round grants them nothing."
