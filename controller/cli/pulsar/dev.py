"""`ballast pulsar dev up|down|status`: a real Pulsar cluster on this machine, and what can happen to its servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from controller.cli.choices import authentications, load_managers
from controller.cli.options import AsJson, new_group, report_errors
from controller.cli.pulsar.dev_traffic import traffic
from controller.cli.show import emit_facts, emit_json, emit_table
from controller.domain.errors import ConfigError
from controller.operations.text import count_text
from controller.process.interrupts import note_interrupts
from controller.process.paths import RUN, check_folder
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.credentials import ADMIN
from controller.testbed.pulsar.distribution import pulsar_version
from controller.testbed.pulsar.spec import DEFAULT_BASE_PORT, MOST_BROKERS, NIC_GBPS, ClusterSpec, make_spec, read_spec
from controller.testbed.pulsar.status import read_status, status_document

app = new_group("A real Apache Pulsar cluster on this machine, to try Ballast on.")
app.command()(traffic)
DEFAULT_FOLDER = RUN / "pulsar"
DEFAULT_BROKERS, DEFAULT_BUNDLES = 3, 16

Folder = Annotated[Path, typer.Option("--dir", help="Folder with its settings, data, logs and pids.")]
Server = Annotated[str, typer.Argument(help="Name of the server, such as broker2, bookie or zookeeper.")]


@app.command()
@report_errors
def up(
    folder: Folder = DEFAULT_FOLDER,
    brokers: Annotated[
        int | None, typer.Option("--brokers", "-n", help="Number of brokers [default: 3].", min=1, max=MOST_BROKERS)
    ] = None,
    manager: Annotated[
        str | None,
        typer.Option(help="Load manager: modular or extensible [default: modular].", autocompletion=load_managers),
    ] = None,
    base_port: Annotated[
        int | None,
        typer.Option(
            help=f"ZooKeeper's port; the other ports are the next 99 at most [default: {DEFAULT_BASE_PORT}].",
            min=1_024,
            max=65_400,
        ),
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="A setting for broker.conf: KEY=VALUE; repeatable.")
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(
            help="Authentication and authorization: none, token or tls [default: none].", autocompletion=authentications
        ),
    ] = None,
    tls: Annotated[bool | None, typer.Option("--tls", help="TLS only, with an authority of its own.")] = None,
    cpu_quota: Annotated[
        float | None,
        typer.Option(help="Cores that the brokers share, each in a cgroup with an equal part.", show_default=False),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Create this namespace, such as demo/load.", show_default=False)
    ] = None,
    bundles: Annotated[int, typer.Option(help="Bundles of that namespace.", min=1)] = DEFAULT_BUNDLES,
    as_json: AsJson = False,
) -> None:
    """Start a cluster, or whatever of it does not run. The options of the first start stay with the folder."""
    count = brokers or DEFAULT_BROKERS
    choices: dict[str, Any] = {
        "brokers": tuple(range(1, count + 1)) if brokers else None,
        "manager": manager,
        "base_port": base_port,
        "settings": _settings(sets) if sets else None,
        "auth": auth,
        "tls": tls,
        "broker_cores": cpu_quota / count if cpu_quota else None,
    }
    given = {name: value for name, value in choices.items() if value is not None}
    _check_namespace(namespace)
    check_folder(folder, f"--dir {folder}")
    cluster = PulsarCluster(folder, _spec(folder, given), _tell)
    with note_interrupts():
        started = cluster.up()
    if namespace:
        made = cluster.admin.create_namespace(cluster.spec.broker_names[0], namespace, bundles)
        _tell(f"namespace {namespace} " + (f"has {count_text(bundles, 'bundle')}" if made else "existed"))
    if as_json:
        emit_json(status_document(cluster, read_status(cluster)))
        return
    typer.echo(f"started {', '.join(started)}" if started else f"the cluster in {cluster.folder} runs already")
    _print_addresses(cluster, namespace)


@app.command()
@report_errors
def down(
    folder: Folder = DEFAULT_FOLDER,
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove data, logs and settings, too.")] = False,
) -> None:
    """Stop the cluster, brokers first; its data are kept."""
    if read_spec(folder) is None:
        typer.echo("was not running")
        return
    cluster = PulsarCluster.open(folder, _tell)
    stopped = cluster.down(wipe)
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else "was not running")
    if wipe:
        typer.echo(f"removed what it had in {cluster.folder}")


@app.command()
@report_errors
def status(folder: Folder = DEFAULT_FOLDER, as_json: AsJson = False) -> None:
    """Show every server; exit code 1 if one does not serve."""
    cluster = PulsarCluster.open(folder)
    rows = read_status(cluster)
    if as_json:
        emit_json(status_document(cluster, rows))
    else:
        emit_table(
            ["server", "state", "serves", "listed", "bundles >", "pid >", "client port >", "web port >", "memory >"],
            [
                [
                    row.server,
                    row.state,
                    _yes_no(row.serving),
                    _yes_no(row.listed),
                    row.bundles,
                    row.pid,
                    row.client_port,
                    row.web_port,
                    f"{row.memory_bytes / 2**20:.0f} MiB" if row.memory_bytes else None,
                ]
                for row in rows
            ],
        )
    if not all(row.serving for row in rows):
        raise typer.Exit(1)


@app.command()
@report_errors
def add(folder: Folder = DEFAULT_FOLDER) -> None:
    """Add a broker to the cluster and start it."""
    with note_interrupts():
        name = PulsarCluster.open(folder, _tell).add_broker()
    typer.echo(f"added {name}")


@app.command()
@report_errors
def remove(server: Server, folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop a broker for good."""
    PulsarCluster.open(folder, _tell).remove_broker(server)
    typer.echo(f"removed {server}")


@app.command()
@report_errors
def start(server: Server, folder: Folder = DEFAULT_FOLDER) -> None:
    """Start one server that does not run."""
    with note_interrupts():
        PulsarCluster.open(folder, _tell).start(server)


@app.command()
@report_errors
def restart(server: Server, folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop one server and start it again."""
    with note_interrupts():
        PulsarCluster.open(folder, _tell).restart(server)


@app.command()
@report_errors
def stop(server: Server, folder: Folder = DEFAULT_FOLDER) -> None:
    """Stop one server with SIGTERM; a broker hands over its bundles first."""
    _do(PulsarCluster.open(folder).stop, server, "stopped")


@app.command()
@report_errors
def kill(server: Server, folder: Folder = DEFAULT_FOLDER) -> None:
    """Kill one server with SIGKILL, like a crash."""
    _do(PulsarCluster.open(folder).kill, server, "killed")


@app.command()
@report_errors
def pause(server: Server, folder: Folder = DEFAULT_FOLDER) -> None:
    """Pause one server with SIGSTOP: it keeps its connections and answers nothing."""
    _do(PulsarCluster.open(folder).pause, server, "paused")


@app.command()
@report_errors
def resume(server: Server, folder: Folder = DEFAULT_FOLDER) -> None:
    """Let a paused server go on."""
    _do(PulsarCluster.open(folder).resume, server, "resumed")


def _do(act: Callable[[str], bool], server: str, done: str) -> None:
    typer.echo(f"{server} {done}" if act(server) else f"{server} was not running")


def _spec(folder: Path, given: dict[str, Any]) -> ClusterSpec:
    """What the user asks for: the choices given, and for the rest the folder's cluster or the defaults."""
    stored = read_spec(folder)
    known = stored.model_dump() if stored else {"pulsar": pulsar_version()}
    return make_spec(**{**known, **given})


def _settings(sets: list[str]) -> dict[str, str]:
    settings = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text.partition('=')[0]!r}: needed is KEY=VALUE")
        settings[key.strip()] = value.strip()
    return settings


def _check_namespace(namespace: str | None) -> None:
    if namespace is not None and (namespace.count("/") != 1 or not all(namespace.split("/"))):
        raise ConfigError(f"--namespace {namespace!r}: needed is TENANT/NAMESPACE, such as demo/load")


def _print_addresses(cluster: PulsarCluster, namespace: str | None) -> None:
    spec, credentials = cluster.spec, cluster.servers.credentials
    emit_facts(
        [
            ("Pulsar", f"{spec.pulsar}, {spec.manager} load manager, brokers: {len(spec.brokers)}"),
            ("folder", cluster.folder),
            ("service URL", ",".join(cluster.web_urls)),
            ("clients", cluster.client_url),
            ("token", credentials.token(ADMIN) if spec.auth == "token" else None),
            ("certificate", credentials.certificate(ADMIN)[0] if spec.auth == "tls" else None),
            ("authority", credentials.authority if spec.tls else None),
        ]
    )
    directory = "" if cluster.folder == DEFAULT_FOLDER else f" --dir {quote(str(cluster.folder))}"
    typer.echo("next:")
    typer.echo(f"  ballast pulsar dev status{directory}")
    address = f"--service-url {cluster.web_urls[0]}{_reading_options(cluster)}"
    topics = " --topics" if spec.manager == "extensible" else ""
    typer.echo(f"  ballast pulsar dev traffic{directory} --hot {spec.broker_names[0]}")
    network = "" if spec.broker_cores else f" --set pulsar_cluster.nic_gbps={NIC_GBPS}"
    typer.echo(f"  ballast pulsar advise {address}{network}")
    typer.echo(f"  ballast pulsar record {address}{topics} --out recording.jsonl")
    typer.echo(f"  {_client_line(cluster, namespace or 'public/default')}")
    typer.echo(f"  ballast pulsar dev down{directory}")


def _reading_options(cluster: PulsarCluster) -> str:
    """How the commands that read the cluster authenticate."""
    spec, credentials = cluster.spec, cluster.servers.credentials
    options = f" --tls-ca-file {quote(str(credentials.authority))}" if spec.tls else ""
    if spec.auth == "token":
        options += f" --token-file {quote(str(credentials.token(ADMIN)))}"
    elif spec.auth == "tls":
        certificate, key = (quote(str(file)) for file in credentials.certificate(ADMIN))
        options += f" --tls-cert-file {certificate} --tls-key-file {key}"
    return options


def _client_line(cluster: PulsarCluster, namespace: str) -> str:
    """A producer in one line, for whoever has pulsar-client installed."""
    spec, credentials = cluster.spec, cluster.servers.credentials
    options = ""
    if spec.tls:
        options += f", tls_trust_certs_file_path='{credentials.authority}'"
    if spec.auth == "token":
        options += f", authentication=pulsar.AuthenticationToken(open('{credentials.token(ADMIN)}').read())"
    elif spec.auth == "tls":
        certificate, key = credentials.certificate(ADMIN)
        options += f", authentication=pulsar.AuthenticationTLS('{certificate}', '{key}')"
    return (
        f"python -c \"import pulsar; client = pulsar.Client('{cluster.client_url}'{options});"
        f" client.create_producer('persistent://{namespace}/hello').send(b'hello'); client.close()\""
    )


def _tell(doing: str) -> None:
    typer.echo(doing, err=True)


def _yes_no(value: bool | None) -> str | None:
    return None if value is None else ("yes" if value else "no")
