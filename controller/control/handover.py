"""Transitions caused by agents' answers and by sessions' ends, as in the ownership table (docs/ownership.md).

An answer must match the newest record's epoch and session exactly; otherwise it is late and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.control.context import Context
from controller.control.step_decisions import Choice
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent
from controller.domain.ids import Session
from controller.domain.ownership import Ownership, State

REJECTION_MEMORY_MS = 30_000  # for which a broker that refused a bundle is not offered it again


def on_session_end(ctx: Context, record: Ownership, ended: Session) -> None:
    """A session that the record names has ended, which is journaled already."""
    state, by, to = record.state, record.by, record.to
    if state is State.TRANSFERRING and ended == to:
        ctx.move(record, State.OWNED, by=by, burn=True, reason="target_ended")
    elif state is State.RELEASING and ended == by and to is not None:
        # `to` may be serving already: no other broker is granted the bundle until it ends, rejects or releases
        ctx.move(record, State.ASSIGNING, to=to, burn=True, reason="owner_ended")
    elif state is State.RELEASING and ended == to:
        if ctx.state.alive(by):
            ctx.move(record, State.ASSIGNING, to=by, burn=True, reason="target_ended")
        else:
            ctx.move(record, State.FREE, reason="both_ended")
    elif ended in (by, to):
        ctx.move(record, State.FREE, reason="owner_ended")


def on_accepted(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The target accepts: the owner is to release."""
    if record.state is State.TRANSFERRING and record.to == event.session:
        ctx.move(record, State.RELEASING, by=record.by, to=record.to)


def on_serving(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The grantee serves, and so owns the bundle."""
    if record.state in (State.ASSIGNING, State.RELEASING) and record.to == event.session:
        ctx.watch.rejections.pop(str(record.bundle), None)
        ctx.move(record, State.OWNED, by=event.session)


def on_released(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The former owner has stopped serving. The target reads the same record from Kafka; the journal keeps it."""
    if record.state is not State.RELEASING or record.by != event.session:
        return
    if record.to is None:
        ctx.move(record, State.FREE, reason="released")
    elif not record.released:
        ctx.move(record, State.RELEASING, by=record.by, to=record.to, released=True, fence=record.fence)


def on_fenced(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The store excludes every older epoch, so the bundle is free although its owner never answered."""
    if record.state is State.RELEASING and record.to is None and record.fencer == event.session:
        ctx.move(record, State.FREE, reason="fenced")


def on_rejected(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """A party serves no part of the range, and never will at this epoch."""
    who, why = event.session, event.reason or "rejected"
    if record.state is State.SPLITTING and record.by == who:
        ctx.move(record, State.OWNED, by=record.by, burn=True, reason=why)
        return
    if record.to != who:
        return
    note_refusal(ctx, record, who)
    if record.state is State.TRANSFERRING:
        ctx.move(record, State.OWNED, by=record.by, burn=True, reason=why)
    elif record.state is State.ASSIGNING:
        ctx.move(record, State.FREE, reason=why)
    elif record.state is State.RELEASING:
        regrant(ctx, record, why)


def regrant(ctx: Context, record: Ownership, reason: str) -> None:
    """Grant a RELEASING bundle to the next candidate, because the grantee refused it or did not answer.

    While an earlier owner has neither released nor ended, the grantee must raise the fence first. The present grantee
    is ordered to do so before another one is tried, because it may just be waiting for the silent owner.
    """
    by, to = record.by, record.to
    silent_owner = ctx.state.alive(by) and not record.released
    must_fence = silent_owner or record.fence  # the record names only the last of several silent owners
    grantee_refused = to is not None and to.broker in _recent_refusals(ctx, record)
    if to is not None and silent_owner and not record.fence and not grantee_refused and _can_fence(ctx, to):
        ctx.move(record, State.RELEASING, by=by, to=to, burn=True, fence=True, reason=reason)
        return
    target = next_target(ctx, record, to, by if silent_owner else None)
    if target is None or (must_fence and not _can_fence(ctx, target)):
        wait_longer(ctx, record, "no_eligible_broker" if target is None else "cannot_fence")
        return
    giver = to if ctx.state.alive(to) else by
    if giver is None or not ctx.state.alive(giver):
        ctx.move(record, State.FREE, reason=reason)
        return
    ctx.move(record, State.RELEASING, by=giver, to=target, burn=True, fence=must_fence, reason=reason)


def next_target(
    ctx: Context, record: Ownership, *without: Session | None, among: Collection[str] | None = None
) -> Session | None:
    """The session of the best broker that has not refused this bundle recently. `among`: of these brokers only."""
    choice = next_choice(ctx, record, *without, among=among)
    return choice.session if choice is not None else None


def next_choice(
    ctx: Context, record: Ownership, *without: Session | None, among: Collection[str] | None = None
) -> Choice | None:
    """As `next_target`, with the candidates it was compared with."""
    barred = [ctx.state.session_of(broker) for broker in _recent_refusals(ctx, record)]
    return ctx.weigh_targets(record.bundle, *without, *barred, among=among)


def note_refusal(ctx: Context, record: Ownership, who: Session) -> None:
    """Remember that a broker refused the bundle or did not answer; offering it in every batch would burn epochs."""
    _recent_refusals(ctx, record)  # drops old refusals
    ctx.watch.rejections.setdefault(str(record.bundle), {})[who.broker] = ctx.read_ms


def _recent_refusals(ctx: Context, record: Ownership) -> list[str]:
    """The brokers that refused the bundle within REJECTION_MEMORY_MS; drops older refusals."""
    name = str(record.bundle)
    refused = ctx.watch.rejections.get(name, {})
    recent = {b: at for b, at in refused.items() if ctx.now_ms - at < REJECTION_MEMORY_MS}
    if recent:
        ctx.watch.rejections[name] = recent
    else:
        ctx.watch.rejections.pop(name, None)
    return sorted(recent)


def wait_longer(ctx: Context, record: Ownership, reason: str) -> None:
    """Extend the deadline, and raise an alarm once per epoch."""
    ctx.watch.follow(record, ctx.read_ms, ctx.settings)
    if ctx.watch.alarmed.get(str(record.bundle)) != record.epoch:
        ctx.watch.alarmed[str(record.bundle)] = record.epoch
        data = {"state": record.state.value, "by": str(record.by), "to": str(record.to)}
        ctx.emit(Kind.ALARM, bundle=str(record.bundle), epoch=record.epoch, reason=reason, data=data)


def _can_fence(ctx: Context, session: Session) -> bool:
    broker = ctx.state.brokers.get(session.broker)
    return broker is not None and broker.can_fence
