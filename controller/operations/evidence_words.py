"""The evidence of decisions in words: reasons with their figures, candidates and the rule that each lost by.

Reason codes come with words and band: normal (nothing to do), throttled (later), config (an operator's choice), hard
(impossible as things are). Scores in evidence are whole numbers in 1 / SCORE_UNIT, told as percentages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.domain.decision import Reason
from controller.domain.observed import OrderOutcome
from controller.domain.reasons.words import describe_decision_row, describe_reason
from controller.operations.text import percent_text
from controller.operations.why.lost_words import passed_over_text
from controller.operations.why.lost_words import score_text as score_text

CANDIDATES = ("pairs", "candidates")  # evidence keys
SCORES = frozenset({"score", "mean", "level", "usage", "history", "target_usage", "threshold", "source_after",
                    "limit", "base", "foreign", "passing", "std", "std_after"})  # fmt: skip
_PERMILLE = "_permille"
_OF_LIMITS = frozenset({"permille_of_limit", "limits"})  # what is limited -> how much of it, in permille
_LABELS = {"permille_of_limit": "of its limits"}
_CARRIED_OUT = frozenset({OrderOutcome.MOVED.value, OrderOutcome.SPLIT.value})
Row = Mapping[str, Any]


def reason_text(code: str | None, evidence: Row | None = None) -> str:
    """`405_would_not_improve (hard): would not improve the balance`; codes of other versions stay as they are."""
    return _text_of(code, describe_reason(code, evidence))


def why_text(decision: Row) -> str:
    """The reason of a decision, in words with figures from its evidence, and who commanded it, where that is told."""
    by = f", {decision['commanded']}" if decision.get("commanded") else ""
    return _text_of(decision["reason"], describe_decision_row(decision)) + by


def _text_of(code: str | None, words: str) -> str:
    return f"{code} ({Reason(code).band}): {words}" if words else code or ""


def kind_text(decision: Row) -> str:
    """The kind of a decision; marks a transfer that is half of a swap."""
    return f"{decision['kind']} (swap)" if decision["evidence"].get("swapped_with") else str(decision["kind"])


def evidence_lines(evidence: Mapping[str, Any]) -> list[str]:
    """All evidence except the candidates, one figure per line; shares are percentages."""
    return [
        f"{_LABELS.get(name, name.removesuffix(_PERMILLE))}: {_text(name, value)}"
        for name, value in evidence.items()
        if name not in CANDIDATES
    ]


def is_chosen(row: Row, decision: Row) -> bool:
    """Whether a candidate is what was decided."""
    what = decision["bundle"], decision["target"], decision["evidence"].get("swapped_with")
    return (row["bundle"], row.get("target"), row.get("in_exchange_for")) == what


def scores_text(row: Row) -> tuple[str, str]:
    """The predicted scores of source and target; empty for strategies that do not evaluate pairs."""
    return score_text(row.get("source_after")), score_text(row.get("target_after"))


def result_text(row: Row, decision: Row) -> str:
    """What became of a candidate: `chosen`, or the rule that it lost by; where no rule forbids it, why not all the
    same."""
    if is_chosen(row, decision):
        return "chosen"
    if row.get("lost_by"):
        return reason_text(row["lost_by"])
    chosen = next((one for one in candidates_of(decision) if is_chosen(one, decision)), None)
    return passed_over_text(row, chosen, decision)


def missed_text(decision: Mapping[str, Any]) -> str:
    """How an order fell short of its decision, as `elsewhere: 10.0.0.2:8080 owns it`; empty for one that did not."""
    order = decision.get("order")
    if order is None or order["outcome"] in _CARRIED_OUT:
        return ""
    return f"{order['outcome']}: {order['owner']} owns it" if order["owner"] else str(order["outcome"])


def candidates_of(decision: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The candidates of a decision, best first.

    These are pairs of bundle and target; bundles, for strategies that do not evaluate pairs; brokers, for a placement.
    """
    rows: list[Mapping[str, Any]] = next(
        (decision["evidence"][name] for name in CANDIDATES if decision["evidence"].get(name)), []
    )
    return [{"bundle": decision["bundle"], **row} for row in rows]


def giver_of(decision: Mapping[str, Any]) -> str | None:
    """The broker that owns the candidates.

    In swaps of version 0.1.0 both halves have the candidates of the more loaded broker.
    """
    pairs = candidates_of(decision)
    others = bool(decision["evidence"].get("swapped_with")) and any(
        p.get("target") == decision["source"] for p in pairs
    )
    giver = decision["target"] if others else decision["source"]
    return None if giver is None else str(giver)


def _text(name: str, value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if name in SCORES:
            return score_text(round(value))
        if name.endswith(_PERMILLE):
            return percent_text(value / 1000)
    if isinstance(value, Mapping) and name.endswith("_lost"):  # reason -> how many lost by it
        return "; ".join(f"{count} by {reason_text(code)}" for code, count in value.items())
    if isinstance(value, Mapping) and name in _OF_LIMITS:
        return ", ".join(f"{_limit_text(inner)} {_text(_PERMILLE, of)}" for inner, of in value.items())
    if isinstance(value, Mapping):
        return ", ".join(f"{inner} {_text('', of)}" for inner, of in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text("", inner) for inner in value)
    return reason_text(value) if isinstance(value, str) else str(value)


def _limit_text(code: str) -> str:
    """`112_split_msg_rate` as what is limited: `msg rate`."""
    return code.partition("_split_")[2].replace("_", " ") or code
