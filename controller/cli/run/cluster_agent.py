"""`ballast agent --runtime pulsar`: one process observes all brokers of a Pulsar cluster and carries out orders."""

from __future__ import annotations

import dataclasses
import os
import secrets
import socket
from enum import Enum

import structlog

from controller.agent.cluster.agent import ClusterAgent
from controller.agent.lifecycle import Ending
from controller.agent.metrics import AgentMetrics
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import Manager
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topics import TopicReader
from controller.cli.run.agent_wiring import agent_connections, leave_on_signals, options_of
from controller.config.http_access import http_access
from controller.config.places import check_old_place
from controller.config.sections.pulsar_cluster import PulsarCluster
from controller.config.settings import Settings
from controller.domain.errors import without_login
from controller.loads.recorded import Overrides
from controller.process.clock import wall_ms
from controller.process.http import HttpServer, make_app
from controller.process.logs import configure_logs
from controller.process.metrics import count_refusals, new_registry
from controller.service.start_checks import check_http

log = structlog.get_logger(__name__)


class Runtime(str, Enum):
    """The kind of brokers that an agent is for."""

    REFERENCE = "reference"
    PULSAR = "pulsar"


def reads_topics(manager: Manager | None, cluster: PulsarCluster) -> bool:
    """Whether topics are read in every statistics period: the modular manager reports loads of bundles without them."""
    return manager is Manager.EXTENSIBLE or cluster.modular_topics


async def run_cluster_agent(settings: Settings, *, take_over: bool, standby: bool, new_brokers: bool) -> Ending:
    """Run until a signal, another agent or a failure ends it. Raises CallFailed if the cluster cannot be read."""
    configure_logs(settings.logging.level, settings.logging.json_lines, broker="pulsar", cluster=settings.cluster.name)
    check_old_place(settings)
    check_http(settings, "agent.bind_host", "http.agent_port")
    log.info("the journal is read at %s", without_login(settings.tables.root))
    nonce = secrets.token_hex(8)
    options = dataclasses.replace(options_of(settings), take_over=take_over)
    http = HttpServer(settings.agent.bind_host, settings.http.agent_port, http_access(settings))
    metrics = AgentMetrics(new_registry())
    cluster = settings.pulsar_cluster
    async with PulsarAdmin(cluster) as admin, TopicReader(admin) as topics:
        poll = ClusterPoll(admin, topics, wait_for_topics=False)  # owners are known before loads
        await poll.start()
        poll.with_topics = reads_topics(poll.manager, cluster)
        async with agent_connections(settings, "pulsar", options.lease_ms) as connections:
            found = ClusterAgent(
                nonce,
                poll,
                connections,
                options,
                Overrides(host_cpu=cluster.host_cpu, unknown_nic_gbps=cluster.nic_gbps),
                poll_ms=options.report_interval_ms,
                standby=standby,
                new_brokers=new_brokers,
                margin_ms=settings.control.margin_ms,
                process={"host": socket.gethostname(), "pid": os.getpid(), "started_ms": wall_ms()},
                metrics=metrics,
                on_begin=lambda: print(f"ballast-agent pulsar listening {http.url}", flush=True),
            )
            http.start(make_app(metrics.registry, found.health, []), count_refusals(metrics.registry))
            leave_on_signals(found)
            try:
                return await found.run()
            finally:
                await poll.stop()
                await http.stop()
