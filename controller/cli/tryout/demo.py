"""`ballast demo`: runs a whole cluster on this machine: skew, split, new broker, killed broker, a final check."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from controller.cli.options import PROBLEM, USAGE, new_app
from controller.config.load import load_settings
from controller.config.variables import ENV_CONF
from controller.domain.entries import Kind
from controller.domain.errors import BallastError, ConfigError
from controller.operations.reading import Reader
from controller.operations.stopped import DEMO
from controller.process.clock import wall_ms
from controller.process.interrupts import note_interrupts
from controller.process.paths import RUN, make_folder
from controller.testbed.demo.figures import DemoFigures
from controller.testbed.demo.pictures import NoPictures, take_pictures
from controller.testbed.demo.scenario import LEAST_S, RELIEF_S, Highlights, Scenario
from controller.testbed.demo.screen.base import Watching
from controller.testbed.demo.screen.events import swaps_in
from controller.testbed.demo.screen.plain import PlainLines
from controller.testbed.demo.screen.summary import choose_questions, next_lines, summary_lines
from controller.testbed.demo.screen.view import LiveView
from controller.testbed.local_cluster import LocalCluster, check_unused

app = new_app()
MINUTES = (
    f"Each act waits at most a quarter of it for its effect, or {LEAST_S:g} s (for relief {RELIEF_S:g} s) if that is "
    "more. The demo ends once the balancer is calm, so it may take longer."
)


@app.command()
def demo(
    brokers: Annotated[int, typer.Option(help="Number of reference brokers at the start.", min=2, max=50)] = 4,
    minutes: Annotated[float, typer.Option(help=MINUTES, min=1)] = 5.0,
    headless: Annotated[bool, typer.Option("--headless", help="Lines of text instead of the live view.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one last JSON line.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder for all data, new or empty; by default a new one.")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="Override a value of the demo profile: section.key=value.")
    ] = None,
) -> None:
    """Run the job with a local Kafka and reference brokers, and show what it does."""
    typed_ms, typed_s = wall_ms(), time.monotonic()
    where = folder or RUN / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    console = Console(stderr=as_json)
    drawn = console.is_terminal and not console.is_dumb_terminal and not headless
    screen: Watching = LiveView(console) if drawn else PlainLines(console)
    try:
        check_unused(where)
        # what cannot be is told before anything starts; the demo does not read the file of another cluster
        load_settings(None, DEMO, sets or [], env={**os.environ, ENV_CONF: ""})
        make_folder(where, f"--dir {where}")
        # the screen closes before anything else is printed, or the live view would overwrite it
        with note_interrupts(), screen:
            figures, asked = _run(where, brokers, minutes, sets or [], screen, typed_ms, pictured=not drawn)
    except (BallastError, OSError) as error:
        usage = isinstance(error, ConfigError)
        typer.echo(f"ballast demo: {error}" + ("" if usage else f"; logs: {where}/logs"), err=True)
        raise typer.Exit(USAGE if usage else PROBLEM) from None
    if as_json:
        typer.echo(json.dumps(figures.to_json()))
    else:
        lines = [*summary_lines(figures, time.monotonic() - typed_s), "", *next_lines(where.resolve(), asked)]
        console.print("\n" + "\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    raise typer.Exit(1 if figures.failed else 0)


def _run(
    where: Path, brokers: int, minutes: float, sets: list[str], screen: Watching, typed_ms: int, pictured: bool
) -> tuple[DemoFigures, list[tuple[str, str]]]:
    with LocalCluster(where, overrides=sets, tell=screen.doing) as cluster:
        screen.act(f"starting Kafka, store, Spark job and {brokers} brokers in {where}")
        screen.watch(cluster)
        addresses: list[str] = []

        def say(url: str) -> None:
            addresses.append(url)
            screen.say([f"watch it in a browser: {url}"])

        def picture(figures: DemoFigures) -> None:
            if pictured:
                figures.pictures = _take_pictures(cluster, addresses[0], where / "pictures", screen)

        cluster.up([f"broker-{i}" for i in range(1, brokers + 1)], on_page=say)
        scenario = Scenario(cluster, minutes, screen, typed_ms, at_rest=picture)
        figures = scenario.run()
        asked = _choose_questions(cluster, scenario.highlights)
        screen.act("done; everything is stopped")
    return figures, asked


def _take_pictures(cluster: LocalCluster, address: str, folder: Path, screen: Watching) -> list[str]:
    """Three views of the page as files: now, the newest round with moves, the map."""
    moved = [e.data["round_id"] for e in cluster.entries if e.kind is Kind.ROUND and e.data["counts"].get("transfer")]
    views = {"now": "/now", "round": f"/round/{moved[-1]}" if moved else "/rounds", "map": "/map"}
    try:
        files = take_pictures(address, views, folder)
    except NoPictures as error:
        screen.say([f"no pictures of the page: {error}"])
        return []
    screen.say([f"pictures of the page: {', '.join(str(file) for file in files)}"])
    return [str(file) for file in files]


def _choose_questions(cluster: LocalCluster, seen: Highlights) -> list[tuple[str, str]]:
    swaps = swaps_in(lambda: Reader(cluster.settings))
    return choose_questions(seen.entries, seen.hot, seen.victim, swaps)
