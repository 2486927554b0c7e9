"""Splits a bundle: checks proposals and requests, takes the owner's boundary, and moves the quieter half on.

Agents propose splits, operators command them, rounds decide them; all three call `begin_split`.
"""

from __future__ import annotations

from typing import Any

from controller.control.assignment import send_on
from controller.control.context import Context
from controller.domain.decision import EXECUTED, PROPOSAL, DecisionKind, Reason
from controller.domain.entries import Kind
from controller.domain.events import BrokerEvent
from controller.domain.ids import Bundle
from controller.domain.overrides import EXCLUDE_NAMESPACE, FREEZE
from controller.domain.ownership import Ownership, State
from controller.domain.state import LIVE

_LIMITS = {
    Reason.SPLIT_TOPICS: "max_topics",
    Reason.SPLIT_SESSIONS: "max_sessions",
    Reason.SPLIT_MSG_RATE: "max_msg_rate_per_s",
    Reason.SPLIT_BANDWIDTH: "max_bandwidth_bytes_per_s",
    Reason.SPLIT_STORAGE: "max_storage_bytes",
}  # of SplitSettings

Refusal = tuple[Reason, str]


def begin_split(
    ctx: Context,
    record: Ownership,
    boundary: int,
    reason: str,
    decision_id: str | None = None,
    command_id: str | None = None,
    attempt_id: str | None = None,
    send_on: bool = False,
) -> Refusal | None:
    """Enter `splitting`; returns why not, or None."""
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
            attempt_id=attempt_id,
        )
    return refusal


def split_refusal(ctx: Context, record: Ownership, boundary: int) -> Refusal | None:
    """Why this bundle cannot be split at the boundary now, or None."""
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
    """Follow an agent's proposal to split an oversized bundle, or record why not."""
    boundary = event.boundary if event.boundary is not None else record.bundle.middle()
    refusal = _proposal_refusal(ctx, event, record, boundary)
    if refusal is not None:
        ctx.watch.refuse(refusal.value)
    if record.by != event.session:
        return  # a late proposal of an earlier owner: there is nothing to decide
    reason = _reason_of(event)
    cause = ctx.decisions().add(
        DecisionKind.SPLIT,
        reason,
        record,
        refusal.value if refusal is not None else EXECUTED,
        boundary=boundary,
        strategy=PROPOSAL,
        evidence=_evidence_of_proposal(ctx, event, record, reason),
    )
    if refusal is None:
        why = event.reason or "oversized"
        begin_split(ctx, record, boundary, why, send_on=ctx.settings.split.auto_unload, **cause._asdict())


def _proposal_refusal(ctx: Context, event: BrokerEvent, record: Ownership, boundary: int) -> Reason | None:
    """Why the proposal is not followed, or None."""
    if not ctx.settings.split.enabled:
        return Reason.SWITCHED_OFF
    if ctx.state.mode != LIVE:
        return Reason.SHADOW_MODE
    if any(o.kind in (FREEZE, EXCLUDE_NAMESPACE) and o.concerns(record.bundle) for o in ctx.state.overrides.values()):
        return Reason.FROZEN
    if record.by != event.session:
        return Reason.STALE_DECISION
    refusal = split_refusal(ctx, record, boundary)
    return refusal[0] if refusal is not None else None


def _reason_of(event: BrokerEvent) -> Reason:
    """The limit that the bundle exceeds; SPLIT_MSG_RATE for one that only the agent's version knows."""
    return next((reason for reason in _LIMITS if reason.value == event.reason), Reason.SPLIT_MSG_RATE)


def _evidence_of_proposal(ctx: Context, event: BrokerEvent, record: Ownership, reason: Reason) -> dict[str, Any]:
    limits, namespace = ctx.settings.split, record.bundle.namespace
    return {
        "proposed_by": event.session.broker,
        "proposed_for": event.reason or "oversized",
        "limit": getattr(limits, _LIMITS[reason]),
        "bundles_of_namespace": ctx.state.in_namespace(namespace),
        "bundles_of_namespace_at_most": limits.namespace_maximum_bundles,
    }


def on_split_done(ctx: Context, event: BrokerEvent, record: Ownership) -> None:
    """Retire the parent and give its owner the children; with `send_on` the quieter one moves to another broker."""
    if record.state is not State.SPLITTING or record.by != event.session or record.boundary is None:
        return
    decision_id, command_id = ctx.cause_of(record)
    best = _owners_boundary(record, event) if command_id is None else None
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
    ctx.watch.follow(ctx.state.bundles[str(record.bundle)], ctx.read_ms, ctx.settings)
    if record.send_on:
        half = ctx.state.bundles[str(_quieter(children, event, "best_" if best else ""))]
        choice = ctx.weigh_targets(half.bundle, half.by)
        if choice is not None:
            send_on(ctx, half, choice, Reason.SPLIT_SEND_ON)


def _owners_boundary(record: Ownership, event: BrokerEvent) -> int | None:
    """The balanced boundary by the owner, which knows its topics' loads; None: keep the boundary that was ordered.

    It replaces the middle only: any other boundary was chosen on purpose.
    """
    best, bundle = event.data.get("best_boundary"), record.bundle
    if record.boundary != bundle.middle() or not isinstance(best, int) or isinstance(best, bool):
        return None
    return best if bundle.lower < best < bundle.upper else None


def _quieter(children: tuple[Bundle, Bundle], event: BrokerEvent, prefix: str) -> Bundle:
    """The half with less load by its owner's figures; the upper one when there are none."""
    lower, upper = event.data.get(f"{prefix}lower_load"), event.data.get(f"{prefix}upper_load")
    if isinstance(lower, int | float) and isinstance(upper, int | float) and lower < upper:
        return children[0]
    return children[1]
