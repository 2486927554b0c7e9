"""Decisions as rows of text: what was to move where, why, what was predicted, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from controller.cli.evidence_text import kind_text, why_text
from controller.cli.show import emit_table, percent_text, time_text
from controller.domain.decision import DecisionKind
from controller.operations.plans.plan_words import became_text

Row = dict[str, Any]
NO_MATCH = "no decision matches (`--skips` shows what was decided against)"


def print_decisions(rows: list[dict[str, Any]], empty: str = NO_MATCH, join_skips: bool = False) -> None:
    """Print a table of decisions; `empty`: the text without rows. `join_skips`: of rounds that one after the other
    decided against it for the same reason, the newest stands for all."""
    compared = any(row["challenger"] for row in rows)
    emit_table(
        [
            "at (UTC)",
            "decision",
            *(["strategy"] if compared else []),
            "kind",
            "bundle",
            "from",
            "to",
            "reason",
            "source >",
            "target >",
            "outcome",
        ],
        [
            (
                time_text(row["at_ms"]),
                row["decision_id"],
                *([row["strategy"]] if compared else []),
                kind_text(row),
                row["bundle"],
                row["source"],
                row["target"],
                why_text(row) + _alike_text(alike),
                predicted_text(row, row["source"]),
                predicted_text(row, row["target"]),
                became_text(row),
            )
            for row, alike in (_without_repetitions(rows) if join_skips else ((row, 0) for row in rows))
        ],
        empty=empty,
    )


def _without_repetitions(rows: Iterable[Row]) -> Iterator[tuple[Row, int]]:
    """Rows, newest first, each with the number of skips before it that are left out as they say the same."""
    for _, alike in groupby(enumerate(rows), key=_what_repeats):
        (_, newest), *others = alike
        yield newest, len(others)


def _alike_text(rounds: int) -> str:
    if not rounds:
        return ""
    return "; likewise in the round before" if rounds == 1 else f"; likewise in the {rounds} rounds before"


def _what_repeats(numbered: tuple[int, Row]) -> tuple[object, ...]:
    number, row = numbered
    return (row["strategy"], row["source"], row["reason"]) if row["kind"] == DecisionKind.SKIP.value else (number,)


def predicted_text(row: Mapping[str, Any], broker: str | None) -> str:
    """The score of a broker before, and the predicted one after: `91.0 % → 80.2 %`."""
    before, after = row["before"].get(broker), row["after"].get(broker)
    if before is None:
        return ""
    return percent_text(before) if after is None else f"{percent_text(before)} → {percent_text(after)}"
