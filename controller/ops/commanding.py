"""Sending one operator's command and telling what the journal answered. Exit code 1 when it was rejected."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from controller.bus.cluster import KafkaUnavailable
from controller.config.settings import Settings
from controller.ops.cli_options import PROBLEM, settings_of
from controller.ops.operator import Operator, Outcome
from controller.ops.reading import Reader
from controller.ops.show import emit_json

ANSWER_S = 30.0
CONNECT_S = 3.0


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
    """Send the command, wait for the answer, print it. Raises KafkaUnavailable, NoAnswer, typer.Exit on a rejection."""
    tell(answer_to(settings_of(conf, profile, sets), kind, why, timeout_s, args), kind, as_json)


def answer_to(settings: Settings, kind: str, why: str, timeout_s: float, args: Mapping[str, Any]) -> Outcome:
    """Send the command, wait for the answer. Raises KafkaUnavailable, NoAnswer."""
    Reader(settings)  # without tables nobody could answer: say that first
    check_reachable(settings.kafka.bootstrap_servers)
    with Operator(settings) as operator:
        return operator.run(kind, args, why, timeout_s)


def check_reachable(bootstrap: str) -> None:
    """Raise KafkaUnavailable at once when no address takes a connection: the client itself tries for half a minute."""
    reasons = []
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
            return
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
    raise KafkaUnavailable(
        f"no Kafka answers at {'; '.join(reasons)}; name it with --conf FILE or --set kafka.bootstrap_servers=HOST:PORT"
    )


def tell(outcome: Outcome, kind: str, as_json: bool, more: Mapping[str, Any] | None = None) -> None:
    """Print an outcome; ends with exit code 1 when the command was rejected. `more` is added to the JSON document."""
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
        typer.echo(f"accepted: {kind} {outcome.command_id}, journal seq {outcome.seq}")
    else:
        typer.echo(f"ballast: rejected: {outcome.reason} (command {outcome.command_id})", err=True)
    if not outcome.accepted:
        raise typer.Exit(PROBLEM)
