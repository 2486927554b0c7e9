"""Sends an operator's command and prints the journal's answer. Exit code 1 if the command was rejected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from controller.bus.cluster import check_reachable
from controller.bus.topic_owner import newest_owner
from controller.bus.topics import TopicNames
from controller.cli.options import PROBLEM, settings_of
from controller.cli.show import emit_json
from controller.config.settings import Settings
from controller.domain.errors import BallastError
from controller.domain.state import is_foreign
from controller.operations.operator import Operator, Outcome
from controller.operations.reading import Reader
from controller.service.topic_claim import is_at

ANSWER_S = 30.0
READ_MS = 10_000  # longest wait for the record that says whose topics these are


class ForeignTopics(BallastError):
    """Raised for a command to topics that belong to another journal."""


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


def send_and_wait(settings: Settings, kind: str, why: str, timeout_s: float, args: Mapping[str, Any]) -> Outcome:
    """Send a command and wait for the answer. Raises KafkaUnavailable, ForeignTopics, NoAnswer."""
    Reader(settings)  # fails early without tables, as nothing could answer
    check_reachable(settings.kafka.bootstrap_servers)
    with Operator(settings) as operator:
        refuse_if_foreign(settings, operator.follower.state.journal_id)
        return operator.run(kind, args, why, timeout_s)


def refuse_if_foreign(settings: Settings, ours: str | None) -> None:
    """Raise ForeignTopics if the topics belong to another journal, according to the record of their owner.

    That journal's controller would ignore the command, and no other controller may read it.
    """
    kafka = settings.kafka
    topic = TopicNames(kafka.topic_prefix).owner
    owner = newest_owner(kafka.bootstrap_servers, topic, kafka.client, READ_MS)
    if owner is None or (ours is None and is_at(owner, settings.tables.root)):
        return  # no controller has started yet, or the one of these very tables is starting
    if ours is None or is_foreign(ours, owner.journal_id):
        held = f"are journal {ours}" if ours else "hold no journal"
        raise ForeignTopics(
            f"nothing was sent: the topics{kafka.topic_prefix and f' {kafka.topic_prefix}*'} at "
            f"{kafka.bootstrap_servers} are those of {owner.text}, the tables at {settings.tables.root} {held}: name "
            "the tables that are meant with --conf FILE or --set tables.root=PATH, or another kafka.topic_prefix"
        )


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
        typer.echo(f"accepted: {kind} {outcome.command_id}, journal seq {outcome.seq}")
    else:
        typer.echo(f"ballast: rejected: {outcome.reason} (command {outcome.command_id})", err=True)
    if not outcome.accepted:
        raise typer.Exit(PROBLEM)
