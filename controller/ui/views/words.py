"""Decisions and evidence as rows with sentences: what was decided, why, what was predicted, what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.decision import EXECUTED, DecisionKind, Reason
from controller.domain.reasons.words import describe_decision_row, describe_reason, returns_in_exchange
from controller.operations.evidence_words import (
    candidates_of,
    evidence_lines,
    giver_of,
    is_chosen,
    missed_text,
    result_text,
    score_text,
)
from controller.operations.plans.kept_plans import CARRIES_OUT, was_executed
from controller.operations.plans.plan_words import part_sentence
from controller.operations.text import percent_text

Row = dict[str, Any]
_KEPT = ("decision_id", "round_id", "at_ms", "kind", "label", "reason", "band", "bundle", "source", "target",
         "strategy", "challenger", "outcome")  # fmt: skip


def decision_row(decision: Mapping[str, Any]) -> Row:
    """A decision in a list: its facts and its sentences."""
    ends = (decision["source"], decision["target"])
    return {
        **{name: decision[name] for name in _KEPT},
        "done": was_executed(decision),
        "swapped_with": decision["evidence"].get("swapped_with"),
        "before": [decision["before"].get(end) for end in ends],
        "after": [decision["after"].get(end) for end in ends],
        "sentences": sentences_of(decision),
    }


def decision_document(decision: Mapping[str, Any]) -> Row:
    """A decision with all of its evidence: figures, and the candidates with the rule that each lost by."""
    rows = candidates_of(decision)
    return {
        **decision_row(decision),
        "epoch": decision["epoch"],
        "figures": [line.partition(": ")[::2] for line in evidence_lines(decision["evidence"])],
        "giver": giver_of(decision),
        "candidates": [
            {
                "bundle": row["bundle"],
                "target": row.get("target"),
                "in_exchange_for": row.get("in_exchange_for"),
                "source_after": score_text(row.get("source_after")),
                "target_after": score_text(row.get("target_after")),
                "chosen": is_chosen(row, decision),
                "result": result_text(row, decision),
            }
            for row in rows
        ],
    }


def sentences_of(decision: Mapping[str, Any]) -> list[str]:
    """What was decided and why; what was predicted; what became of it."""
    said = [f"{_deed(decision)}: {_why(decision)}."]
    predicted = [text for end in (decision["source"], decision["target"]) if (text := _predicted(decision, end))]
    if predicted:
        said.append(f"Predicted: {', '.join(predicted)}.")
    return said + _became(decision)


def _became(decision: Mapping[str, Any]) -> list[str]:
    """What became of a decision. What a row says of a move that had to wait ends with its round; the plan goes on."""
    outcome, plan = decision["outcome"], decision.get("plan")
    if decision["challenger"] and not _is_made_up(decision) and decision["kind"] != DecisionKind.SKIP.value:
        return ["A challenger decided it, so nothing was carried out."]
    said = [part_sentence(plan)] if plan else []
    if decision.get("sent_as"):
        said.append("It waited for its turn, as many orders were open, and was then carried out.")
        outcome = EXECUTED
    if outcome not in (None, EXECUTED) and (plan is None or plan["part"] == CARRIES_OUT):
        said.append(f"It was not carried out: {describe_reason(outcome) or outcome}.")
    elif missed_text(decision):
        said.append(f"The order ended as {missed_text(decision)}.")
    return said


def _is_made_up(decision: Mapping[str, Any]) -> bool:
    """Whether nobody decided it: another strategy would have."""
    return decision["decision_id"] is None


def _why(decision: Mapping[str, Any]) -> str:
    """The reason in words, which begin with the source where they are about it."""
    words = describe_decision_row(decision) or str(decision["reason"])
    source, reason = decision["source"], decision["reason"]
    if not source or decision["kind"] == DecisionKind.SKIP.value or returns_in_exchange(decision):
        return words
    if reason == Reason.DRAINED.value:
        return f"{source} was being emptied" + (f", {decision['commanded']}" if decision.get("commanded") else "")
    if reason not in (Reason.OVERLOADED.value, Reason.ABOVE_MEAN.value):
        return words
    had = not words[0].isdigit() and not words.startswith(("at ", "above ", "overloaded"))  # a resource at its limit
    return f"{source} {'had' if had else 'was'} {words}"


def _deed(decision: Mapping[str, Any]) -> str:
    kind, bundle, source, target = (decision[name] for name in ("kind", "bundle", "source", "target"))
    other = decision["evidence"].get("swapped_with")
    if kind == DecisionKind.TRANSFER.value:
        exchange = f", in exchange for {other}" if other else ""
        return f"{_verb(decision, 'Moved', 'move')} {bundle} from {source} to {target}{exchange}"
    if kind == DecisionKind.UNLOAD.value:
        where = "placement chooses where it goes"
        return f"{_verb(decision, 'Unloaded', 'unload')} {bundle} from {source}; {where}"
    if kind == DecisionKind.ASSIGN.value:
        return f"{_verb(decision, 'Assigned', 'assign')} {bundle} to {target}"
    if kind == DecisionKind.SPLIT.value:
        where = f" at 0x{decision['boundary']:08x}" if decision["boundary"] is not None else ""
        return f"{_verb(decision, 'Split', 'split')} {bundle}{where}"
    would = _is_made_up(decision)
    if bundle:
        return f"{'Would have left' if would else 'Left'} {bundle}{f' on {source}' if source else ''}"
    if source:
        return f"{'Would have taken' if would else 'Took'} nothing off {source}"
    return "Would have decided nothing" if would else "Decided nothing"


def _verb(decision: Mapping[str, Any], done: str, to_do: str) -> str:
    if _is_made_up(decision):
        return f"Would have {done.lower()}"
    return done if was_executed(decision) and not missed_text(decision) else f"Wanted to {to_do}"


def _predicted(decision: Mapping[str, Any], broker: str | None) -> str:
    before, after = decision["before"].get(broker), decision["after"].get(broker)
    if before is None or after is None:
        return ""
    return f"{broker} from {percent_text(before)} to {percent_text(after)}"
