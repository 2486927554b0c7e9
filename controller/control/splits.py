"""Splitting a bundle: who may propose it, when it is refused, and what becomes of the halves.

The agent proposes from what it sees; an operator commands; a round decides. All three end up in `begin_split`.
"""

from __future__ import annotations

from controller.control.context import Context
from controller.domain.decision import Reason
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent
from controller.domain.ids import Bundle
from controller.domain.overrides import EXCLUDE_NAMESPACE, FREEZE
from controller.domain.ownership import Ownership, State
from controller.domain.state import LIVE

Refusal = tuple[Reason, str]


def begin_split(
    ctx: Context,
    record: Ownership,
    boundary: int,
    reason: str,
    decision_id: str | None = None,
    command_id: str | None = None,
    send_on: bool = False,
) -> Refusal | None:
    """Enter `splitting`, or say why not."""
    refusal = split_refusal(ctx, record, boundary)
    if refusal is None:
        ctx.move(
            record,
            State.SPLITTING,
            by=record.by,
            burn=True,
            boundary=boundary,
            send_on=send_on,
            reason=reason,
            decision_id=decision_id,
            command_id=command_id,
        )
    return refusal


def split_refusal(ctx: Context, record: Ownership, boundary: int) -> Refusal | None:
    """Why this bundle may not be split there now, or None."""
    bundle = record.bundle
    if record.state is not State.OWNED:
        return Reason.IN_FLIGHT, f"{bundle} is {record.state.value}, only an owned bundle is split"
    if not bundle.lower < boundary < bundle.upper:
        return Reason.UNSPLITTABLE, f"boundary 0x{boundary:08x} is not strictly inside {bundle}"
    limit = ctx.settings.split.namespace_maximum_bundles
    if ctx.state.in_namespace(bundle.namespace) >= limit:
        text = f"{bundle.namespace} has its maximum of {limit} bundles, splits in flight counted"
        return Reason.BUNDLE_LIMIT, text
    return None


def on_split_proposed(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """An agent sees an oversized bundle. Done in live mode with splits switched on; else it is counted only."""
    settings = ctx.settings.split
    if not settings.enabled:
        ctx.watch.refuse(Reason.SWITCHED_OFF.value)
    elif ctx.state.mode != LIVE:
        ctx.watch.refuse(Reason.SHADOW_MODE.value)
    elif any(o.kind in (FREEZE, EXCLUDE_NAMESPACE) and o.concerns(record.bundle) for o in ctx.state.overrides.values()):
        ctx.watch.refuse(Reason.FROZEN.value)
    elif record.by != event.session:
        ctx.watch.refuse(Reason.STALE_DECISION.value)
    else:
        boundary = event.boundary if event.boundary is not None else record.bundle.middle()
        why = event.reason or "oversized"
        refusal = begin_split(ctx, record, boundary, why, send_on=settings.auto_unload)
        if refusal:
            ctx.watch.refuse(refusal[0].value)


def on_split_done(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """The owner is ready: the parent retires, the children are its; the quieter one may be sent on."""
    if record.state is not State.SPLITTING or record.by != event.session or record.boundary is None:
        return
    decision_id, command_id = ctx.cause_of(record)
    best = _owners_cut(record, event) if command_id is None else None
    children = record.bundle.split_at(best or record.boundary)
    epochs = {str(child): record.epoch + 1 for child in children}
    ctx.emit(
        Kind.SPLIT,
        bundle=str(record.bundle),
        by=str(record.by),
        decision_id=decision_id,
        command_id=command_id,
        data={"children": epochs},
    )
    ctx.watch.follow(ctx.state.bundles[str(record.bundle)], ctx.now_ms, ctx.settings)
    if record.send_on:
        _send_on(ctx, ctx.state.bundles[str(_quieter(children, event, "best_" if best else ""))])


def _owners_cut(record: Ownership, event: BrokerEvent) -> int | None:
    """Where the owner, who knows its topics' loads, would cut instead of in the middle; None: where it was told to."""
    best, bundle = event.data.get("best_boundary"), record.bundle
    if record.boundary != bundle.middle() or not isinstance(best, int) or isinstance(best, bool):
        return None
    return best if bundle.lower < best < bundle.upper else None


def _quieter(children: tuple[Bundle, Bundle], event: BrokerEvent, prefix: str) -> Bundle:
    """The half to send on: the one with less load as its owner measured; the upper one when it cannot tell."""
    lower, upper = event.data.get(f"{prefix}lower_load"), event.data.get(f"{prefix}upper_load")
    if isinstance(lower, int | float) and isinstance(upper, int | float) and lower < upper:
        return children[0]
    return children[1]


def _send_on(ctx: Context, record: Ownership) -> None:
    target = ctx.choose_target(record.bundle, record.by)
    if target is not None:
        ctx.move(
            record,
            State.TRANSFERRING,
            by=record.by,
            to=target,
            burn=True,
            moving_at_ms=ctx.state.round_at_ms,  # no round moves it on within its grace period (I8)
            reason=Reason.SPLIT_SEND_ON.value,
        )
