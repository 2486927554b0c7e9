"""`ballast pulsar demo`: a real Pulsar cluster on this machine; Ballast watches, is let act, and balances it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from controller.cli.choices import load_managers
from controller.cli.options import PROBLEM, USAGE
from controller.domain.errors import BallastError, ConfigError
from controller.process.interrupts import note_interrupts
from controller.process.paths import RUN
from controller.testbed.pulsar.distribution import pulsar_version
from controller.testbed.pulsar.spec import make_spec

if TYPE_CHECKING:
    from controller.testbed.pulsar.demo.figures import PulsarDemoFigures

BASE_PORT = 18_200  # beside a cluster of `ballast pulsar dev`


def demo(
    manager: Annotated[
        str, typer.Option(help="Load manager of the cluster: modular or extensible.", autocompletion=load_managers)
    ] = "modular",
    headless: Annotated[bool, typer.Option("--headless", help="Lines of text instead of the live view.")] = False,
    short: Annotated[bool, typer.Option("--short", help="End once the first skew is relieved.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one last JSON line.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder for all data, new or empty; by default a new one.")
    ] = None,
    base_port: Annotated[
        int, typer.Option(help="ZooKeeper's port; the others are the next 99 at most.", min=1_024, max=65_400)
    ] = BASE_PORT,
) -> None:
    """Start three real brokers with clients; let Ballast watch a skew, adopt the cluster and act. Ten minutes."""
    from controller.testbed.pulsar.demo.run import run_demo  # tables and Kafka, which `ballast pulsar` is quick without

    began_s = time.monotonic()
    where = folder or RUN / f"pulsar-demo-{time.strftime('%Y%m%d-%H%M%S')}"
    console = Console(stderr=as_json)
    drawn = console.is_terminal and not console.is_dumb_terminal and not headless
    try:
        spec = make_spec(pulsar=pulsar_version(), manager=manager, base_port=base_port)
        with note_interrupts():
            figures = run_demo(where, spec, console, drawn=drawn, short=short)
    except (BallastError, OSError) as error:
        usage = isinstance(error, ConfigError)
        typer.echo(f"ballast pulsar demo: {error}" + ("" if usage else f"; logs: {where}"), err=True)
        raise typer.Exit(USAGE if usage else PROBLEM) from None
    figures.took_s = round(time.monotonic() - began_s, 1)
    if as_json:
        typer.echo(json.dumps(figures.to_json()))
    else:
        lines = [*_summary(figures), "", f"tables, logs and configuration: {where}"]
        console.print("\n" + "\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(0 if figures.clean else PROBLEM)


def _summary(figures: PulsarDemoFigures) -> Iterator[str]:
    """The figures, each with an explanation."""
    lost = f"{figures.lost} lost, {figures.reordered} out of order, {figures.duplicated} stored twice by Pulsar"
    yield f"The demo took {figures.took_s:.0f} s; a round every {figures.round_interval_s} s, {figures.rounds} in all."
    yield f"messages   {figures.sent:,} sent, {figures.received:,} received; {lost}"
    yield f"balance    busiest broker / mean: {figures.spread_before} when skewed, {figures.spread_after} at the end"
    first_s, relief_s = figures.skew_to_first_move_s, figures.skew_to_relief_s
    yield f"first move {first_s} s after Ballast was let act; balanced after {relief_s} s"
    yield f"orders     {', '.join(f'{count} {outcome}' for outcome, count in sorted(figures.orders.items())) or 'none'}"
    if figures.move_gap_ms:
        gap = figures.move_gap_ms
        yield f"a move     publishers wait {gap['p50']} ms longer than usual (median), at most {gap['max']} ms"
    if figures.kill_gap_ms is not None:
        yield f"the crash  publishers of the killed broker's topics wait up to {figures.kill_gap_ms} ms"
    yield from (f"not seen in time: {what}" for what in figures.not_seen)
