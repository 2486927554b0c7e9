"""Expires in-flight states that last too long (invariant I6: no bundle stays in flight)."""

from __future__ import annotations

from controller.control.context import Context
from controller.control.handover import next_target, note_refusal, regrant, wait_longer
from controller.domain.ownership import Ownership, State


def expire_deadlines(ctx: Context) -> None:
    """Move every overdue bundle to its next state."""
    for name in ctx.watch.overdue(ctx.now_ms):
        record = ctx.state.bundles[name]
        if record.state is State.ASSIGNING:
            _replace_silent_grantee(ctx, record)
        elif record.state in (State.TRANSFERRING, State.SPLITTING):
            if record.to is not None:
                note_refusal(ctx, record, record.to)
            ctx.move(record, State.OWNED, by=record.by, burn=True, reason="deadline")
        elif record.to is None:
            _order_fence(ctx, record)
        else:
            regrant(ctx, record, "deadline")


def _replace_silent_grantee(ctx: Context, record: Ownership) -> None:
    """A silent grantee may be serving all the same, so it must release before another one is granted the bundle."""
    target = next_target(ctx, record, record.to)
    if target is None:
        wait_longer(ctx, record, "no_eligible_broker")
    else:
        ctx.move(record, State.RELEASING, by=record.to, to=target, burn=True, reason="deadline")


def _order_fence(ctx: Context, record: Ownership) -> None:
    """The owner does not answer and there is no grantee: order some broker to raise the store's fence."""
    able = [b.session for b in ctx.state.live_brokers() if b.can_fence and b.session != record.by]
    if not able:
        wait_longer(ctx, record, "cannot_fence")
        return
    fencer = able[record.epoch % len(able)]  # a different one at each attempt
    ctx.move(record, State.RELEASING, by=record.by, burn=True, fencer=fencer, reason="deadline")
