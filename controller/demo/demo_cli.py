"""`ballast demo`: a whole cluster on this machine that is skewed, split, extended and shot at, and audited."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from controller.clock import wall_ms
from controller.demo.figures import DemoFigures
from controller.demo.local_cluster import LocalCluster
from controller.demo.scenario import Scenario
from controller.demo.view import LiveView
from controller.domain.errors import BallastError, ConfigError
from controller.ops.cli_options import PROBLEM, USAGE, new_app
from controller.ops.paths import RUN

app = new_app()


@app.command()
def demo(
    brokers: Annotated[int, typer.Option(help="Reference brokers to start with.", min=2, max=50)] = 4,
    minutes: Annotated[float, typer.Option(help="About how long it may take, start-up not counted.", min=1)] = 5.0,
    headless: Annotated[bool, typer.Option("--headless", help="Lines of text instead of the live view.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one last JSON line.")] = False,
    folder: Annotated[Path | None, typer.Option("--dir", help="Where everything goes; new for each run.")] = None,
    sets: Annotated[list[str] | None, typer.Option("--set", help="section.key=value over the demo profile.")] = None,
) -> None:
    """Run the main job on embedded defaults and show what it does."""
    typed_ms = wall_ms()
    where = folder or RUN / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    console = Console(stderr=as_json)
    view = None if headless or not console.is_terminal else LiveView(console)
    with view or contextlib.nullcontext():
        tell = view.tell if view else _plain(console)
        try:
            figures = _run(where, brokers, minutes, sets or [], view, tell, typed_ms)
        except (BallastError, OSError) as error:
            usage = isinstance(error, ConfigError)
            typer.echo(f"ballast demo: {error}" + ("" if usage else f"; logs: {where}/logs"), err=True)
            raise typer.Exit(USAGE if usage else PROBLEM) from None
    if as_json:
        typer.echo(json.dumps(figures.to_json()))
    else:
        _summary(console, figures, where)
    raise typer.Exit(1 if figures.failed else 0)


def _run(
    where: Path,
    brokers: int,
    minutes: float,
    sets: list[str],
    view: LiveView | None,
    tell: object,
    typed_ms: int,
) -> DemoFigures:
    assert callable(tell)
    with LocalCluster(where, overrides=sets) as cluster:
        tell(f"starting Kafka, store, Spark job and {brokers} brokers in {where}")
        if view is not None:
            view.watch(cluster)
        cluster.up([f"broker-{i}" for i in range(1, brokers + 1)])
        return Scenario(cluster, minutes, tell, typed_ms).run()


def _plain(console: Console) -> object:
    started = time.monotonic()

    def tell(step: str) -> None:
        line = f"[{time.monotonic() - started:6.1f} s] {step}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    return tell


def _summary(console: Console, figures: DemoFigures, where: Path) -> None:
    for name, value in figures.to_json().items():
        console.print(f"{name:22} {value}", highlight=False, soft_wrap=True)
    console.print(
        f"\nlogs: {where / 'logs'}\n"
        "try next:\n"
        f"  {_as_typed()} decisions --conf {where / 'ballast.yaml'}\n"
        f"  {_as_typed()} explain broker-2 --conf {where / 'ballast.yaml'}\n"
        "  docs/sql.md and notebooks/01_operations.py, on the tables above",
        highlight=False,
        soft_wrap=True,
    )


def _as_typed() -> str:
    """The command as it can be typed here: by its path where `ballast` alone would not be found."""
    return "ballast" if shutil.which("ballast") else sys.argv[0]
