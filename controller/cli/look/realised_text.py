"""Prints moves, predicted against realised: `predicted −6.1 %, realised −5.8 %`, or why they are not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from controller.cli.show import emit_table, time_text
from controller.operations.realised_moves import interval_text, realised_text


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
                    interval_text(row),
                    realised_text(row),
                )
                for row in rows
            ],
            title="predicted and realised, moves in the time of a round together",
        )
