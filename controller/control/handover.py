"""Answers of agents and ends of sessions, as the ownership table demands (docs/ownership.md).

Every answer must match the newest record's epoch and session exactly; anything else is late and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from controller.control.context import Context
from controller.control.decided import Choice
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent
from controller.domain.ids import Session
from controller.domain.ownership import Ownership, State

REJECTION_MEMORY_MS = 30_000  # how long a broker that refused a bundle is not asked again


def on_session_end(ctx: Context, record: Ownership, ended: Session) -> None:
    """The session was named by the record and has ended (already journaled)."""
    state, by, to = record.state, record.by, record.to
    if state is State.TRANSFERRING and ended == to:
        ctx.move(record, State.OWNED, by=by, burn=True, reason="target_ended")
    elif state is State.RELEASING and ended == by and to is not None:
        # `to` may serve already: nobody else is granted anything until it ends, rejects or releases
        ctx.move(record, State.ASSIGNING, to=to, burn=True, reason="owner_ended")
    elif state is State.RELEASING and ended == to:
        if ctx.state.alive(by):
            ctx.move(record, State.ASSIGNING, to=by, burn=True, reason="target_ended")
        else:
            ctx.move(record, State.FREE, reason="both_ended")
    elif ended in (by, to):
        ctx.move(record, State.FREE, reason="owner_ended")


def on_accepted(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The target agrees: the owner is told to let go."""
    if record.state is State.TRANSFERRING and record.to == event.session:
        ctx.move(record, State.RELEASING, by=record.by, to=record.to)


def on_serving(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The grantee serves: it owns."""
    if record.state in (State.ASSIGNING, State.RELEASING) and record.to == event.session:
        ctx.watch.rejections.pop(str(record.bundle), None)
        ctx.move(record, State.OWNED, by=event.session)


def on_released(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The former owner serves no more. The target has heard the same record from Kafka; the journal keeps it."""
    if record.state is not State.RELEASING or record.by != event.session:
        return
    if record.to is None:
        ctx.move(record, State.FREE, reason="released")
    elif not record.released:
        ctx.move(record, State.RELEASING, by=record.by, to=record.to, released=True, fence=record.fence)


def on_fenced(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The store shuts out every older epoch: the bundle is free although its owner never answered."""
    if record.state is State.RELEASING and record.to is None and record.fencer == event.session:
        ctx.move(record, State.FREE, reason="fenced")


def on_rejected(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The party serves nothing of the range and never will at this epoch."""
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
    """RELEASING whose grantee said no or said nothing: the next candidate gets it.

    While an earlier owner has neither said `released` nor ended, whoever is granted must raise the fence first. The
    grantee at hand is asked to do that before another one is tried: the silence may well be the old owner's.
    """
    by, to = record.by, record.to
    silent_owner = ctx.state.alive(by) and not record.released
    must_fence = silent_owner or record.fence  # the record no longer names the first of several silent owners
    grantee_refused = to is not None and to.broker in _refused_lately(ctx, record)
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
    """The best broker (of those named, if any are) that has not refused this bundle lately."""
    choice = next_choice(ctx, record, *without, among=among)
    return choice.session if choice is not None else None


def next_choice(
    ctx: Context, record: Ownership, *without: Session | None, among: Collection[str] | None = None
) -> Choice | None:
    """The same, with what it was weighed against."""
    barred = [ctx.state.session_of(broker) for broker in _refused_lately(ctx, record)]
    return ctx.weigh_targets(record.bundle, *without, *barred, among=among)


def note_refusal(ctx: Context, record: Ownership, who: Session) -> None:
    """Remember a broker that said no to the bundle, or nothing: an offer a batch would burn an epoch each."""
    _refused_lately(ctx, record)  # forgets what is old
    ctx.watch.rejections.setdefault(str(record.bundle), {})[who.broker] = ctx.now_ms


def _refused_lately(ctx: Context, record: Ownership) -> list[str]:
    """Brokers that refused the bundle within the memory's time; older refusals are forgotten here."""
    name = str(record.bundle)
    refused = ctx.watch.rejections.get(name, {})
    recent = {b: at for b, at in refused.items() if ctx.now_ms - at < REJECTION_MEMORY_MS}
    if recent:
        ctx.watch.rejections[name] = recent
    else:
        ctx.watch.rejections.pop(name, None)
    return sorted(recent)


def wait_longer(ctx: Context, record: Ownership, reason: str) -> None:
    """Extend the deadline; complain once an epoch."""
    ctx.watch.follow(record, ctx.now_ms, ctx.settings)
    if ctx.watch.alarmed.get(str(record.bundle)) != record.epoch:
        ctx.watch.alarmed[str(record.bundle)] = record.epoch
        data = {"state": record.state.value, "by": str(record.by), "to": str(record.to)}
        ctx.emit(Kind.ALARM, bundle=str(record.bundle), epoch=record.epoch, reason=reason, data=data)


def _can_fence(ctx: Context, session: Session) -> bool:
    broker = ctx.state.brokers.get(session.broker)
    return broker is not None and broker.can_fence
