"""`ballast kafka up|down|status`: a local Kafka that outlives the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from controller.bus.cluster import cluster_id
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.cli.options import new_group
from controller.process.paths import RUN
from controller.testbed.kafka import EmbeddedKafka

app = new_group("A local single-node Kafka from the project's JARs.")
Folder = Annotated[Path, typer.Option("--dir", help="Folder with its settings, data, log and pid.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
DEFAULT_FOLDER = RUN / "kafka"


@app.command()
def up(
    folder: Folder = DEFAULT_FOLDER,
    port: Annotated[
        int, typer.Option(help="Listener port; 0 chooses a free one at the first start.", min=0, max=65_535)
    ] = 0,
    prefix: Annotated[str, typer.Option(help="Prefix of the topic names.")] = "",
    as_json: AsJson = False,
) -> None:
    """Start Kafka, unless it runs already, and create the topics."""
    kafka = EmbeddedKafka(folder, port=port)
    kafka.start()
    ensure_topics(kafka.bootstrap, live_topics(TopicNames(prefix)))
    _print_facts(kafka, as_json)


@app.command()
def down(folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop Kafka; its data is kept."""
    typer.echo("stopped" if EmbeddedKafka(folder).stop() else "was not running")


@app.command()
def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Show whether and where Kafka runs; exit code 1 if it does not."""
    kafka = EmbeddedKafka(folder)
    _print_facts(kafka, as_json)
    if kafka.pid is None:
        raise typer.Exit(1)


def _print_facts(kafka: EmbeddedKafka, as_json: bool) -> None:
    facts = {"up": False, "dir": str(kafka.folder)}
    if kafka.pid is not None:
        facts |= {
            "up": True,
            "pid": kafka.pid,
            "bootstrap_servers": kafka.bootstrap,
            "cluster_id": cluster_id(kafka.bootstrap),
            "log": str(kafka.log_file),
        }
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        typer.echo("\n".join(f"{key}: {value}" for key, value in facts.items()))
