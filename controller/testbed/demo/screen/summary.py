"""The summary of a demo: balance, losses and moves, with explanations, and what to look at next."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from controller.domain.decision import Reason
from controller.domain.entries import Entry, Kind
from controller.process.paths import locate_shipped
from controller.testbed.demo.figures import DemoFigures
from controller.testbed.demo.screen.events import Swaps, broker_of, command_name

WIDTH = 80


def summary_lines(figures: DemoFigures, took_s: float) -> Iterator[str]:
    """The figures, each with an explanation; lines fit 80 columns."""
    yield f"The demo took {took_s:.0f} s and {figures.rounds} rounds. {_verdict(figures)}"
    yield ""
    yield from _balance(figures)
    yield f"messages    {figures.messages_written:,} written, {figures.messages_read:,} read"
    yield "              read > written: some topics have several subscriptions"
    yield f"            {figures.redelivered:,} redelivered"
    if figures.redelivered:
        yield "              delivered again, as nobody had confirmed them before a hand-over"
    splits = f"{figures.splits} split{'' if figures.splits == 1 else 's'}"
    yield f"moves       {figures.transfers} transfers and {splits} completed"
    yield f"hand-overs  {_handovers(figures)}"
    if figures.handover_beyond_interval_p50_ms is not None:
        usual = figures.sending_interval_p50_ms or 0.0
        yield f"              pause beyond the producer's own sending interval (median {usual:.0f} ms)"
    if figures.skew_to_relief_s is not None:
        yield f"relief      {figures.skew_to_relief_s:g} s from the first skew to a round without a hot broker"
    yield f"failover    {_failover(figures)}"


def next_lines(where: Path, asked: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What to type next about what happened in this run."""
    yield f"tables, logs and configuration: {where}"
    yield f"look around: export BALLAST_CONF={shlex.quote(str(where / 'ballast.yaml'))}"
    command = command_name()
    for name, about in asked:
        yield f"  {command} explain {name}"
        yield f"      {about}"
    yield f"  {command} decisions"
    yield f"  {command} ui"
    yield "      the page again, on these tables"
    yield f"  {locate_shipped('docs/sql.md and notebooks/01_operations.py')}, on its tables"


def choose_questions(entries: Sequence[Entry], hot: str, victim: str, swaps: Swaps) -> list[tuple[str, str]]:
    """Ids to ask `explain` about, with a description: the first move after the skew, a swap, the failover."""
    moves = [e for e in entries if e.kind is Kind.OWNERSHIP and e.state == "transferring" and e.decision_id]
    found = []
    first = next((e for e in moves if broker_of(e.by) == hot), None)
    if first is not None:
        found.append((str(first.decision_id), f"why this bundle left {hot} for {broker_of(first.to)}"))
    for entry in moves:
        halves = swaps(str(entry.decision_id).rpartition("-")[0])
        half = halves.get(str(entry.decision_id))
        if half is not None and half.returning:
            about = f"why this one went to {broker_of(entry.to)} in return for another"
            found.append((str(entry.decision_id), about))
            break
    taken = [e for e in entries if e.kind is Kind.OWNERSHIP and e.state == "assigning"]
    orphan = next((e for e in taken if e.reason == Reason.ORPHANED.value), None)
    if orphan is not None:
        about = f"how {broker_of(orphan.to)} came by what {victim} had"
        found.append((str(orphan.decision_id or orphan.bundle), about))
    return found


def _verdict(figures: DemoFigures) -> str:
    if not figures.failed:
        return "Nothing lost, doubled or reordered."
    counts = {
        "lost": figures.messages_lost,
        "stored twice": figures.messages_duplicated,
        "reordered": figures.messages_reordered,
    }
    losses = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"FAILED: {losses or 'an invariant broke'}; {figures.invariants}"


def _balance(figures: DemoFigures) -> Iterator[str]:
    if figures.calm:
        yield f"balance     calm {figures.calm_after_s:g} s after the last event: nothing left to do for the balancer"
    else:
        yield "balance     NOT calm at the end:"
        for why in figures.not_calm:
            yield from textwrap.wrap(why, WIDTH, initial_indent=" " * 14, subsequent_indent=" " * 16)
    yield from (f"            {line}" for line in _spread(figures))


def _spread(figures: DemoFigures) -> Iterator[str]:
    if figures.spread_before is None or figures.spread_after is None:
        yield "no round knew any load"
        return
    low, high = (f"{100 * at(figures.scores_after.values()):.0f} %" for at in (min, max))
    worst, last = (f"{100 * spread:.0f}" for spread in (figures.spread_before, figures.spread_after))
    yield f"brokers {low} to {high} busy at the end:"
    yield f"{last} points between the busiest and the idlest; {worst} when it was worst"


def _handovers(figures: DemoFigures) -> str:
    if figures.handover_beyond_interval_p50_ms is None:
        return f"{figures.handovers_measured} measured by producers"
    median, most = figures.handover_beyond_interval_p50_ms, figures.handover_beyond_interval_max_ms or 0.0
    return f"{figures.handovers_measured} seen by producers: median {median:.0f} ms, at most {most:.0f} ms"


def _failover(figures: DemoFigures) -> str:
    if figures.failover_s is None:
        return "not seen in time"
    return f"{figures.failover_s:g} s from SIGKILL until all was served again, the lease included"
