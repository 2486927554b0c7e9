"""`ballast pulsar dev traffic`: real clients on the local cluster, with skew where asked, checked at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.options import PROBLEM, AsJson, report_errors
from controller.cli.show import emit_facts, emit_json
from controller.cli.times import duration
from controller.domain.errors import ConfigError
from controller.process.clock import wall_ms
from controller.process.interrupts import check_interrupt, note_interrupts
from controller.process.paths import RUN
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.owners import locate_topics
from controller.testbed.pulsar.traffic.rates import even_rates, heat, topics_of
from controller.testbed.pulsar.traffic.report import TrafficReport
from controller.testbed.pulsar.traffic.traffic import Traffic


@report_errors
def traffic(
    folder: Annotated[Path, typer.Option("--dir", help="Folder of the cluster.")] = RUN / "pulsar",
    namespace: Annotated[str, typer.Option(help="Namespace, created if it does not exist.")] = "demo/load",
    bundles: Annotated[int, typer.Option(help="Bundles of a new namespace.", min=1)] = 16,
    topics: Annotated[int, typer.Option(help="Number of topics.", min=1, max=1_000)] = 32,
    rate: Annotated[float, typer.Option(help="Messages per second of all topics together.", min=0)] = 200.0,
    size: Annotated[int, typer.Option(help="Bytes of a message.", min=20, max=1_000_000)] = 512,
    hot: Annotated[
        str | None, typer.Option(help="Broker whose topics become hot, such as broker1.", show_default=False)
    ] = None,
    extra: Annotated[float, typer.Option(help="Messages per second more for the hot topics.", min=0)] = 400.0,
    for_s: Annotated[
        float | None,
        typer.Option("--for", help="When to stop, such as 5m; by default at Ctrl-C.", parser=duration, metavar="TIME"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send and receive until stopped, and say what the clients saw; exit code 1 if they lost or reordered messages."""
    cluster = PulsarCluster.open(folder)
    if hot is not None:
        cluster.spec.number(hot)
    if namespace.count("/") != 1 or not all(namespace.split("/")):
        raise ConfigError(f"--namespace {namespace!r}: needed is TENANT/NAMESPACE, such as demo/load")
    cluster.admin.create_namespace(cluster.servers.running_brokers()[0], namespace, bundles)
    names = topics_of(namespace, topics)
    logs = cluster.folder / "logs" / f"traffic-{wall_ms()}"
    with Traffic(cluster, logs, names, size) as clients, note_interrupts():
        rates = even_rates(names, rate)
        clients.set_rates(rates)
        try:
            if rate > 0:
                clients.wait_until_flowing()
            typer.echo(f"{rate:g} messages/s to {topics} topics; logs in {logs}", err=True)
            if hot is not None:
                clients.set_rates(heat(rates, _topics_of_broker(cluster, namespace, names, hot), extra))
                typer.echo(f"{extra:g} messages/s more to the topics of {hot}", err=True)
            _wait(for_s)
        except KeyboardInterrupt:
            typer.echo("stopping", err=True)
        report = clients.stop()
    _print_report(report, as_json)
    if not report.clean:
        raise typer.Exit(PROBLEM)


def _topics_of_broker(cluster: PulsarCluster, namespace: str, topics: list[str], broker: str) -> dict[str, str]:
    """Topic -> bundle of what the broker serves. Raises PulsarFailed if it serves nothing."""
    served = locate_topics(cluster, namespace, topics)
    hot = {topic: place.bundle for topic, place in served.items() if place.broker == broker}
    if not hot:
        others = sorted({place.broker for place in served.values() if place.broker})
        raise PulsarFailed(f"{broker} serves no topic of {namespace}: make another broker hot ({', '.join(others)})")
    return hot


def _wait(for_s: float | None) -> None:
    deadline = None if for_s is None else time.monotonic() + for_s
    while deadline is None or time.monotonic() < deadline:
        check_interrupt()
        time.sleep(0.2)


def _print_report(report: TrafficReport, as_json: bool) -> None:
    document = report.document()
    if as_json:
        emit_json(document)
        return
    gaps = {"publish gaps": document.pop("publish_gap_ms"), "consume gaps": document.pop("consume_gap_ms")}
    findings = document.pop("first_findings")
    emit_facts(
        [
            *document.items(),
            *((name, f"p50 {q['p50']} ms, p99 {q['p99']} ms, max {q['max']} ms") for name, q in gaps.items() if q),
            *(("finding", text) for text in findings),
        ]
    )
