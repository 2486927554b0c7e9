"""`ballast decide`: runs a strategy as a filter, one JSON object per line in and out. No cluster needed.

One line is one round. The answer to an invalid line is `{"error": …}`; the stream and the state from earlier lines
continue. The three times of an answer add up to the time spent on its line, except for printing it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, BinaryIO, TextIO

import typer

from controller.cli.choices import strategy_names
from controller.cli.options import Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.config.policy_values import policy_settings
from controller.decide.line import parse_line
from controller.decide.session import DecideSession
from controller.domain.decision import Decision, DecisionKind
from controller.domain.errors import BadRecord, BallastError
from controller.domain.reasons.words import describe_decision
from controller.process.memory import settle_memory

app = new_app()

Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", help="The strategy in charge; by default rounds.strategy.", autocompletion=strategy_names
    ),
]
NoSplit = Annotated[bool, typer.Option("--no-split", help="Do not split bundles.")]


@app.command()
@report_errors
def decide(
    strategy: Strategy = None, conf: Conf = None, profile: Profile = None, sets: Sets = None, no_split: NoSplit = False
) -> None:
    """Read one JSON object per line from standard input; write one line of decisions for each."""
    loaded = settings_of(conf, profile, sets)
    settings = policy_settings(loaded)
    if no_split:
        settings = replace(settings, split=replace(settings.split, enabled=False))
    session = DecideSession(strategy or settings.strategy, settings)
    typer.echo(f"ballast decide: configuration: {loaded.description}", err=True)  # stdout only carries answers
    settle_memory()
    try:
        answer_lines(session, sys.stdin.buffer, sys.stdout, time.perf_counter)
    except BrokenPipeError:  # the reader has gone
        sys.stdout = None  # otherwise its last flush fails


def answer_lines(session: DecideSession, lines: BinaryIO, out: TextIO, clock_s: Callable[[], float]) -> None:
    """Answer every line in order, as it arrives."""
    for raw in iter(lines.readline, b""):
        began_s = clock_s()
        out.write(json.dumps(answer(session, raw, began_s, clock_s), allow_nan=False) + "\n")
        out.flush()


def answer(session: DecideSession, raw: bytes, began_s: float, clock_s: Callable[[], float]) -> dict[str, Any]:
    """The answer to one line; an invalid line gets an error."""
    try:
        line = parse_line(raw)
        parsed_s = clock_s()
        snapshot = session.snapshot(line)
        seen_s = clock_s()
        decisions = session.decide(snapshot)
    except BallastError as error:
        return {"error": error.text if isinstance(error, BadRecord) else str(error)}
    except Exception as error:  # a bug in Ballast costs this line, not the stream
        return {"error": f"{type(error).__name__}: {error}: this is a fault of ballast decide; please report the line"}
    document = decision_rows(decisions)
    ended_s = clock_s()
    return {
        **document,
        "parse_ms": _ms(parsed_s - began_s),
        "snapshot_ms": _ms(seen_s - parsed_s),
        "decide_ms": _ms(ended_s - seen_s),
    }


def decision_rows(decisions: Sequence[Decision]) -> dict[str, list[dict[str, Any]]]:
    """The decisions to carry out, in order, and the skips."""
    done = [d for d in decisions if d.kind is not DecisionKind.SKIP]
    skips = [d for d in decisions if d.kind is DecisionKind.SKIP]
    return {"decisions": [_row(d) for d in done], "skips": [_row(d) for d in skips]}


def _row(decision: Decision) -> dict[str, Any]:
    row: dict[str, Any] = {
        "kind": decision.kind.value,
        "bundle": decision.bundle,
        "from": decision.source,
        "to": decision.target,
        "reason": decision.reason.value,
        "why": describe_decision(decision),
    }
    if decision.kind is DecisionKind.SPLIT:
        row["boundary"] = decision.boundary
    return row


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
