"""Plans that wait for an operator: rounds of more moves than `rounds.approve_above` are not carried out by themselves.

One plan at a time is kept (`KeptPlan`). While it waits, or an approved one is being carried out, later rounds move
nothing else; a declined one keeps others of its size back until it is forgotten. What cannot wait never does: moves off
a broker over its limit, and those that an operator's override asks for. A plan that nobody decides about expires.

An approved plan is carried out like a round's: each move only if its bundle still has the owner and epoch that it was
decided on. Moves that a limit on open orders keeps back are tried again until the plan expires.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.control.command_args import Effect, text_of
from controller.control.context import Context
from controller.control.rounds.carry_out import carry_out_later, find_common_obstacle, group_swaps
from controller.domain.decision import (
    EXECUTED,
    MOVES,
    Decision,
    KeptPlan,
    PlanPhase,
    Reason,
    RoundResult,
)
from controller.domain.entries import Kind
from controller.domain.errors import BadRecord
from controller.domain.events import Command
from controller.domain.state import LIVE

CARRIED_OUT, EXPIRED, OVERTAKEN = "carried_out", "expired", "overtaken"  # how a plan ends


def hold_back(ctx: Context, result: RoundResult, wanted: Sequence[Decision]) -> dict[str, str]:
    """The moves of a live round that are not carried out for want of an approval: decision id -> reason code.

    They become the plan that waits, unless there is one. While agents of version 0.1.0 are alive, which entries of kind
    PLAN would stop, they are held back and cannot be approved.
    """
    kept, above = ctx.state.plan, ctx.settings.approve_above
    if ctx.state.mode != LIVE or (above is None and kept is None):
        return {}
    moves = [one for one in wanted if one.kind in MOVES]
    valid = [pair for pair in group_swaps(moves) if find_common_obstacle(ctx, pair, result.at_ms) is None]
    busy = kept is not None and kept.phase is not PlanPhase.DECLINED
    if not busy and (above is None or sum(map(len, valid)) <= above):
        return {}
    held = [one for pair in valid if not _is_pressing(ctx, result, pair) for one in pair]
    if held and kept is None and all(broker.skips_unknown_kinds for broker in ctx.state.live_brokers()):
        plan = KeptPlan(result.round_id, result.at_ms, PlanPhase.WAITING, tuple(held))
        ctx.emit(Kind.PLAN, reason=PlanPhase.WAITING.value, data=plan.to_json())
    declined = kept is not None and not busy
    reason = Reason.PLAN_DECLINED if declined else Reason.AWAITING_APPROVAL
    return {one.id: reason.value for one in held}


def count_waiting(ctx: Context, result: RoundResult, wanted: Sequence[Decision]) -> int:
    """How many moves of this round would wait for an approval if the mode were live."""
    moves, above = [one for one in wanted if one.kind in MOVES], ctx.settings.approve_above
    if above is None or result.challenger or len(moves) <= above:
        return 0
    return sum(len(pair) for pair in group_swaps(moves) if not _is_pressing(ctx, result, pair))


def _is_pressing(ctx: Context, result: RoundResult, pair: Sequence[Decision]) -> bool:
    """Whether moves must not wait: an operator asked for one, or it relieves a broker that is over its limit."""
    over = brokers_over_limit(ctx, result)
    return any(one.reason is Reason.OVERRIDDEN or one.source in over for one in pair)


def brokers_over_limit(ctx: Context, result: RoundResult) -> set[str]:
    """The brokers whose score in the round is at the limit or above it."""
    limit = ctx.settings.overload_limit
    return {str(row["broker"]) for row in result.scores if row.get("score") is not None and row["score"] >= limit}


def approve(ctx: Context, command: Command) -> Effect:
    """Have the waiting plan of this `round` carried out."""
    plan = _find_waiting(ctx, command)
    if ctx.state.mode != LIVE:
        raise BadRecord("mode", f"mode is {ctx.state.mode}, in which nothing moves: `ballast mode live` first")
    return lambda: _emit_phase(ctx, plan, PlanPhase.APPROVED, command)


def decline(ctx: Context, command: Command) -> Effect:
    """Drop the waiting plan of this `round`; plans of its size are held back for as long as one may wait."""
    plan = _find_waiting(ctx, command)
    return lambda: _emit_phase(ctx, plan, PlanPhase.DECLINED, command, dropped=len(plan.moves))


def _find_waiting(ctx: Context, command: Command) -> KeptPlan:
    wanted, plan = text_of(command, "round"), ctx.state.plan
    if plan is None or plan.phase is PlanPhase.DECLINED:
        none = f"no plan waits for approval, so there is nothing to decide about round {wanted}"
        raise BadRecord("round", f"{none}: it left no plan, its plan is over, or there is no such round")
    if plan.round_id != wanted:
        raise BadRecord("round", f"the plan of {wanted} does not wait; that of round {plan.round_id} does")
    if plan.phase is not PlanPhase.WAITING:
        raise BadRecord("round", f"the plan of {wanted} was approved already and is being carried out")
    return plan


def _emit_phase(ctx: Context, plan: KeptPlan, phase: PlanPhase, command: Command, **more: int) -> None:
    data = {"round_id": plan.round_id, "phase": phase.value, "who": command.who, "why": command.why, **more}
    ctx.emit(Kind.PLAN, reason=phase.value, command_id=command.id, data=data)


def tend_plan(ctx: Context, read_to_end: bool) -> None:
    """In every batch: carry on with an approved plan; end one that expired, or that a command has overtaken.

    A restarted controller gives the kept plan its whole time again.
    """
    plan = ctx.state.plan
    if plan is None:
        return
    if ctx.watch.plan is None or ctx.watch.plan[0] != plan.seq:
        ctx.watch.plan = plan.seq, ctx.read_ms
    if plan.phase is not PlanPhase.DECLINED and ctx.state.policy_seq > plan.decided_seq:
        _end(ctx, plan, OVERTAKEN)  # by an override or another strategy
        return
    if plan.phase is PlanPhase.APPROVED:
        _carry_on(ctx, plan)
    if ctx.state.plan is not None and read_to_end and ctx.now_ms - ctx.watch.plan[1] > ctx.settings.approval_ms:
        _end(ctx, ctx.state.plan, EXPIRED)


def _carry_on(ctx: Context, plan: KeptPlan) -> None:
    """Execute what is left of an approved plan, as decisions of the step that name those of the round."""
    outcomes: dict[str, str] = {}
    for pair in group_swaps(plan.moves):
        obstacle = find_common_obstacle(ctx, pair, ctx.state.round_at_ms)
        if obstacle == Reason.BUDGET_SPENT.value:
            continue  # too many open orders: later
        for one in pair:
            carry_out_later(ctx, one, plan.round_id, obstacle, approved_by=plan.who)
            outcomes[one.id] = obstacle or EXECUTED
    if len(outcomes) == len(plan.moves):
        _end(ctx, plan, CARRIED_OUT, outcomes)
    elif outcomes:
        data = {"round_id": plan.round_id, "outcomes": outcomes}
        ctx.emit(Kind.PLAN, reason="carried_on", data=data)


def _end(ctx: Context, plan: KeptPlan, how: str, outcomes: dict[str, str] | None = None) -> None:
    data = {"round_id": plan.round_id, "ended": how, **({"outcomes": outcomes} if outcomes else {})}
    ctx.emit(Kind.PLAN, reason=how, data=data)
