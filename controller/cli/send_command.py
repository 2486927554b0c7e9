"""Sends an operator's command and prints the journal's answer. Exit code 1 if the command was rejected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from controller.cli.options import PROBLEM, settings_of
from controller.cli.show import emit_json
from controller.operations.commands import send_and_wait
from controller.operations.operator import Outcome

ANSWER_S = 30.0
_BECOME_ORDERS = frozenset({"unload_bundle", "unload_namespace", "split_bundle"})  # in an observed cluster


def carry_out(
    conf: Path | None,
    profile: str | None,
    sets: list[str] | None,
    as_json: bool,
    kind: str,
    why: str,
    timeout_s: float,
    args: Mapping[str, Any],
) -> None:
    """Send a command, wait for the answer, print it. Raises KafkaUnavailable, NoAnswer; typer.Exit if rejected."""
    print_outcome(send_and_wait(settings_of(conf, profile, sets), kind, why, timeout_s, args), kind, as_json)


def print_outcome(outcome: Outcome, kind: str, as_json: bool, more: Mapping[str, Any] | None = None) -> None:
    """Print an outcome; exit with code 1 if the command was rejected. `more` is added to the JSON document."""
    if as_json:
        emit_json(
            {
                "command_id": outcome.command_id,
                "kind": kind,
                "accepted": outcome.accepted,
                "reason": outcome.reason or None,
                "seq": outcome.seq,
                **(more or {}),
            }
        )
    elif outcome.accepted:
        rest = f"; {outcome.reason}" if outcome.reason else ""
        typer.echo(f"accepted: {kind} {outcome.command_id}, journal seq {outcome.seq}{rest}")
        if outcome.observed and kind in _BECOME_ORDERS:
            typer.echo(f"Pulsar may still refuse it: `ballast explain {outcome.command_id}` tells what became of it")
    else:
        typer.echo(f"ballast: rejected: {outcome.reason} (command {outcome.command_id})", err=True)
    if not outcome.accepted:
        raise typer.Exit(PROBLEM)
