"""Decisions as rows of text: what was to move where, why, what was predicted, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.cli.evidence_text import kind_text, why_text
from controller.cli.show import emit_table, percent_text, time_text
from controller.operations.plans.plan_words import became_text

NO_MATCH = "no decision matches (`--skips` shows what was decided against)"


def print_decisions(rows: list[dict[str, Any]], empty: str = NO_MATCH) -> None:
    """Print a table of decisions; `empty`: the text without rows."""
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
                why_text(row),
                predicted_text(row, row["source"]),
                predicted_text(row, row["target"]),
                became_text(row),
            )
            for row in rows
        ],
        empty=empty,
    )


def predicted_text(row: Mapping[str, Any], broker: str | None) -> str:
    """The score of a broker before, and the predicted one after: `91.0 % → 80.2 %`."""
    before, after = row["before"].get(broker), row["after"].get(broker)
    if before is None:
        return ""
    return percent_text(before) if after is None else f"{percent_text(before)} → {percent_text(after)}"
