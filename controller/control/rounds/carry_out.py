"""Carries decisions out: checks each one against the present state, and executes it or says why not.

A decision was made on an older state. It is void once its bundle has another epoch. In shadow and paused mode nothing
is executed, and the outcomes say so. `at_ms` is the event time of the round that acts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from controller.control.context import Context
from controller.control.orders import Wanted, backs_off, find_refusal, send_order
from controller.control.splits import begin_split
from controller.domain.decision import EXECUTED, Decision, DecisionKind, Reason
from controller.domain.observed import Observation, OrderKind
from controller.domain.ownership import State
from controller.domain.state import LIVE, SHADOW


def group_swaps(decisions: Sequence[Decision]) -> Iterator[tuple[Decision, ...]]:
    """The decisions in order, of a swap both halves together, where the first of them stands."""
    halves = {one.bundle: one for one in decisions if one.swapped_with}
    seen: set[str] = set()
    for one in decisions:
        if one.id in seen:
            continue
        other = halves.get(one.swapped_with)
        together = (one,) if other is None else (one, other)
        seen.update(half.id for half in together)
        yield together


def carry_out(ctx: Context, together: Sequence[Decision], at_ms: int) -> dict[str, str]:
    """Execute decisions that belong together, all or none of them; the outcome of each by its id."""
    obstacle = find_common_obstacle(ctx, together, at_ms)
    return {one.id: obstacle or execute(ctx, one, at_ms) for one in together}


def find_common_obstacle(ctx: Context, together: Sequence[Decision], at_ms: int) -> str | None:
    """Why decisions that belong together are not executed; None if all are valid."""
    if len(together) == 1 and together[0].swapped_with is not None:
        return Reason.STALE_DECISION.value  # half of a swap
    obstacles = (find_obstacle(ctx, one, at_ms, len(together)) for one in together)
    return next((found for found in obstacles if found is not None), _find_clash(ctx, together))


def _find_clash(ctx: Context, together: Sequence[Decision]) -> str | None:
    """Each may be ordered by itself, but not both: one range has one order at a time (`controller.control.orders`)."""
    seen = [ctx.state.observed.bundles.get(one.bundle or "") for one in together]
    ranges = {(one.bundle.lower, one.bundle.upper) for one in seen if one is not None}
    clash = len(ranges) < len(seen) and None not in seen and ctx.state.modular
    return Reason.RANGE_IN_USE.value if clash else None


def find_obstacle(ctx: Context, decision: Decision, at_ms: int, at_once: int) -> str | None:
    """Why a decision is not executed: a reason code; None if it is valid. `at_once`: it is one of so many, all or none
    of them."""
    if ctx.state.mode != LIVE:
        reason = Reason.SHADOW_MODE if ctx.state.mode == SHADOW else Reason.PAUSED_MODE
        return reason.value
    seen = ctx.state.observed.bundles.get(decision.bundle or "")
    if seen is not None:
        return _order_obstacle(ctx, decision, seen, at_ms, at_once)
    record = ctx.bundle(decision.bundle)
    if record is None or record.state is not State.OWNED or record.epoch != decision.epoch:
        return Reason.STALE_DECISION.value
    if decision.kind is DecisionKind.SPLIT:
        return None  # `begin_split` checks it
    if decision.kind in (DecisionKind.TRANSFER, DecisionKind.UNLOAD):
        return _transfer_obstacle(ctx, decision, at_ms)
    return Reason.STALE_DECISION.value


def _order_obstacle(ctx: Context, decision: Decision, seen: Observation, at_ms: int, at_once: int) -> str | None:
    """Why a decision about an observed bundle does not become an order; None if it does."""
    if seen.seq != decision.epoch:
        return Reason.STALE_DECISION.value
    if backs_off(ctx, str(seen.bundle), at_ms):
        return Reason.BACKING_OFF.value
    moves = decision.kind is not DecisionKind.SPLIT
    if moves and _is_within_grace(ctx, at_ms, decision, seen.moved_at_ms):
        return Reason.GRACE_PERIOD.value
    refusal = find_refusal(ctx, _order_of(decision, seen), at_once)
    return refusal.reason.value if refusal is not None else None


def _order_of(decision: Decision, seen: Observation) -> Wanted:
    if decision.kind is DecisionKind.SPLIT:
        boundary = decision.boundary if decision.boundary is not None else seen.bundle.middle()
        return Wanted(OrderKind.SPLIT, seen, boundary=boundary)
    return Wanted.move(seen, decision.target)


def _is_within_grace(ctx: Context, at_ms: int, decision: Decision, moved_at_ms: int) -> bool:
    """Whether the bundle moved too recently. An operator's override takes precedence over the grace period."""
    recently = bool(moved_at_ms) and at_ms < moved_at_ms + ctx.settings.grace_period_ms
    return recently and decision.reason is not Reason.OVERRIDDEN


def _transfer_obstacle(ctx: Context, decision: Decision, at_ms: int) -> str | None:
    record = ctx.state.bundles[str(decision.bundle)]
    if _is_within_grace(ctx, at_ms, decision, record.moved_at_ms):
        return Reason.GRACE_PERIOD.value
    target = ctx.state.session_of(decision.target or "")
    if target is None or target == record.by:
        return Reason.STALE_DECISION.value
    broker = ctx.state.brokers[target.broker]
    if broker.drained or broker.leaving:
        return Reason.BROKER_DRAINED.value
    if ctx.lags(target):
        return Reason.LAGGING.value
    known = bool(ctx.settings.placement.isolation) and target.broker in ctx.placement
    allowed = not known or ctx.placement.allows(record.bundle.namespace, target.broker)
    return None if allowed else Reason.ISOLATION.value  # the available brokers have changed since


def execute(ctx: Context, decision: Decision, at_ms: int, attempt_id: str | None = None) -> str:
    """Start carrying out a valid decision; returns its outcome for the evidence. `attempt_id`: see `Cause`."""
    seen = ctx.state.observed.bundles.get(str(decision.bundle))
    if seen is not None:
        send_order(
            ctx, _order_of(decision, seen), decision.reason.value, decision_id=decision.id, attempt_id=attempt_id
        )
        return EXECUTED
    record = ctx.state.bundles[str(decision.bundle)]
    if decision.kind is DecisionKind.SPLIT:
        boundary = decision.boundary if decision.boundary is not None else record.bundle.middle()
        refusal = begin_split(
            ctx,
            record,
            boundary,
            decision.reason.value,
            decision_id=decision.id,
            send_on=ctx.settings.split.auto_unload,
        )
        return str(refusal[0].value) if refusal else EXECUTED
    ctx.move(
        record,
        State.TRANSFERRING,
        by=record.by,
        to=ctx.state.session_of(decision.target or ""),
        burn=True,
        moving_at_ms=at_ms,
        reason=decision.reason.value,
        decision_id=decision.id,
        attempt_id=attempt_id,
    )
    return EXECUTED


def carry_out_later(
    ctx: Context, decision: Decision, round_id: str, obstacle: str | None = None, **evidence: object
) -> None:
    """Execute a round's decision after its round, or say why not: as a decision of the step that names the round's."""
    about = {"round": round_id, **evidence, "decision": decision.id, **decision.evidence}
    cause = ctx.decisions().adopt(decision, obstacle or EXECUTED, about)
    if obstacle is None:
        execute(ctx, replace(decision, id=cause.decision_id), ctx.state.round_at_ms, cause.attempt_id)
