"""Kept plans in words: who approved or declined, which moves were carried out, what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from controller.domain.decision import EXECUTED, PlanPhase, Reason
from controller.domain.entries import Entry
from controller.domain.errors import few_text
from controller.domain.reasons.words import describe_reason
from controller.operations.evidence_words import missed_text
from controller.operations.plans.kept_plans import BEHIND, CARRIES_OUT, fold_plans, is_waiting
from controller.operations.text import count_text, percent_text, time_text

MOST_MOVES = 3  # named in an entry's words
_EXPIRED, _OVERTAKEN = "expired", "overtaken"
_BY_WHAT = "an override or another strategy"
_ENDS = {
    _EXPIRED: "its time is over: it is kept no longer",
    _OVERTAKEN: f"{_BY_WHAT} has overtaken it",
}
Row = Mapping[str, Any]


def plan_text(plan: Row) -> str:
    """What became of a plan and of its moves."""
    if is_waiting(plan):
        moves, one = count_text(len(plan["moves"]), "move"), len(plan["moves"]) == 1
        return f"{moves} {'waits' if one else 'wait'} for an operator's approval since {_at(plan['since_ms'])}"
    if plan["phase"] == PlanPhase.APPROVED.value:
        return f"{_fate(plan)}: {_moves_text(plan)}"
    return f"{_fate(plan)}: nobody decided about it" if _ended(plan) == _EXPIRED else _fate(plan)


def _short_text(plan: Row) -> str:
    """What became of a plan, in a word or two: `waiting`, `approved by anna`, `declined by anna`, `expired`."""
    if plan["phase"] == PlanPhase.WAITING.value:
        return str(plan["ended"] or plan["phase"])
    return f"{plan['phase']} by {_who(plan)}"


def approval_text(of_round: Row) -> str:
    """What a round's moves wait for, or what became of them: `waiting`, `approved by anna`, or `held back` by the plan
    of an earlier round. Empty where no plan is involved. It names their number where others did not wait, as moves off
    a broker over its limit never do."""
    plan = of_round["plan"]
    count = len(plan["moves"]) if plan else of_round["held_back"]
    if not count:
        return ""
    words = _short_text(plan) if plan else "held back"
    return f"{count} {words}" if count < of_round["moves"] else words


def part_sentence(part: Row) -> str:
    """What a plan means for one decision (`find_part`)."""
    of_round = f"the plan of round {part['round_id']}"
    if part["part"] == CARRIES_OUT:
        return f"It is {part['decision_id']} of {of_round}, which {_was(part)}."
    if part["part"] == BEHIND and part["outcome"] == Reason.PLAN_DECLINED.value:
        return f"It was not carried out: {of_round} {_was(part)}, and holds others of its size back for a while."
    if part["part"] == BEHIND:
        return f"It was not carried out: {of_round} went first, which {_was(part)}."
    if part["phase"] == PlanPhase.APPROVED.value:
        return _approved_sentence(part)
    if is_waiting(part):
        return "It is not carried out yet: the plan waits for an operator's approval."
    if part["phase"] == PlanPhase.DECLINED.value:
        return f"It was not carried out: {_who(part)} declined the plan at {_when(part)}."
    if part["ended"] == _EXPIRED:
        return f"It was not carried out: nobody decided about the plan before it expired at {_at(part['ended_ms'])}."
    return f"It was not carried out: {_BY_WHAT} overtook the plan at {_at(part['ended_ms'])}."


def ahead_sentence(decision: Row, source: float | None, target: float | None) -> str:
    """Why a move was carried out while others waited for an approval. `source`, `target`: their scores, as measured."""
    if decision["reason"] == Reason.OVERRIDDEN.value:
        why = "an override asks for it"
    elif decision["evidence"].get("swapped_with") and (source or 0.0) < (target or 0.0):
        why = f"it comes back for a move that cannot wait, off {decision['target']}"
    else:
        measured = f" ({decision['source']}: {percent_text(source)} measured)" if source is not None else ""
        why = f"moves off a broker over its limit never do{measured}"
    return f"It did not wait for an approval: {why}."


def _approved_sentence(part: Row) -> str:
    approved = f"{_who(part)} approved the plan at {_when(part)}"
    if part["outcome"] == EXECUTED:
        return f"{approved}, and this was carried out."
    if part["outcome"] is not None:
        return f"{approved}, but this was left out: {describe_reason(part['outcome']) or part['outcome']}."
    if part["ended"] == _EXPIRED:
        return f"{approved}, but the plan expired before this could be carried out."
    if part["ended"] is not None:
        return f"{approved}, but {_BY_WHAT} overtook it before this could be carried out."
    return f"{approved}; this is still to be carried out."


def outcome_text(part: Row) -> str:
    """The outcome of a decision that has a part in a plan, in a few words; empty while the plan waits."""
    if part["part"] == BEHIND:
        return f"held back by the plan of {part['round_id']}"
    by = f"{part['phase']} by {_who(part)}"
    if part["phase"] != PlanPhase.APPROVED.value:
        return by if part["phase"] == PlanPhase.DECLINED.value else part["ended"] or ""
    if part["outcome"] is not None:
        return f"{part['outcome']}, {by}"
    return f"{by}, to come" if part["ended"] is None else f"{by}, then {part['ended']}"


def became_text(decision: Row) -> str:
    """What became of a decision: how its order fell short, what its plan came to, or its own outcome or label."""
    part = decision.get("plan")
    own = EXECUTED if decision.get("sent_as") else str(decision["outcome"] or decision["label"])
    return missed_text(decision) or (outcome_text(part) if part else "") or own


def entry_text(entry: Entry) -> str:
    """An entry about a plan in a few words."""
    data = entry.data
    if "moves" in data:
        moves = [f"{one['bundle']} {one['source']} → {one['target'] or '?'}" for one in fold_plans([entry])[0]["moves"]]
        waits = f"{count_text(len(moves), 'move')} {'waits' if len(moves) == 1 else 'wait'} for approval"
        return f"{waits}: {few_text(moves, MOST_MOVES)}"
    if "phase" in data:
        why = f": {data['why']}" if data.get("why") else ""
        return f"{data['phase']} by {data.get('who') or 'somebody'}{why}"
    return _outcomes_text(data.get("outcomes", {})) or _ENDS.get(str(data.get("ended")), str(data.get("ended") or ""))


def _outcomes_text(outcomes: Mapping[str, str]) -> str:
    """How many moves were carried out; which were left out, by reason."""
    left: dict[str, list[str]] = {}
    for decision_id, outcome in outcomes.items():
        left.setdefault(outcome, []).append(decision_id)
    done = left.pop(EXECUTED, [])
    said = [f"{count_text(len(done), 'move')} carried out"] if done or left else []
    for code, ids in left.items():
        said.append(f"{len(ids)} left out: {describe_reason(code) or code} ({few_text(ids, MOST_MOVES)})")
    return "; ".join(said)


def _moves_text(plan: Row) -> str:
    """Of an approved plan: how many moves were carried out, left out, are to come or come too late."""
    outcomes = Counter(move["outcome"] for move in plan["moves"])
    open_, done = outcomes.pop(None, 0), outcomes.pop(EXECUTED, 0)
    said = [f"{done} of {count_text(len(plan['moves']), 'move')} carried out"]
    said += [f"{count} left out: {describe_reason(code) or code}" for code, count in outcomes.items()]
    if open_ and plan["ended"] is None:
        said.append(f"{open_} still to come")
    elif open_:
        end = f"expired at {_at(plan['ended_ms'])}" if plan["ended"] == _EXPIRED else f"was overtaken by {_BY_WHAT}"
        said.append(f"{open_} not in time: the plan {end}")
    return "; ".join(said)


def _fate(plan: Row) -> str:
    """`approved by anna at 2026-11-25 19:56:30 UTC (looked fine)`, or how it ended without anybody's decision."""
    if plan["phase"] != PlanPhase.WAITING.value:
        return f"{plan['phase']} by {_who(plan)} at {_when(plan)}"
    by = f" by {_BY_WHAT}" if plan["ended"] == _OVERTAKEN else ""
    return f"{plan['ended']}{by} at {_at(plan['ended_ms'])}"


def _was(plan: Row) -> str:
    """What became of a plan, as the end of a sentence about it."""
    if is_waiting(plan):
        return "waits for an operator's approval"
    return _fate(plan) if _ended(plan) == _EXPIRED else f"was {_fate(plan)}"


def _ended(plan: Row) -> str | None:
    """How it ended without anybody's decision."""
    return plan["ended"] if plan["phase"] == PlanPhase.WAITING.value else None


def _who(plan: Row) -> str:
    return str(plan["who"] or "somebody")


def _when(plan: Row) -> str:
    why = f" ({plan['why']})" if plan["why"] else ""
    return f"{_at(plan['decided_ms'])}{why}"


def _at(at_ms: int | None) -> str:
    return f"{time_text(at_ms)} UTC"
