"""Checks of the invariants of rounds: I7 (what a round may do), half of I4 (a replay gives the plan hash), I8 (grace).

They raise InvariantBroken with the name of the invariant, like those of `invariants.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.decision import Decision, DecisionKind, Reason, RoundResult
from controller.domain.errors import InvariantBroken
from controller.domain.state import ClusterState
from controller.policy.overrides import MOST_MOVES
from controller.policy.round import replay_round
from controller.policy.strategies import get, traits_of
from controller.sim.ownership.load_cluster import BALANCE, COMMAND, SPLIT, Move

_ROUNDING = 1e-4  # resolution of scores
_ASKED_FOR = {Reason.OVERRIDDEN, Reason.MISPLACED}  # done at the cost of balance; nothing else may make it worse
_SAME = 1e-3  # tolerance for scores that two models predict


def check_round(result: RoundResult, state: ClusterState, most_moves: int) -> None:
    """I7: a round stays within its budget, names each bundle once, and only moves to eligible targets.

    The worst broker is not predicted to be worse than operators' overrides and isolation make it. Strategies
    without a budget, such as Pulsar's own, predict nothing either and only have to meet the rest.
    """
    done = [d for d in result.decisions if d.kind is not DecisionKind.SKIP]
    moves = [d for d in done if d.kind is not DecisionKind.SPLIT]
    traits = traits_of(get(result.strategy))
    asked = sum(move.reason is Reason.OVERRIDDEN for move in moves)
    if asked > MOST_MOVES:
        raise InvariantBroken(f"I7: round {result.round_id} moves {asked} bundles by overrides, at most {MOST_MOVES}")
    if traits.budgeted and len(moves) - asked > most_moves:
        chosen = len(moves) - asked
        raise InvariantBroken(f"I7: round {result.round_id} moves {chosen} bundles, its budget is {most_moves}")
    named = [d.bundle for d in done]
    if len(set(named)) != len(named):
        raise InvariantBroken(f"I7: round {result.round_id} names a bundle twice: {sorted(map(str, named))}")
    for move in moves:
        _check_target(move, state)
    if traits.budgeted:
        _check_worst(result, moves)
    if traits.budgeted and not traits.estimates:
        _check_predictions(result)


def check_replay(result: RoundResult) -> None:
    """I4: a replay of the round's stored inputs gives its plan hash."""
    again = replay_round(result.inputs)
    if again != result.plan_hash:
        raise InvariantBroken(f"I4: round {result.round_id} has plan hash {result.plan_hash}, its replay {again}")


def check_grace(moves: Iterable[Move], grace_ms: int) -> None:
    """I8: no round moves a bundle within its grace period after a round's move or the first move of a half."""
    last: dict[str, Move] = {}
    for move in moves:
        before = last.get(move.bundle)
        if move.cause == BALANCE and before is not None and move.decided_ms - before.decided_ms < grace_ms:
            raise InvariantBroken(f"I8: {before} and {move} lie less than {grace_ms} ms apart")
        if move.cause in (BALANCE, SPLIT):
            last[move.bundle] = move
        elif move.cause != COMMAND:
            last.pop(move.bundle, None)  # its broker died or left


def _check_target(move: Decision, state: ClusterState) -> None:
    target = state.brokers.get(move.target or "")
    if target is None or target.session not in state.sessions:
        raise InvariantBroken(f"I7: {move.id} moves {move.bundle} to {move.target}, which does not live")
    if target.drained or target.leaving:
        raise InvariantBroken(f"I7: {move.id} moves {move.bundle} to {move.target}, which is to be emptied")
    if move.target == move.source:
        raise InvariantBroken(f"I7: {move.id} moves {move.bundle} from {move.source} to itself")


def _check_worst(result: RoundResult, moves: list[Decision]) -> None:
    scores = [float(row["score"]) for row in result.scores if row.get("score") is not None]
    worst = max(scores, default=0.0)
    newest: dict[str, float] = {}
    for move in moves:
        asked = move.after if move.reason in _ASKED_FOR else {}
        worst = max([worst, *move.before.values(), *asked.values()])
        newest.update(move.after)
    for broker, score in newest.items():
        if score > worst + _ROUNDING:
            raise InvariantBroken(
                f"I7: round {result.round_id} leaves {broker} at {score}, the worst was at {worst} before"
            )


def _check_predictions(result: RoundResult) -> None:
    """Check that a strategy's first move of a broker starts from the scores that the overrides of the round leave.

    A move that a rule turned into a skip has no scores, so nothing can be checked for its brokers afterwards.
    """
    left: dict[str, float] = {}
    for move in result.decisions:
        if move.reason is Reason.OVERRIDDEN:
            left.update(move.after)
            continue
        if move.kind is DecisionKind.SKIP:
            left = {broker: score for broker, score in left.items() if broker not in (move.source, move.target)}
            continue
        for broker, score in move.before.items():
            as_left = left.pop(broker, score)
            if abs(score - as_left) > _SAME:
                raise InvariantBroken(
                    f"I7: {move.id} reckons with {broker} at {score}, overrides leave it at {as_left}"
                )
