"""Prints the evidence of decisions: what was seen, the candidates, and the rule that each candidate lost by.

Reason codes are printed with words and band: normal (nothing to do), throttled (later), config (an operator's choice),
hard (impossible as things are). Scores in evidence are whole numbers in 1 / SCORE_UNIT, printed as percentages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from controller.cli.show import emit_table, emit_text, percent_text
from controller.domain.decision import PLACEMENT, Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.reasons.words import describe_decision_row, describe_reason
from controller.operations.evidence_view import CANDIDATES, candidates_of, giver_of

SCORES = frozenset({"score", "mean", "level", "usage", "history", "target_usage", "threshold", "source_after"})
Row = Mapping[str, Any]


def reason_text(code: str | None, evidence: Row | None = None) -> str:
    """`405_would_not_improve (hard): would not improve the balance`; codes of other versions stay as they are."""
    return _text_of(code, describe_reason(code, evidence))


def why_text(decision: Row) -> str:
    """The reason of a decision, in words and with figures from its evidence."""
    return _text_of(decision["reason"], describe_decision_row(decision))


def _text_of(code: str | None, words: str) -> str:
    return f"{code} ({Reason(code).band}): {words}" if words else code or ""


def kind_text(decision: Row) -> str:
    """The kind of a decision; marks a transfer that is half of a swap."""
    return f"{decision['kind']} (swap)" if decision["evidence"].get("swapped_with") else str(decision["kind"])


def evidence_lines(evidence: Mapping[str, Any]) -> list[str]:
    """All evidence except the candidates, one figure per line."""
    return [f"{name}: {_text(name, value)}" for name, value in evidence.items() if name not in CANDIDATES]


def print_evidence(decision: Row) -> None:
    """Print all evidence of a decision."""
    typer.echo("\nevidence")
    for line in evidence_lines(decision["evidence"]):
        emit_text(f"  {line}")
    print_candidates(decision)


def print_candidates(decision: Row) -> None:
    """Print the candidates, best first, each with its result: chosen, allowed, or the rule that it lost by."""
    rows = candidates_of(decision)
    if not rows:
        return
    typer.echo("")
    paired = any("target_after" in row for row in rows)
    swapped = any(row.get("in_exchange_for") for row in rows)
    scores = [name for name in ("source_after", "target_after") if any(row.get(name) is not None for row in rows)]
    columns = ["bundle", "target", *(["in exchange for"] if swapped else []),
               *(f"{name.replace('_', ' ')} >" for name in scores), "result …"]  # fmt: skip
    emit_table(
        columns,
        [_candidate(row, scores, swapped, _is_chosen(row, decision)) for row in rows],
        title=f"the best {len(rows)} {_candidates_text(decision, paired)}",
    )


def print_round_candidates(decisions: Iterable[Row]) -> None:
    """Print the candidates of every source in a round, once each."""
    printed: set[tuple[str, str]] = set()
    for decision in decisions:
        of = (str(decision["source"]), str(decision["strategy"]))
        if decision["source"] and of not in printed and candidates_of(decision):
            printed.add(of)
            print_candidates(decision)


def print_as_target(rows: Sequence[Row]) -> None:
    """Print the pairs that have this broker as the target."""
    if rows:
        typer.echo("")
        emit_table(
            ["from", "bundle", "target after >", "result …"],
            [(r["source"], r["bundle"], _score(r.get("target_after")), lost_text(r)) for r in rows],
            title="as a target",
        )


def _candidates_text(decision: Row, paired: bool) -> str:
    """What the candidates are: brokers for a placement, else pairs or bundles."""
    if decision["strategy"] == PLACEMENT:
        return f"brokers for it, by {decision['evidence'].get('placed_by')}"
    return f"{'pairs' if paired else 'bundles'} of {giver_of(decision)}"


def _is_chosen(row: Row, decision: Row) -> bool:
    what = decision["bundle"], decision["target"], decision["evidence"].get("swapped_with")
    return (row["bundle"], row.get("target"), row.get("in_exchange_for")) == what


def _candidate(row: Row, scores: Sequence[str], swapped: bool, chosen: bool) -> tuple[Any, ...]:
    other = (row.get("in_exchange_for"),) if swapped else ()
    after = (_score(row.get(name)) for name in scores)
    return (row["bundle"], row.get("target"), *other, *after, "chosen" if chosen else lost_text(row))


def scores_text(row: Row) -> tuple[str, str]:
    """The predicted scores of source and target; empty for strategies that do not evaluate pairs."""
    return _score(row.get("source_after")), _score(row.get("target_after"))


def lost_text(row: Row) -> str:
    """The rule that a candidate lost by; `allowed` if there is none."""
    return reason_text(row["lost_by"]) if row.get("lost_by") else "allowed" if row.get("target") else ""


def _score(value: int | None) -> str:
    return "" if value is None else percent_text(value / SCORE_UNIT)


def _text(name: str, value: Any) -> str:
    if name in SCORES and isinstance(value, int | float) and not isinstance(value, bool):
        return _score(round(value))
    if isinstance(value, Mapping) and name.endswith("_lost"):  # reason -> how many lost by it
        return "; ".join(f"{count} by {reason_text(code)}" for code, count in value.items())
    if isinstance(value, Mapping):
        return ", ".join(f"{inner} {_text('', of)}" for inner, of in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text("", inner) for inner in value)
    return reason_text(value) if isinstance(value, str) else str(value)
