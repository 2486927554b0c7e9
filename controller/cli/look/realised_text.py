"""Prints moves, predicted against realised: `predicted −6.1 %, realised −5.8 %`, or why they are not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from controller.cli.show import emit_table, time_text
from controller.policy.usage.realised import FULL_END, NOT_YET, RESTARTED, UNREADABLE

_WHY_NOT = {
    FULL_END: "the broker was at its limit",
    RESTARTED: "the broker restarted, or was not there all the time",
    UNREADABLE: "a reading of its usage is missing",
}


def print_realised(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a row for each broker that moves left or reached; nothing without rows."""
    if rows:
        typer.echo("")
        emit_table(
            ["at (UTC)", "round", "broker", "moves >", "90 % >", "CPU of its limit …"],
            [
                (
                    time_text(row["at_ms"]),
                    row["round_id"],
                    row["broker"],
                    row["moves"],
                    f"±{100 * row['half_width']:.1f} %",
                    realised_text(row),
                )
                for row in rows
            ],
            title="predicted and realised, moves of a round together",
        )


def realised_text(row: Mapping[str, Any]) -> str:
    """What the moves were predicted to change the broker's usage by, and what they did or why nobody can tell."""
    predicted = f"predicted {_points(row['predicted'])}"
    if row["realised"] is not None:
        outside = "" if row["inside"] else ", outside the interval"
        return f"{predicted}, realised {_points(row['realised'])}{outside}"
    if row["why_not"] == NOT_YET:
        left = row["rounds_to_go"]
        return f"{predicted}, not yet: {left} round{'' if left == 1 else 's'} to go"
    return f"{predicted}, not judged: {_WHY_NOT[row['why_not']]}"


def _points(share: float) -> str:
    """`−6.1 %` of the limit, with a sign."""
    rounded = round(100 * share, 1)
    return f"{'−' if rounded < 0 else '+'}{abs(rounded):.1f} %"
