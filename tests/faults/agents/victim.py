"""The broker that faults happen to: its own way to Kafka, its own way to the tables, and what can be seen of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import httpx

from controller.domain.ids import Session
from controller.process.children import Child
from controller.testbed.fault_proxy import CuttableProxy
from controller.testbed.local_cluster import LocalCluster
from tests.faults.agents.mirror import Mirror

NAME = "victim"
PATIENCE_S = 180.0  # only a hang takes so long


class Victim:
    """One agent with its reference broker; `tables` is a mirror of the tables that can be taken away."""

    def __init__(self, cluster: LocalCluster, proxy: CuttableProxy) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.tables = Mirror(cluster.folder / "tables", cluster.folder / "tables-of-victim")
        self.tables.start()
        self.child: Child | None = None
        self._url = ""

    def start(self, process: str = NAME, failpoints: str = "", more: Sequence[str] = ()) -> Child:
        """A process of this broker id, with further options. Returns at once."""
        self.child = self.cluster.start_agent(
            NAME,
            *more,
            name=process,
            env={"BALLAST_FAILPOINTS": failpoints},
            kafka__bootstrap_servers=f"127.0.0.1:{self.proxy.port}",
            tables__root=str(self.tables.folder),
        )
        return self.child

    def registered(self, after: Session | None = None) -> Session:
        """Wait for a session in the journal, newer than the given one."""
        state = self.cluster.wait_until(
            lambda s: s.session_of(NAME) not in (None, after), PATIENCE_S, "registration of the victim", needs="job"
        )
        self._url = str(state.brokers[NAME].info["lookup_url"])
        session = state.session_of(NAME)
        assert session is not None
        return session

    def restart(self, failpoints: str = "") -> Session:
        """Kill what is left of it, wait until the journal knows, start it anew."""
        if self.child is not None and self.child.alive:
            self.child.kill()
        old = self.cluster.state.session_of(NAME)
        self.cluster.wait_until(lambda s: s.session_of(NAME) is None, PATIENCE_S, "the end of the old session")
        self.start(failpoints=failpoints)
        return self.registered(after=old)

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP or SIGCONT."""
        assert self.child is not None
        os.kill(self.child.pid, number)

    def served(self) -> int:
        """How many bundles its runtime serves at this moment, by its own metrics."""
        return served_by(self._url)

    def lease_remaining_ms(self) -> float:
        """How long its lease lives without another acknowledgement, by its own metrics."""
        return metric(self._url, "ballast_agent_lease_remaining_ms")

    def get(self, path: str, **query: str | int) -> httpx.Response:
        """An answer of its agent."""
        return httpx.get(f"{self._url}{path}", params=query, timeout=30)


def served_by(url: str) -> int:
    """Bundles that the agent at this address says it serves."""
    return int(metric(url, "ballast_agent_served_bundles"))


def metric(url: str, name: str) -> float:
    """A metric without labels of the agent at this address."""
    text = httpx.get(f"{url}/metrics", timeout=30).text
    (line,) = [each for each in text.splitlines() if each.startswith(f"{name} ")]
    return float(line.split()[1])
