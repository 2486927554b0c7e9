"""Ballast's own client on a test cluster: connected as a role; it reads topics, and carries orders out as the agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.observer import Listing, Observer
from controller.agent.cluster.orders import Ended
from controller.brokers.pulsar.addresses import Directory, Members
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topic_stats import Stats
from controller.brokers.pulsar.topics import TopicReader
from controller.cli.main import main
from controller.cli.run.cluster_agent import reads_topics
from controller.config.sections.pulsar_cluster import PulsarCluster as Connection
from controller.domain.ids import Bundle
from controller.domain.observed import Order, OrderKind, OrderOutcome
from controller.testbed.pulsar.ballast import connection_of
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.credentials import ADMIN
from controller.testbed.pulsar.spec import CLUSTER_NAME
from tests.pulsar.waiting import wait_until
from tests.unit.agent.cluster.carrying import carry

_T = TypeVar("_T")
Checked = tuple[int, dict[str, dict[str, Any]]]


def connected(cluster: PulsarCluster, work: Callable[[PulsarAdmin, Members], Awaitable[_T]], role: str = ADMIN) -> _T:
    """What `work` returns with a client that is authenticated as the role, and with the cluster's brokers."""

    async def run() -> _T:
        async with PulsarAdmin(Connection(**connection_of(cluster, role))) as admin:
            return await work(admin, await Directory(admin, CLUSTER_NAME).refresh())

    return asyncio.run(run())


def read_topics(cluster: PulsarCluster, broker: str) -> dict[str, Stats]:
    """The statistics of topics of a broker, by its id."""

    async def work(admin: PulsarAdmin, members: Members) -> dict[str, Stats]:
        async with TopicReader(admin) as reader:
            return await reader.read(members.addresses[broker])

    return connected(cluster, work)


def check(cluster: PulsarCluster, folder: Path, capsys: pytest.CaptureFixture[str], role: str = ADMIN) -> Checked:
    """What `ballast pulsar check` says as the role: exit code, and the requirements by name."""
    conf = folder / f"{role}.yaml"
    sections = {"pulsar_cluster": connection_of(cluster, role), "tables": {"root": str(folder / "tables")}}
    conf.write_text(json.dumps(sections))  # which is YAML, too
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["pulsar", "check", "--json", "--conf", str(conf)])
    rows = json.loads(capsys.readouterr().out)["requirements"]
    return int(ended.value.code or 0), {row["requirement"]: row for row in rows}


class Orders:
    """Carries orders out as the agent does, and knows which broker owns what of a namespace."""

    def __init__(self, cluster: PulsarCluster, namespace: str) -> None:
        self.cluster, self._namespace = cluster, namespace
        self.brokers = [cluster.spec.broker_id(name) for name in cluster.spec.broker_names]

    def run(self, order: Order) -> Ended:
        async def work(calls: PulsarCalls) -> Ended:
            return await carry(order, calls, self.cluster.spec.manager == "modular")

        return self._with_calls(work, with_polls=order.kind is OrderKind.SPLIT)

    def move(self, bundle: Bundle, source: str, target: str) -> Ended:
        return self.run(Order("o", OrderKind.MOVE, bundle, source, "test", 1, target))

    def split(self, bundle: Bundle, source: str, boundary: int, **cause: str) -> Ended:
        return self.run(Order("o", OrderKind.SPLIT, bundle, source, "test", 1, None, boundary, **cause))

    def ring(self) -> list[int]:
        """The namespace's boundaries."""
        answer = self.cluster.admin.request("GET", "broker1", f"/admin/v2/namespaces/{self._namespace}/bundles")
        return [int(boundary, 16) for boundary in answer.json()["boundaries"]]

    def rates(self, bundle: Bundle, owner: str) -> dict[str, float]:
        """Topic -> messages/s in, as the bundle's owner told last."""
        name = next(n for n in self.cluster.spec.broker_names if self.cluster.spec.broker_id(n) == owner)
        told = self.cluster.admin.request("GET", name, "/admin/v2/broker-stats/topics").json()
        topics = told.get(self._namespace, {}).get(str(bundle).rpartition("/")[2], {}).get("persistent", {})
        return {topic: stats["msgRateIn"] for topic, stats in topics.items()}

    def owners(self) -> dict[str, str]:
        """Bundle -> broker id, of the namespace."""
        found = {}
        for name in self.cluster.spec.broker_names:
            for bundle in self.cluster.admin.owned_bundles(name) or ():
                if bundle.startswith(f"{self._namespace}/"):
                    found[bundle] = self.cluster.spec.broker_id(name)
        return found

    def _with_calls(self, work: Callable[[PulsarCalls], Awaitable[_T]], with_polls: bool) -> _T:
        """`with_polls`: topics were polled before, with the manager of which the agent reads them all the time."""

        async def run() -> _T:
            connection = Connection(**connection_of(self.cluster, ADMIN))
            async with PulsarAdmin(connection) as admin, TopicReader(admin) as topics:
                poll, observer = ClusterPoll(admin, topics), Observer()
                await poll.start()
                poll.with_topics = reads_topics(poll.manager, connection)
                if with_polls and poll.with_topics:
                    await poll.poll(60.0, lambda polled: None)
                calls = PulsarCalls(
                    admin, observer, exclude_namespaces(()), cluster=lambda: CLUSTER_NAME,
                    addresses=lambda: poll.members.addresses, timeout_s=lambda broker: 70.0, on_denied=pytest.fail,
                    find_stats=poll.find_stats,
                )  # fmt: skip
                for broker, names in self._lists().items():
                    observer.note(Listing(broker, 1, 1, names))
                try:
                    return await work(calls)
                finally:
                    await poll.stop()

        return asyncio.run(run())

    def _lists(self) -> dict[str, frozenset[str]]:
        owners = self.owners()
        return {broker: frozenset(b for b, owner in owners.items() if owner == broker) for broker in self.brokers}


def make_topics(cluster: PulsarCluster, namespace: str, count: int) -> None:
    """Topics without clients, each loaded by a broker, which then owns its bundle."""
    for number in range(count):
        path = f"/admin/v2/persistent/{namespace}/t{number}"
        answer = cluster.admin.request("PUT", "broker1", path, timeout_s=30)
        assert answer.status_code in (204, 409), answer.text


def move_one(cluster: PulsarCluster, namespace: str) -> None:
    """Statistics of topics tell of a bundle, and it moves: all by Ballast's own code and client."""
    orders = Orders(cluster, namespace)
    owners = wait_until(orders.owners, bool, "a bundle to be owned")
    name, source = min(owners.items())
    stats = wait_until(lambda: read_topics(cluster, source), lambda found: name in found, "its topics in statistics")
    assert stats[name]["topics"] >= 1
    target = next(broker for broker in orders.brokers if broker != source)
    ended = orders.move(Bundle.parse(name), source, target)
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, target), ended
    assert orders.owners()[name] == target
