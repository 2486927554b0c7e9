"""Moves of a round that wait for their turn, because as many orders are open as may be.

They are carried out as orders end, each only if everything else still holds as for a round's own. They wait until the
next round that can judge their sources, which decides anew, and never for longer than `MOST_MS`. They are not
journaled: a new controller has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.control.context import Context
from controller.control.rounds.carry_out import carry_out_later, find_common_obstacle
from controller.control.watch import InTurn
from controller.domain.decision import Decision, Reason, RoundResult

MOST_MS = 60_000


def wait_in_turn(ctx: Context, round_id: str, state_seq: int, together: Sequence[Decision]) -> dict[str, str]:
    """Keep decisions that a limit on open orders holds back; the outcome of each by its id."""
    ctx.watch.in_turn.append(InTurn(round_id, state_seq, tuple(together), ctx.now_ms))
    return {one.id: Reason.IN_TURN.value for one in together}


def decide_anew(ctx: Context, result: RoundResult) -> None:
    """Drop what waits, but for moves off brokers that this round could not judge yet."""
    settling = {one.source for one in result.decisions if one.reason is Reason.SETTLING}
    waiting = ctx.watch.in_turn
    ctx.watch.in_turn = [one for one in waiting if all(move.source in settling for move in one.together)]


def send_in_turn(ctx: Context) -> None:
    """In every batch: execute what there is room for now, as decisions of the step that name those of the round. What
    has another obstacle by now, or was overruled, is dropped."""
    waiting, ctx.watch.in_turn = ctx.watch.in_turn, []
    for one in waiting:
        if ctx.state.policy_seq > one.state_seq or ctx.now_ms - one.since_ms > MOST_MS:
            continue
        obstacle = find_common_obstacle(ctx, one.together, ctx.state.round_at_ms)
        if obstacle == Reason.BUDGET_SPENT.value:
            ctx.watch.in_turn.append(one)
        elif obstacle is None:
            for decision in one.together:
                carry_out_later(ctx, decision, one.round_id)
