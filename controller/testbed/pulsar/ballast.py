"""Ballast beside a local Pulsar cluster, as processes: Kafka, the controller job, and the agent of the cluster.

The comparison with Pulsar's own balancers and the demo use it. The cluster is only observed and asked; it is started
and stopped by whoever made it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from controller.domain.entries import Entry, Kind
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.process.children import ProcessFailed
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.local_cluster import BALLAST, LocalCluster
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.credentials import ADMIN

AGENT, JOB, KAFKA = "agent", "job", "kafka"
REGISTRATION_TIMEOUT_S, COMMAND_TIMEOUT_S = 180.0, 60.0
# Batches of the control query cost the most while nothing happens. Orders are rare, so a second between two will do.
MODEST = ("control.trigger_ms=1000", "control.tick_ms=1000", "control.lease_ms=15000")


class BallastOnPulsar:
    """`up`, then commands, then `stop`. It follows the journal without asking any process."""

    def __init__(
        self,
        folder: Path,
        pulsar: PulsarCluster,
        overrides: Sequence[str] = (),
        tell: Callable[[str], None] = lambda doing: None,
    ) -> None:
        """`overrides`: settings of all its processes, on top of the profile `local`."""
        self.pulsar = pulsar
        self.cluster = LocalCluster(folder, profile="local", overrides=(*MODEST, *overrides), tell=tell)

    def __enter__(self) -> BallastOnPulsar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def state(self) -> ClusterState:
        """The state according to the journal, read now."""
        return self.cluster.state

    @property
    def entries(self) -> list[Entry]:
        """Every journal entry since the start that was waited for."""
        return self.cluster.entries

    def read_journal(self) -> list[Entry]:
        """All entries that the journal has now."""
        return list(Journal(self.cluster.settings.tables.root).read_since(0))

    def up(self) -> None:
        """Start everything, in shadow; returns once every broker of the cluster is observed."""
        self.cluster.start_kafka()
        self.cluster.configure({"pulsar_cluster": connection_of(self.pulsar)})
        self.cluster.start_job()
        self.start_agent()
        self.cluster.wait_for_job()
        brokers = {self.pulsar.spec.broker_id(name) for name in self.pulsar.servers.running_brokers()}
        self.wait_until(
            lambda state: brokers <= {broker.id for broker in state.live_brokers()},
            REGISTRATION_TIMEOUT_S,
            f"the observation of {len(brokers)} brokers",
            needs=AGENT,
        )

    def start_agent(self) -> None:
        """Start the agent of the cluster."""
        settings = [word for override in self.cluster.overrides for word in ("--set", override)]
        argv = [*BALLAST, "agent", "--runtime", "pulsar", "--conf", str(self.cluster.config_file), *settings]
        self.cluster.agents.add(AGENT)
        self.cluster.start(AGENT, argv)

    def wait_until(
        self, holds: Callable[[ClusterState], bool], timeout_s: float, what: str, needs: str = JOB
    ) -> ClusterState:
        """Poll the journal until the condition holds. Raises ProcessFailed, which names what was waited for."""
        return self.cluster.wait_until(holds, timeout_s, what, needs)

    def set_mode(self, mode: str) -> None:
        """`shadow`, `live` or `paused`. Raises ProcessFailed if the controller rejects it."""
        self.command("mode", mode=mode)

    def command(self, kind: str, **args: str) -> str:
        """Send an operator's command and return its id. Raises ProcessFailed if the controller rejects it."""
        answer = self.cluster.command(kind, COMMAND_TIMEOUT_S, **args)
        if not answer.accepted:
            raise ProcessFailed(f"the controller rejected {kind} {args}: {answer.reason}")
        return answer.command_id

    def cpu_used_s(self) -> dict[str, float]:
        """CPU that its processes have used since they started, with their children; of those that live."""
        pids = {name: child.pid for name, child in self.cluster.children.items()}
        kafka = self.cluster.kafka
        if isinstance(kafka, EmbeddedKafka) and kafka.pid is not None:
            pids[KAFKA] = kafka.pid
        return {name: round(_cpu_of_tree_s(pid), 2) for name, pid in pids.items()}

    def stop(self) -> None:
        """Stop agent, job and Kafka."""
        self.cluster.stop()


def connection_of(pulsar: PulsarCluster, role: str = ADMIN) -> dict[str, Any]:
    """The section `pulsar_cluster` of the configuration: where the brokers are, and as whom they are asked."""
    spec, credentials = pulsar.spec, pulsar.servers.credentials
    section: dict[str, Any] = {"service_urls": pulsar.web_urls}
    if spec.tls:
        section["tls_ca_file"] = str(credentials.authority)
    if spec.auth == "token":
        section["token_file"] = str(credentials.token(role))
    elif spec.auth == "tls":
        certificate, key = credentials.certificate(role)
        section |= {"tls_cert_file": str(certificate), "tls_key_file": str(key)}
    return section


def outcomes_of_orders(entries: Sequence[Entry]) -> dict[str, int]:
    """How many orders ended with each outcome, by its name."""
    return dict(Counter(str(entry.data["outcome"]) for entry in entries if entry.kind is Kind.ORDER_ENDED))


def _cpu_of_tree_s(pid: int) -> float:
    """CPU seconds of a process and its living children, and of those children that have ended."""
    used = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = member.cpu_times()
                used += times.user + times.system + times.children_user + times.children_system
    return used
