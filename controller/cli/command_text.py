"""Prints operators' commands: who sent each, why and when, what it was, whether it was accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from controller.cli.show import emit_table, time_text

Row = Mapping[str, Any]


def print_commands(rows: Sequence[Row], title: str) -> None:
    """Print a table of commands, and an empty line; nothing without any."""
    if rows:
        columns = ["seq >", "at (UTC)", "what …", "by", "why …", "outcome …", "command"]
        emit_table(columns, [_cells(row) for row in rows], title)
        typer.echo("")


def command_facts(row: Row) -> Iterator[tuple[str, Any]]:
    """All that is known of one command."""
    yield "command", row["command_id"]
    yield "what", what_text(row)
    yield "by", row["who"] or "somebody"
    yield "why", row["why"]
    yield "at (UTC)", time_text(row["at_ms"])
    yield "outcome", f"{_outcome_text(row)}, journal seq {row['seq']}"


def what_text(row: Row) -> str:
    """The kind of a command and its arguments."""
    return f"{row['kind']} {json.dumps(row['args'], sort_keys=True)}"


def _cells(row: Row) -> tuple[object, ...]:
    when = time_text(row["at_ms"])
    return row["seq"], when, what_text(row), row["who"], row["why"], _outcome_text(row), row["command_id"]


def _outcome_text(row: Row) -> str:
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])
