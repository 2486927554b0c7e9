"""`ballast agent`: runs the agent of one broker, with the reference broker in the same process.

Exit codes: 0 left (on SIGTERM or SIGINT it hands all bundles over first), 2 bad configuration, 3 another process runs
this broker, 4 an invariant broke. A second signal ends the process at once, like a crash.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import structlog
import typer

from controller.agent.agent import Agent
from controller.agent.lifecycle import Ending
from controller.agent.metrics import AgentMetrics
from controller.agent.options import AgentOptions
from controller.agent.reports.split_proposals import SplitWatch
from controller.brokers.host_load import HostLoad
from controller.brokers.reference.capacity import Capacity
from controller.brokers.reference.runtime import ReferenceBroker
from controller.brokers.runtime import BundleStats
from controller.cli.options import new_app
from controller.cli.pulsar.connection import Connection, takes_connection
from controller.cli.run.agent_wiring import agent_connections, leave_on_signals, options_of
from controller.cli.run.cluster_agent import Runtime, run_cluster_agent
from controller.config.http_access import http_access
from controller.config.load import load_settings
from controller.config.places import check_old_place
from controller.config.policy_values import split_settings
from controller.config.settings import Settings
from controller.domain.decision import Reason
from controller.domain.errors import BadRecord, ConfigError, without_login
from controller.domain.ids import check_broker_id
from controller.policy.split import find_exceeded_limit
from controller.process.access.access import url_of
from controller.process.clock import wall_ms
from controller.process.http import HttpServer, make_app
from controller.process.logs import configure_logs
from controller.process.metrics import count_refusals, new_registry
from controller.service.start_checks import check_http, check_listening

app = new_app()
log = structlog.get_logger(__name__)

WILDCARDS = ("0.0.0.0", "::")


@app.command()
@takes_connection
def agent(
    connection: Connection,
    broker_id: Annotated[
        str, typer.Option(help="Name of the broker: host:port of its web service, or any name. Not for `pulsar`.")
    ] = "",
    capacity: Annotated[
        list[str] | None, typer.Option(help="Capacity of the reference broker, such as cpu_pct=150; repeatable.")
    ] = None,
    data_port: Annotated[int, typer.Option(help="Port for clients; 0 takes a free one.", min=0, max=65_535)] = 0,
    leave_timeout_s: Annotated[float, typer.Option(help="Maximum time for a graceful leave.")] = 30.0,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Replace a living process of this broker instead of waiting for it.")
    ] = False,
    runtime: Annotated[
        Runtime,
        typer.Option(help="`reference`: the broker in this process; `pulsar`: all of a Pulsar cluster."),
    ] = Runtime.REFERENCE,
    standby: Annotated[
        bool, typer.Option("--standby", help="With `pulsar`: wait while another agent observes the cluster.")
    ] = False,
    new_brokers: Annotated[
        bool, typer.Option("--new-brokers", help="With `pulsar`: start although the journal knows none of the brokers.")
    ] = False,
) -> None:
    """Report load, hold the lease, follow the journal, hand bundles over, answer lookups."""
    if runtime is Runtime.PULSAR:
        if broker_id:
            raise ConfigError("--broker-id is not for --runtime pulsar: one agent observes all brokers of the cluster")
        settings = connection.settings()
        ending = asyncio.run(run_cluster_agent(settings, take_over=take_over, standby=standby, new_brokers=new_brokers))
        _end(ending)
    settings = load_settings(connection.conf, connection.profile, overrides=connection.sets or [])
    try:
        check_broker_id(broker_id)
    except BadRecord as error:
        raise ConfigError(f"--broker-id: {error.text}") from None
    configure_logs(settings.logging.level, settings.logging.json_lines, broker=broker_id, cluster=settings.cluster.name)
    check_old_place(settings)
    check_http(settings, "agent.bind_host", "http.agent_port")
    host = ("agent.bind_host", settings.agent.bind_host, f" ({settings.origin('agent.bind_host')})")
    check_listening(host, ("--data-port", data_port, ""))
    log.info("the journal is read at %s", without_login(settings.tables.root))
    options = dataclasses.replace(
        options_of(settings), leave_timeout_ms=int(leave_timeout_s * 1000), take_over=take_over
    )
    limits = parse_capacity(capacity or [], capacity_of(settings))
    _end(asyncio.run(_run(settings, broker_id, options, limits, data_port)))


def _end(ending: Ending) -> NoReturn:
    """Say how the run ended, and exit with its code."""
    if ending.code:
        print(f"ballast agent: {ending.text}", file=sys.stderr)
    else:
        log.info("agent ended", text=ending.text)
    raise typer.Exit(ending.code)


def host_of(settings: Settings) -> HostLoad | None:
    """The source of host figures, if the broker represents the whole machine."""
    return HostLoad(settings.agent.override_broker_nic_speed_gbps) if settings.agent.host_figures else None


def advertised_host(settings: Settings) -> str:
    """The host that clients connect to. Never a wildcard, which no client can connect to."""
    host = settings.agent.advertised_host or settings.agent.bind_host
    return socket.getfqdn() if host in WILDCARDS else host


def capacity_of(settings: Settings) -> Capacity:
    """The configured capacity of the reference broker."""
    given = settings.reference
    return Capacity(
        cpu_pct=given.cpu_pct,
        cpu_us_per_message=given.cpu_us_per_message,
        cpu_us_per_kib=given.cpu_us_per_kib,
        bandwidth_in_bytes_per_s=given.bandwidth_in_bytes_per_s,
        bandwidth_out_bytes_per_s=given.bandwidth_out_bytes_per_s,
        memory_bytes=given.memory_bytes,
    )


def parse_capacity(pairs: Sequence[str], base: Capacity | None = None) -> Capacity:
    """Apply `name=value` pairs to a capacity. Raises ConfigError."""
    known = [field.name for field in dataclasses.fields(Capacity)]
    values: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in known:
            raise ConfigError(f"--capacity {pair}: {name!r} is none of {', '.join(known)}")
        try:
            values[name] = float(text)
        except ValueError:
            raise ConfigError(f"--capacity {pair}: {text!r} is not a number") from None
    return dataclasses.replace(base or Capacity(), **values)


def make_split_watch(settings: Settings) -> SplitWatch | None:
    """A watch for bundles beyond the configured limits; None if splits are disabled."""
    limits = split_settings(settings)
    if not limits.enabled:
        return None

    def judge(stats: BundleStats) -> Reason | None:
        return find_exceeded_limit({f.name: _number(getattr(stats, f.name)) for f in dataclasses.fields(stats)}, limits)

    return SplitWatch(judge)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


async def _run(settings: Settings, broker: str, options: AgentOptions, capacity: Capacity, data_port: int) -> Ending:
    nonce = secrets.token_hex(8)
    host, advertised = settings.agent.bind_host, advertised_host(settings)
    runtime = ReferenceBroker(
        f"{broker}.{nonce}",
        settings.store.address,
        capacity=capacity,
        host=host,
        port=data_port,
        advertised_host=advertised,
        max_bundles=settings.reference.max_bundles,
        max_topics=settings.reference.max_topics,
        may_serve=lambda: found.may_serve(),
    )
    access = http_access(settings)
    http = HttpServer(host, settings.http.agent_port, access)
    metrics = AgentMetrics(new_registry())
    async with agent_connections(settings, broker, options.lease_ms) as connections:
        found = Agent(
            broker,
            nonce,
            runtime,
            connections,
            options,
            lookup_url=url_of(access, advertised, http.port),
            capacity=dataclasses.asdict(capacity),
            host=host_of(settings),
            splits=make_split_watch(settings),
            metrics=metrics,
            process={"host": socket.gethostname(), "pid": os.getpid(), "started_ms": wall_ms()},
            on_begin=lambda: print(f"ballast-agent {broker} listening {http.url}", flush=True),
        )
        http.start(make_app(metrics.registry, found.health, found.routes()), count_refusals(metrics.registry))
        leave_on_signals(found)
        try:
            return await found.run()
        finally:
            await http.stop()
