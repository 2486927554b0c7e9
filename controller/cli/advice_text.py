"""Prints an advice: brokers with their load, then every move and split with its reason, effect and command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from controller.backtest.advise.advice import Advice
from controller.cli.evidence_text import evidence_lines
from controller.cli.show import emit_table, emit_text, percent_text, rate_text, time_text
from controller.domain.errors import few_text
from controller.domain.load import MAKE_LOAD_KNOWN, RESOURCES
from controller.domain.reasons.words import describe_reason
from controller.operations.text import count_text

if TYPE_CHECKING:
    from controller.backtest.advise.rounds import ShadowRound

SHOWN_BROKERS = 50
_SHOWN_LEFT = 20
Row = Mapping[str, Any]


def print_advice(advice: Advice, notes: Sequence[str], limit: int = SHOWN_BROKERS) -> None:
    """Print everything, the notes last. `limit`: of brokers; those that give or get come first, then the most loaded
    ones."""
    _print_brokers(advice, limit)
    typer.echo("")
    if not advice.moves and not advice.splits:
        emit_text(f"nothing to move or split: {_why_nothing(advice)}")
    for what, rows in (("move", advice.moves), ("split", advice.splits)):
        if rows:
            typer.echo(count_text(len(rows), what) + (", in this order" if len(rows) > 1 else ""))
            for number, row in enumerate(rows, start=1):
                _print_action(number, row)
            typer.echo("")
    _print_left(advice.left)
    _print_earlier(advice)
    for note in notes:
        emit_text(f"- {note}")


def round_text(number: int, most: int, of: ShadowRound) -> str:
    """A round in one line: every broker's load, and whether it would act."""
    scores = ", ".join(f"{s['broker']} {percent_text(s['score']) or 'unknown'}" for s in of.result.scores)
    return f"round {number} of at most {most}: {scores}{'; it would act' if of.acts else ''}"


def _print_brokers(advice: Advice, limit: int) -> None:
    shown = _choose_brokers(advice, limit)
    known = [r for r in RESOURCES if any(row["utilisations"].get(r) is not None for row in advice.brokers)]
    emit_table(
        ["broker", "load >", "level >", "bundles >", "messages/s >", "bytes/s >", *(f"{r} >" for r in known),
         "verdict …"],
        [
            (
                row["broker"], percent_text(row["score"]) or "unknown", percent_text(row["mean"]), row["bundles"],
                rate_text(row["msg_rate"]), rate_text(row["throughput"]),
                *(percent_text(row["utilisations"].get(r)) for r in known),
                f"{row['reason']}: {row['words']}",
            )
            for row in shown
        ],
        title=f"at {time_text(advice.at_ms)} UTC, strategy {advice.strategy}, "
        f"after {count_text(advice.rounds, 'round')}",
    )  # fmt: skip
    if len(shown) < len(advice.brokers):
        typer.echo(f"{count_text(len(advice.brokers) - len(shown), 'more broker')}; --limit shows them")


def _choose_brokers(advice: Advice, limit: int) -> Sequence[Row]:
    """At most so many rows, in their order."""
    if len(advice.brokers) <= limit:
        return advice.brokers
    concerned = {row[party] for row in (*advice.moves, *advice.splits) for party in ("source", "target")}
    numbered = sorted(
        enumerate(advice.brokers),
        key=lambda one: (one[1]["broker"] not in concerned, one[1]["score"] is None, -(one[1]["score"] or 0.0)),
    )
    return [row for _, row in sorted(numbered[:limit], key=lambda one: one[0])]


def _print_action(number: int, row: Row) -> None:
    to = f" to {row['target']}" if row["target"] else ""
    what = "split, on" if row["kind"] == "split" else "from"
    typer.echo(f"\n{number}. {row['bundle']}  {what} {row['source']}{to}")
    emit_text(f"   why: {row['reason']}: {row['words']}")
    effects = [_effect(row, broker) for broker in (row["source"], row["target"]) if broker in row["before"]]
    if effects:
        emit_text(f"   effect: {', '.join(effects)}")
    evidence = "; ".join(evidence_lines(row["evidence"]))
    if evidence:
        emit_text(f"   evidence: {evidence}")
    if row["kind"] == "split":
        how = "where half of its load lies" if row["by_load"] else "in the middle of its range"
        emit_text(f"   at 0x{row['boundary']:08x}, {how}")
    if row["command"]:
        typer.echo(f"   {row['command']}")


def _effect(row: Row, broker: str) -> str:
    after = row["after"].get(broker)
    before = percent_text(row["before"][broker])
    return f"{broker} {before}" if after is None else f"{broker} {before} → {percent_text(after)}"


def _why_nothing(advice: Advice) -> str:
    if not advice.brokers:
        return "no broker was heard"
    if all(row["score"] is None for row in advice.brokers):
        return f"the load of no broker is known: {MAKE_LOAD_KNOWN}"
    by_reason: dict[str, list[str]] = {}  # without the figures of each, which the table has
    for row in advice.brokers:
        by_reason.setdefault(f"{row['reason']}, {describe_reason(row['reason'])}", []).append(row["broker"])
    if len(by_reason) == 1:
        return f"of every broker, {next(iter(by_reason))}"
    return "; ".join(f"{few_text(brokers)}: {words}" for words, brokers in by_reason.items())


def _print_left(left: Sequence[Row]) -> None:
    if not left:
        return
    emit_table(
        ["bundle", "broker", "because …"],
        [(row["bundle"], row["source"], f"{row['reason']}: {row['words']}") for row in left[:_SHOWN_LEFT]],
        title="wanted, and not done",
    )
    if len(left) > _SHOWN_LEFT:
        typer.echo(f"and {len(left) - _SHOWN_LEFT} more (--json has all)")
    typer.echo("")


def _print_earlier(advice: Advice) -> None:
    if advice.earlier and not advice.moves and not advice.splits:
        times = _few([time_text(one["at_ms"]) for one in advice.earlier])
        emit_text(f"Earlier rounds would have acted, at {times}; by now there is no reason left.\n")


def _few(texts: Sequence[str], most: int = 5) -> str:
    more = f" and {len(texts) - most} more times" if len(texts) > most else ""
    return ", ".join(texts[-most:]) + more


def describe_failures(failures: Mapping[str, BaseException]) -> Iterable[str]:
    """A note for every broker that gave no figures."""
    for broker, failure in sorted(failures.items()):
        yield f"{broker} is left out, as it gave no figures: {' '.join(str(failure).split())}"
