"""Journals a finished round, and has its decisions carried out or not, with the reason.

The round was computed in another process on an older state: all its decisions are void when an operator has changed the
strategy or an override since.
"""

from __future__ import annotations

from collections import Counter

from controller.control.context import Context, Evidence
from controller.control.rounds.approvals import brokers_over_limit, count_waiting, hold_back
from controller.control.rounds.carry_out import carry_out, group_swaps
from controller.control.rounds.in_turn import decide_anew, wait_in_turn
from controller.domain.decision import Decision, DecisionKind, Gains, Reason, RoundResult
from controller.domain.entries import Kind
from controller.domain.state import LIVE, SHADOW


def on_round(ctx: Context, result: RoundResult) -> None:
    """Journal the round, then carry out the decisions that are still valid.

    What was journaled already, because a restarted worker computed it again, is dropped.
    """
    if _is_repeated(ctx, result):
        ctx.watch.refuse("round_repeated")
        return
    if result.challenger:
        ctx.watch.challenged.add((result.round_id, result.strategy))
    else:
        ctx.watch.challenged.clear()
    attempt_id = ctx.next_attempt()
    mode = ctx.state.mode
    if result.loads is not None:
        ctx.watch.loads.replace(result.loads, ctx.now_ms)
    overruled = result.state_seq < ctx.state.policy_seq
    ctx.emit(Kind.ROUND, attempt_id=attempt_id, data=_summary(ctx, result, mode))
    for wish in list(ctx.state.overrides.values()):
        if not wish.holds(result.at_ms):
            ctx.emit(Kind.OVERRIDE, reason="expired", data={"ended": wish.id})
    behind = ctx.state.plan is not None
    void = Reason.STALE_DECISION.value if overruled and not result.challenger else None
    outcomes = _outcomes(ctx, result) if void is None else {d.id: void for d in _list_actions(result)}
    ctx.evidence.append(Evidence(result, outcomes, attempt_id, mode, behind))
    if result.missed is not None and not result.challenger:
        _restrain(ctx, result, result.missed)


def _is_repeated(ctx: Context, result: RoundResult) -> bool:
    """Whether it was journaled already, or a later round was. Challengers of the newest round are not in the state; it
    is enough to remember those that this process has journaled: a worker of its own belongs to each controller."""
    if result.at_ms < ctx.state.round_at_ms:
        return True
    if result.challenger:
        return (result.round_id, result.strategy) in ctx.watch.challenged
    return result.round_id == ctx.state.round_id


def _summary(ctx: Context, result: RoundResult, mode: str) -> dict[str, object]:
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
    learned: dict[str, object] = {"usage_hash": result.usage_hash} if result.usage_hash else {}
    learned |= {"because": dict(result.because)} if result.because is not None else {}
    waiting = count_waiting(ctx, result, _list_actions(result)) if mode == SHADOW else 0
    would_wait = {"would_wait": waiting} if waiting else {}
    return {**summary, **learned, **would_wait, "memory": {**result.memory, "scores": scores}}


def _restrain(ctx: Context, result: RoundResult, missed: Gains) -> None:
    """Raise an alarm about moves that bring too little; stop acting if that is configured and no broker needs it."""
    figures = {"moves": missed.moves, "predicted": round(missed.predicted, 4), "realised": round(missed.realised, 4)}
    ctx.emit(Kind.ALARM, reason=Reason.GAINS_MISSED.value, data=figures)
    if ctx.settings.shadow_when_missed and ctx.state.mode == LIVE and not brokers_over_limit(ctx, result):
        ctx.emit(Kind.MODE, reason=Reason.GAINS_MISSED.value, data={"mode": SHADOW})


def _list_actions(result: RoundResult) -> list[Decision]:
    return [d for d in result.decisions if d.kind is not DecisionKind.SKIP]


def _outcomes(ctx: Context, result: RoundResult) -> dict[str, str]:
    """Execute the decisions that are valid and wait for nobody, in order."""
    wanted = _list_actions(result)
    if result.challenger:
        return {one.id: "challenger" for one in wanted}
    outcomes = hold_back(ctx, result, wanted)
    decide_anew(ctx, result)
    for together in group_swaps([one for one in wanted if one.id not in outcomes]):
        found = carry_out(ctx, together, result.at_ms)
        if Reason.BUDGET_SPENT.value in found.values():
            found = wait_in_turn(ctx, result.round_id, result.state_seq, together)
        outcomes |= found
    return outcomes
