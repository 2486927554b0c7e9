"""Plans that were kept for an operator to decide about: who did, when and why, and what became of each of their moves.

A fold of the journal's entries of kind PLAN, which are the only source of it: a row of `decisions` stays as its round
wrote it, so a move that was approved later still says there that it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controller.domain.decision import EXECUTED, MOVES, OF_STEP, KeptPlan, PlanPhase, Reason
from controller.domain.entries import Entry

MOVE, BEHIND, CARRIES_OUT = "move", "behind", "carries_out"  # parts of a decision in a plan
HELD_BACK = frozenset({Reason.AWAITING_APPROVAL.value, Reason.PLAN_DECLINED.value})
MOVE_KINDS = frozenset(kind.value for kind in MOVES)
_OF_DECISION = ("round_id", "phase", "since_ms", "who", "why", "decided_ms", "ended", "ended_ms")
Row = dict[str, Any]


def fold_plans(entries: Iterable[Entry]) -> list[Row]:
    """The plans that these entries tell of, oldest first; what is told of a plan without its beginning is left out.

    `phase`: waiting, approved or declined; `who` decided so, `why`, and at `decided_ms`. `ended`: None, carried_out,
    expired or overtaken; a declined plan ends, too, when it holds no others back any more. The `outcome` of each of
    `moves`: executed, a reason code, or None where there is none yet.
    """
    plans: list[Row] = []
    for entry in sorted(entries, key=lambda entry: entry.seq):
        if "moves" in entry.data:
            plans.append(_begin(entry))
        elif plans and plans[-1]["round_id"] == entry.data.get("round_id"):
            _go_on(plans[-1], entry)
    return plans


def _begin(entry: Entry) -> Row:
    plan = KeptPlan.from_json(entry.data)
    moves = [
        {
            "decision_id": one.id,
            "kind": one.kind.value,
            "bundle": one.bundle,
            "source": one.source,
            "target": one.target,
            "outcome": None,
            "outcome_ms": None,
            "outcome_seq": None,
        }
        for one in plan.moves
    ]
    decided = {"who": plan.who, "why": plan.why, "decided_ms": None, "decided_seq": None}
    ended = {"ended": None, "ended_ms": None, "ended_seq": None}
    of_round = {"round_id": plan.round_id, "at_ms": plan.at_ms}
    begun = {"seq": entry.seq, "since_ms": entry.at_ms, "phase": plan.phase.value}
    return {**of_round, **begun, **decided, **ended, "moves": moves}


def _go_on(plan: Row, entry: Entry) -> None:
    data = entry.data
    if "phase" in data:
        plan |= {"phase": data["phase"], "who": data.get("who", ""), "why": data.get("why", "")}
        plan |= {"decided_ms": entry.at_ms, "decided_seq": entry.seq}
    for move in plan["moves"]:
        if move["decision_id"] in data.get("outcomes", {}):
            move |= {"outcome": data["outcomes"][move["decision_id"]], "outcome_ms": entry.at_ms}
            move["outcome_seq"] = entry.seq
    if data.get("ended"):
        plan |= {"ended": data["ended"], "ended_ms": entry.at_ms, "ended_seq": entry.seq}


def find_plan(plans: Sequence[Row], of_round: Mapping[str, Any]) -> Row | None:
    """The plan that this round left waiting."""
    own = (plan for plan in plans if plan["round_id"] == of_round["round_id"])
    return None if of_round["challenger"] else next(own, None)


def may_have_part(decision: Mapping[str, Any]) -> bool:
    """Whether a decision can have to do with a plan at all; tells it without the plans."""
    return not decision["challenger"] and (decision["outcome"] in HELD_BACK or "decision" in decision["evidence"])


def find_part(plans: Sequence[Row], decision: Mapping[str, Any], seq: int) -> Row | None:
    """What a decision has to do with a plan; None: nothing. `seq`: of the entry that makes the decision count.

    `part`: it is one of the plan's moves; it is behind the plan, which keeps moves of later rounds back; or it carries
    out a move, whose `decision_id` is then told.
    """
    if not may_have_part(decision):
        return None
    origin, round_id = decision["evidence"].get("decision"), decision["evidence"].get("round")
    for plan in plans:
        for move in plan["moves"]:
            if plan["round_id"] == decision["round_id"] and move["decision_id"] == decision["decision_id"]:
                return _part(MOVE, plan, move)
            if plan["round_id"] == round_id and move["decision_id"] == origin:
                return _part(CARRIES_OUT, plan, move)
    if decision["outcome"] not in HELD_BACK:
        return None
    kept = (plan for plan in plans if plan["seq"] < seq and (plan["ended_seq"] is None or plan["ended_seq"] > seq))
    first = next(kept, None)  # while an agent of version 0.1.0 is alive, moves are held back without a plan
    return None if first is None else _part(BEHIND, first, {"decision_id": None, "outcome": decision["outcome"]})


def _part(part: str, plan: Row, move: Mapping[str, Any]) -> Row:
    told = {name: plan[name] for name in _OF_DECISION}
    of_move = {name: move.get(name) for name in ("decision_id", "outcome", "outcome_ms", "outcome_seq")}
    return {"part": part, **told, **of_move, "carried_out_as": None}


def is_held_back(decision: Mapping[str, Any]) -> bool:
    """Whether a decision was not carried out because its plan, or one before it, waited or was declined. A move of an
    approved plan was not held back, whatever became of it."""
    part = decision.get("plan") or {}
    approved = part.get("part") == MOVE and part["phase"] == PlanPhase.APPROVED.value
    return decision["outcome"] in HELD_BACK and not approved


def was_executed_later(decision: Mapping[str, Any]) -> bool:
    """Whether a decision was carried out after its round: by the approval of its plan, or in its turn."""
    part = decision.get("plan")
    approved = part is not None and part["part"] == MOVE and part["outcome"] == EXECUTED
    return approved or decision.get("sent_as") is not None


def was_executed(decision: Mapping[str, Any]) -> bool:
    """Whether a decision was carried out, by its round or later."""
    return decision["outcome"] == EXECUTED or was_executed_later(decision)


def may_go_ahead(decision: Mapping[str, Any]) -> bool:
    """Whether a decision is a move that a round has carried out itself: one that may have gone ahead of others."""
    moved = decision["kind"] in MOVE_KINDS and decision["outcome"] == EXECUTED and not decision["challenger"]
    return moved and not str(decision["round_id"]).startswith(OF_STEP)


def keeps_all_back(plan: Mapping[str, Any], decision: Mapping[str, Any], seq: int) -> bool:
    """Whether the plan kept back all moves of the decision's round that could wait: it was that round's own, waited, or
    was being carried out. A declined one keeps back only rounds of its size. `seq`: as for `find_part`."""
    if plan["round_id"] == decision["round_id"]:
        return True
    kept = plan["seq"] < seq and (plan["ended_seq"] is None or plan["ended_seq"] > seq)
    declined = plan["phase"] == PlanPhase.DECLINED.value and plan["decided_seq"] < seq
    return bool(kept and not declined)


def is_waiting(plan: Mapping[str, Any]) -> bool:
    """Whether nobody has decided about the plan, and it is still kept."""
    return plan["phase"] == PlanPhase.WAITING.value and plan["ended"] is None
