"""Prints the evidence of decisions: what was seen, the candidates, and the rule that each candidate lost by.

The words are those of `controller/operations/evidence_words.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from controller.cli.show import emit_table, emit_text
from controller.domain.decision import PLACEMENT
from controller.operations.evidence_words import candidates_of, giver_of, result_text, score_text
from controller.operations.evidence_words import evidence_lines as evidence_lines
from controller.operations.evidence_words import kind_text as kind_text
from controller.operations.evidence_words import reason_text as reason_text
from controller.operations.evidence_words import scores_text as scores_text
from controller.operations.evidence_words import why_text as why_text

Row = Mapping[str, Any]


def print_evidence(decision: Row) -> None:
    """Print all evidence of a decision."""
    typer.echo("\nevidence")
    for line in evidence_lines(decision["evidence"]):
        emit_text(f"  {line}")
    print_candidates(decision)


def print_candidates(decision: Row) -> None:
    """Print the candidates, best first, each with its result: chosen, or why not."""
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
        [_candidate(row, scores, swapped, result_text(row, decision)) for row in rows],
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
            [(r["source"], r["bundle"], score_text(r.get("target_after")), r["result"]) for r in rows],
            title="as a target",
        )


def _candidates_text(decision: Row, paired: bool) -> str:
    """What the candidates are: brokers for a placement, else pairs or bundles."""
    if decision["strategy"] == PLACEMENT:
        return f"brokers for it, by {decision['evidence'].get('placed_by')}"
    return f"{'pairs' if paired else 'bundles'} of {giver_of(decision)}"


def _candidate(row: Row, scores: Sequence[str], swapped: bool, result: str) -> tuple[Any, ...]:
    other = (row.get("in_exchange_for"),) if swapped else ()
    after = (score_text(row.get(name)) for name in scores)
    return (row["bundle"], row.get("target"), *other, *after, result)
