"""Carries out a finished round: checks each decision against the present state, executes it or not, and records why.

The round was computed in another process on an older state. A decision is void once its bundle has another epoch, and
all of them are void when an operator has changed the strategy or an override since. In shadow and paused mode nothing
is executed, and the outcomes say so.
"""

from __future__ import annotations

from collections import Counter

from controller.control.context import Context, Evidence
from controller.control.orders import Wanted, backs_off, find_refusal, send_order
from controller.control.splits import begin_split
from controller.domain.decision import EXECUTED, Decision, DecisionKind, Reason, RoundResult
from controller.domain.entries import Kind
from controller.domain.observed import Observation, OrderKind
from controller.domain.ownership import State
from controller.domain.state import LIVE, SHADOW


def on_round(ctx: Context, result: RoundResult) -> None:
    """Journal the round, then carry out the decisions that are still valid.

    A round that was journaled already, because a restarted worker computed it again, is dropped.
    """
    repeated = result.at_ms < ctx.state.round_at_ms or result.round_id == ctx.state.round_id
    if not result.challenger and repeated:
        ctx.watch.refuse("round_repeated")
        return
    attempt_id = ctx.next_attempt()
    mode = ctx.state.mode
    if result.loads is not None:
        ctx.watch.loads.replace(result.loads, ctx.now_ms)
    overruled = result.state_seq < ctx.state.policy_seq
    ctx.emit(Kind.ROUND, attempt_id=attempt_id, data=_summary(result, mode))
    for wish in list(ctx.state.overrides.values()):
        if not wish.holds(result.at_ms):
            ctx.emit(Kind.OVERRIDE, reason="expired", data={"ended": wish.id})
    void = Reason.STALE_DECISION.value if overruled and not result.challenger else None
    outcomes = _outcomes(ctx, result) if void is None else {d.id: void for d in _list_actions(result)}
    ctx.evidence.append(Evidence(result, outcomes, attempt_id, mode))


def _summary(result: RoundResult, mode: str) -> dict[str, object]:
    kinds = Counter(d.kind.value for d in result.decisions)
    scores = {str(row["broker"]): row["score"] for row in result.scores if row.get("score") is not None}
    summary: dict[str, object] = {
        "round_id": result.round_id,
        "at_ms": result.at_ms,
        "state_seq": result.state_seq,
        "strategy": result.strategy,
        "mode": mode,
        "plan_hash": result.plan_hash,
        "counts": dict(sorted(kinds.items())),
    }
    if result.challenger:  # the memory of all strategies is in the entry of the acting one
        return {**summary, "challenger": True}
    learned = {"usage_hash": result.usage_hash} if result.usage_hash else {}
    return {**summary, **learned, "memory": {**result.memory, "scores": scores}}


def _list_actions(result: RoundResult) -> list[Decision]:
    return [d for d in result.decisions if d.kind is not DecisionKind.SKIP]


def _outcomes(ctx: Context, result: RoundResult) -> dict[str, str]:
    """Execute the decisions that are still valid, in order; of a swap both halves or neither."""
    wanted = _list_actions(result)
    halves = {d.bundle: d for d in wanted if d.swapped_with}
    outcomes: dict[str, str] = {}
    for decision in wanted:
        if decision.id in outcomes:
            continue
        other = halves.get(decision.swapped_with)
        together = [decision] if other is None or decision.swapped_with is None else [decision, other]
        lone = other is None and decision.swapped_with is not None
        refusal = Reason.STALE_DECISION.value if lone else None
        for one in together:
            refusal = refusal or _refusal(ctx, result, one, len(together))
        outcomes |= {one.id: refusal or _execute(ctx, result, one) for one in together}
    return outcomes


def _refusal(ctx: Context, result: RoundResult, decision: Decision, at_once: int) -> str | None:
    """Why a decision is not executed; None if it is valid. `at_once`: it is one of so many, all or none of them."""
    if result.challenger:
        return "challenger"
    if ctx.state.mode != LIVE:
        reason = Reason.SHADOW_MODE if ctx.state.mode == SHADOW else Reason.PAUSED_MODE
        return reason.value
    seen = ctx.state.observed.bundles.get(decision.bundle or "")
    if seen is not None:
        return _order_refusal(ctx, result, decision, seen, at_once)
    record = ctx.bundle(decision.bundle)
    if record is None or record.state is not State.OWNED or record.epoch != decision.epoch:
        return Reason.STALE_DECISION.value
    if decision.kind is DecisionKind.SPLIT:
        return None  # `begin_split` checks it
    if decision.kind in (DecisionKind.TRANSFER, DecisionKind.UNLOAD):
        return _transfer_refusal(ctx, result, decision)
    return Reason.STALE_DECISION.value


def _order_refusal(
    ctx: Context, result: RoundResult, decision: Decision, seen: Observation, at_once: int
) -> str | None:
    """Why a decision about an observed bundle does not become an order; None if it does."""
    if seen.seq != decision.epoch:
        return Reason.STALE_DECISION.value
    if backs_off(ctx, str(seen.bundle), result.at_ms):
        return Reason.BACKING_OFF.value
    moves = decision.kind is not DecisionKind.SPLIT
    if moves and _is_within_grace(ctx, result, decision, seen.moved_at_ms):
        return Reason.GRACE_PERIOD.value
    refusal = find_refusal(ctx, _order_of(decision, seen), at_once)
    return refusal.reason.value if refusal is not None else None


def _order_of(decision: Decision, seen: Observation) -> Wanted:
    if decision.kind is DecisionKind.SPLIT:
        boundary = decision.boundary if decision.boundary is not None else seen.bundle.middle()
        return Wanted(OrderKind.SPLIT, seen, boundary=boundary)
    return Wanted.move(seen, decision.target)


def _is_within_grace(ctx: Context, result: RoundResult, decision: Decision, moved_at_ms: int) -> bool:
    """Whether the bundle moved too recently. An operator's override takes precedence over the grace period."""
    recently = bool(moved_at_ms) and result.at_ms < moved_at_ms + ctx.settings.grace_period_ms
    return recently and decision.reason is not Reason.OVERRIDDEN


def _transfer_refusal(ctx: Context, result: RoundResult, decision: Decision) -> str | None:
    record = ctx.state.bundles[str(decision.bundle)]
    if _is_within_grace(ctx, result, decision, record.moved_at_ms):
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


def _execute(ctx: Context, result: RoundResult, decision: Decision) -> str:
    """Start carrying out a valid decision; returns its outcome for the evidence."""
    seen = ctx.state.observed.bundles.get(str(decision.bundle))
    if seen is not None:
        send_order(ctx, _order_of(decision, seen), decision.reason.value, decision_id=decision.id)
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
        moving_at_ms=result.at_ms,
        reason=decision.reason.value,
        decision_id=decision.id,
    )
    return EXECUTED
