"""`ballast kafka up|down|status|acls`: a local Kafka that outlives the command; rights on any Kafka."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.bus.cluster import cluster_id
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.cli.options import new_group
from controller.cli.run.kafka_acls import acls
from controller.domain.errors import ConfigError
from controller.process.detached import RUNNING
from controller.process.paths import RUN, check_folder
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.kafka_cluster.cluster import KafkaCluster

app = new_group("A local Kafka from the project's JARs, of one node or several; and the rights that Ballast needs.")
app.command()(acls)
Folder = Annotated[Path, typer.Option("--dir", help="Folder with its settings, data, logs and pids.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]
DEFAULT_FOLDER = RUN / "kafka"


@app.command()
def up(
    folder: Folder = DEFAULT_FOLDER,
    nodes: Annotated[
        int | None,
        typer.Option(help="Number of nodes: 1, 3 or 5; 1 for a new folder.", min=1, max=5, show_default=False),
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="TLS, a login and ACLs for each principal; files in `logins`.")
    ] = False,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", help="With --secure: a further login, without rights; repeatable.", show_default=False),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            help="Port for clients, of the first node; 0 chooses free ones at the first start.", min=0, max=65_535
        ),
    ] = 0,
    prefix: Annotated[str, typer.Option(help="Prefix of the topic names, as in kafka.topic_prefix.")] = "",
    as_json: AsJson = False,
) -> None:
    """Start Kafka in the background, unless it runs already, and create the topics; `ballast kafka down` stops it."""
    check_folder(folder, f"--dir {folder}")
    names, cluster = TopicNames(prefix), KafkaCluster(folder)
    asked = (nodes or 1) > 1 or secure or bool(user)
    if not (asked or cluster.exists):
        kafka = EmbeddedKafka(folder, port=port)
        with _telling_interrupt(folder, lambda: kafka.pid is not None):
            kafka.start()
            ensure_topics(kafka.bootstrap, live_topics(names))
            _print_facts(_facts_of(kafka), as_json)
        return
    if (folder / "server.properties").exists():
        raise ConfigError(f"{folder} holds a single Kafka without logins: give another --dir")
    if cluster.exists:  # what is not said stays as it is
        known = cluster.spec
        cluster.create(nodes or len(known.nodes), secure or known.secure, user or known.users, port)
    else:
        cluster.create(nodes or 1, secure, user or (), port)
    with _telling_interrupt(folder, lambda: RUNNING in cluster.states().values()):
        cluster.start()
        cluster.prepare(names, live_topics(names))
        _print_facts(cluster.facts(), as_json)


@app.command()
def down(folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop Kafka; its data is kept."""
    cluster = KafkaCluster(folder)
    stopped = cluster.stop() if cluster.exists else EmbeddedKafka(folder).stop()
    typer.echo("stopped" if stopped else "was not running")


@app.command()
def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Show whether and where Kafka runs; exit code 1 if it does not, or not all of it."""
    cluster = KafkaCluster(folder)
    facts = cluster.facts() if cluster.exists else _facts_of(EmbeddedKafka(folder))
    _print_facts(facts, as_json)
    if not facts["up"]:
        raise typer.Exit(1)


@contextmanager
def _telling_interrupt(folder: Path, runs: Callable[[], bool]) -> Iterator[None]:
    """Start Kafka within; Ctrl-C says whether it runs now, as it may have run before."""
    try:
        yield
    except KeyboardInterrupt:
        left = (
            f"Kafka runs: `ballast kafka down --dir {shlex.quote(str(folder))}` stops it" if runs() else "no Kafka runs"
        )
        typer.echo(f"ballast: interrupted; {left}", err=True)
        raise


def _facts_of(kafka: EmbeddedKafka) -> dict[str, Any]:
    facts: dict[str, Any] = {"up": False, "dir": str(kafka.folder)}
    if kafka.pid is not None:
        facts |= {
            "up": True,
            "pid": kafka.pid,
            "bootstrap_servers": kafka.bootstrap,
            "cluster_id": cluster_id(kafka.bootstrap),
            "log": str(kafka.log_file),
        }
    return facts


def _print_facts(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        shown = ", ".join(f"{name} {state}" for name, state in value.items()) if isinstance(value, dict) else value
        typer.echo(f"{key}: {shown}")
