"""`ballast spark up|down|status`: a local Spark standalone cluster that outlives the command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import AsJson, new_group, report_errors
from controller.cli.show import emit_facts, emit_json
from controller.process.paths import RUN, check_folder
from controller.testbed.spark_cluster import SparkCluster

app = new_group("A local Spark standalone cluster from the installed PySpark, for trying out.")
Folder = Annotated[Path, typer.Option("--dir", help="Folder with its settings, logs and pids.")]
DEFAULT_FOLDER = RUN / "spark"


@app.command()
@report_errors
def up(
    folder: Folder = DEFAULT_FOLDER,
    workers: Annotated[int, typer.Option(help="Number of workers.", min=1, max=64)] = 2,
    cores: Annotated[int, typer.Option(help="Cores of each worker.", min=1)] = 1,
    memory_mb: Annotated[int, typer.Option(help="Memory that each worker gives to executors.", min=512)] = 1024,
    python: Annotated[
        Path, typer.Option(help="Interpreter of the workers' environment.", show_default="this one")
    ] = Path(sys.executable),
    user: Annotated[str, typer.Option(help="User that the workers run as.", show_default="you")] = "",
    port: Annotated[int, typer.Option(help="Port of the master; 0 chooses a free one.", min=0, max=65_535)] = 0,
    as_json: AsJson = False,
) -> None:
    """Start the master and its workers on 127.0.0.1, unless they run already."""
    check_folder(folder, f"--dir {folder}")
    cluster = SparkCluster(folder)
    cluster.create(workers, cores, memory_mb, python.absolute(), user, port)
    cluster.up()
    _print_facts(cluster, as_json)


@app.command()
@report_errors
def down(folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop workers and master."""
    typer.echo("stopped" if SparkCluster(folder).down() else "was not running")


@app.command()
@report_errors
def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Show the master and its workers; exit code 1 if the master does not run."""
    cluster = SparkCluster(folder)
    _print_facts(cluster, as_json)
    if not cluster.facts()["up"]:
        raise typer.Exit(1)


def _print_facts(cluster: SparkCluster, as_json: bool) -> None:
    facts = cluster.facts()
    if as_json:
        emit_json(facts)
        return
    processes = [f"{name} {state}" for name, state in facts["processes"].items()]
    workers = [f"{w['id']}: {w['cores_used']} of {w['cores']} cores used" for w in facts["workers"]]
    emit_facts({**facts, "processes": ", ".join(processes), "workers": "; ".join(workers) or "none"}.items())
