"""The control step: cluster state and one batch of events in, journal entries out. Pure but for `watch`.

Order within a batch: the end of an outage, registrations and renewals, agents' events, expired leases and deadlines,
assignments, commands, a plan that waits or was approved, a finished round. `now_ms` is the controller's CLOCK_BOOTTIME
before the batch was planned, so every record appended before `now_ms` has been read: a lease always expires for its
agent before it expires here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.control import handover
from controller.control.assignment import answer_lookups, assign_orphans, evacuate, on_assign_request
from controller.control.commands import on_commands
from controller.control.context import Batch, Context, Evidence
from controller.control.deadlines import expire_deadlines
from controller.control.inventory import on_inventory
from controller.control.lease_expiry import expire_leases, note_tick
from controller.control.observations import on_fact, on_observed, on_ring
from controller.control.order_commands import send_waiting_orders
from controller.control.orders import expire_orders, on_order_ended
from controller.control.rounds import on_round
from controller.control.rounds.approvals import tend_plan
from controller.control.rounds.in_turn import send_in_turn
from controller.control.sessions import on_goodbye, on_heartbeat
from controller.control.splits import on_split_done, on_split_proposed
from controller.control.step_decisions import StepEvidence
from controller.control.strays import on_tick
from controller.control.watch import Watch
from controller.domain.entries import Entry, Kind
from controller.domain.events import AssignRequest, BrokerEvent, Command, Event, Heartbeat, RoundFinished, Tick
from controller.domain.ownership import Ownership
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState

__all__ = ["Batch", "Evidence", "StepResult", "Watch", "step"]

_CHANGES_NOTHING = frozenset({"inventory", "observed", "ring", "fact"})


@dataclass(slots=True)
class StepResult:
    """The state after the batch, the entries that lead to it, the evidence of its rounds, and the step's own
    decisions."""

    state: ClusterState
    entries: list[Entry]
    evidence: list[Evidence]
    decided: StepEvidence | None = None


def step(
    state: ClusterState, watch: Watch, batch: Batch, now_ms: int, settings: ControlSettings, quarantined: int = 0
) -> StepResult:
    """Process one micro-batch. `state` is not changed; `watch` is updated, so call this once per batch."""
    ctx = Context(state, watch, batch, now_ms, settings)
    if batch.read_to_end:
        watch.back_after_outage(now_ms, ctx.read_ms, settings)  # first: deadlines set below are not extended
    for event in batch.events:
        if isinstance(event, Heartbeat):
            on_heartbeat(ctx, event)
        elif isinstance(event, Tick):
            note_tick(ctx, event)
            on_tick(ctx, event)
    for event in batch.events:
        if isinstance(event, BrokerEvent):
            _on_broker_event(ctx, event)
    if batch.read_to_end:
        expire_leases(ctx)
        expire_deadlines(ctx)
        expire_orders(ctx)
    rescued = assign_orphans(ctx)
    for event in batch.events:
        if isinstance(event, AssignRequest):
            on_assign_request(ctx, event)
    answer_lookups(ctx, rescued)
    on_commands(ctx, [event for event in batch.events if isinstance(event, Command)])
    tend_plan(ctx, batch.read_to_end)
    send_in_turn(ctx)
    for event in batch.events:
        if isinstance(event, RoundFinished):
            on_round(ctx, event.result)
    evacuate(ctx)
    send_waiting_orders(ctx)
    if batch.offsets and (ctx.entries or quarantined or batch.note_offsets or any(map(_commits_offsets, batch.events))):
        attempt_id = ctx.decided.attempt_id if ctx.decided is not None and ctx.decided.unnamed else None
        ctx.emit(Kind.OFFSETS, attempt_id=attempt_id, data={**batch.kafka, "topics": batch.offsets})
    return StepResult(ctx.state, ctx.entries, ctx.evidence, ctx.decided)


def _commits_offsets(event: Event) -> bool:
    """Whether an event has its offsets journaled even when it causes no entry."""
    if isinstance(event, BrokerEvent):
        return event.kind not in _CHANGES_NOTHING
    return not isinstance(event, Heartbeat | Tick | RoundFinished)


_ANSWERS: dict[str, Callable[[Context, BrokerEvent, Ownership], None]] = {
    "accepted": handover.on_accepted,
    "rejected": handover.on_rejected,
    "serving": handover.on_serving,
    "released": handover.on_released,
    "fenced": handover.on_fenced,
    "split_done": on_split_done,
    "split_proposed": on_split_proposed,
}


_OF_OBSERVERS: dict[str, Callable[[Context, BrokerEvent], None]] = {
    "observed": on_observed,
    "ring": on_ring,
    "fact": on_fact,
    "order_ended": on_order_ended,
}


def _on_broker_event(ctx: Context, event: BrokerEvent) -> None:
    if event.session not in ctx.state.sessions:
        ctx.watch.refuse("event_of_ended_session")
    elif event.kind == "inventory":
        on_inventory(ctx, event)
    elif event.kind in _OF_OBSERVERS:
        _OF_OBSERVERS[event.kind](ctx, event)
    elif event.kind == "goodbye":
        on_goodbye(ctx, event)
    elif event.kind == "leaving":
        broker = ctx.state.brokers[event.session.broker]
        if broker.session != event.session:
            ctx.watch.refuse("leaving_of_replaced_process")  # its bundles are freed with its lease; the successor stays
        elif not broker.leaving:
            ctx.emit(Kind.DRAIN, broker=event.session.broker, session=str(event.session), data={"leaving": True})
    else:
        record = ctx.bundle(event.bundle)
        if record is None or record.epoch != event.epoch:
            ctx.watch.refuse("late_answer")
        else:
            _ANSWERS[event.kind](ctx, event, record)
