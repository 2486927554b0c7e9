"""Orders on a real cluster with clients: bundles arrive at the exact broker, and what Pulsar refuses is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.observer import Listing, Observer
from controller.agent.cluster.orders import Ended, carry_out
from controller.brokers.pulsar.addresses import Directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.config.sections.pulsar_cluster import PulsarCluster as Connection
from controller.domain.ids import Bundle
from controller.domain.observed import Order, OrderKind, OrderOutcome
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import CLUSTER_NAME
from controller.testbed.pulsar.traffic.rates import even_rates, topics_of
from controller.testbed.pulsar.traffic.traffic import Traffic
from tests.pulsar.waiting import wait_until

pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = pytest.mark.pulsar

NAMESPACE, BUNDLES, TOPICS, MOVES = "tests/orders", 8, 24, 10
_T = TypeVar("_T")


class Orders:
    """Carries orders out as the agent does, and knows which broker owns what."""

    def __init__(self, cluster: PulsarCluster) -> None:
        self.cluster = cluster
        self.brokers = [cluster.spec.broker_id(name) for name in cluster.spec.broker_names]

    def run(self, bundle: Bundle, kind: OrderKind, source: str, target: str | None, boundary: int | None) -> Ended:
        order = Order("o", kind, bundle, source, "test", 1, target, boundary)

        async def work(calls: PulsarCalls) -> Ended:
            run, answer = carry_out(order, self.cluster.spec.manager == "modular"), None
            while True:
                try:
                    answer = await calls.answer(run.send(answer))
                except StopIteration as stop:
                    return stop.value

        return self._with_calls(work)

    def move(self, bundle: Bundle, source: str, target: str) -> Ended:
        return self.run(bundle, OrderKind.MOVE, source, target, None)

    def owners(self) -> dict[str, str]:
        """Bundle -> broker id, of the namespace."""
        found = {}
        for name in self.cluster.spec.broker_names:
            for bundle in self.cluster.admin.owned_bundles(name) or ():
                if bundle.startswith(f"{NAMESPACE}/"):
                    found[bundle] = self.cluster.spec.broker_id(name)
        return found

    def _with_calls(self, work: Callable[[PulsarCalls], Awaitable[_T]]) -> _T:
        async def run() -> _T:
            async with PulsarAdmin(Connection(service_urls=tuple(self.cluster.web_urls))) as admin:
                members = await Directory(admin, CLUSTER_NAME).refresh()
                observer = Observer()
                calls = PulsarCalls(
                    admin, observer, exclude_namespaces(()), cluster=lambda: CLUSTER_NAME,
                    addresses=lambda: members.addresses, timeout_s=lambda broker: 70.0, on_denied=pytest.fail,
                )  # fmt: skip
                for broker, names in self._lists().items():
                    observer.note(Listing(broker, 1, 1, names))
                return await work(calls)

        return asyncio.run(run())

    def _lists(self) -> dict[str, frozenset[str]]:
        owners = self.owners()
        return {broker: frozenset(b for b, owner in owners.items() if owner == broker) for broker in self.brokers}


def test_orders_end_as_pulsar_carries_them_out(cluster: PulsarCluster, tmp_path: Path) -> None:
    cluster.admin.create_namespace("broker1", NAMESPACE, BUNDLES)
    topics = topics_of(NAMESPACE, TOPICS)
    orders = Orders(cluster)
    with Traffic(cluster, tmp_path, topics) as traffic:
        traffic.set_rates(even_rates(topics, 100))
        traffic.wait_until_flowing()
        wait_until(orders.owners, lambda owners: len(owners) >= BUNDLES - 1, "all bundles to be owned", 300.0)
        for number in range(MOVES):
            owners = orders.owners()
            name = sorted(owners)[number % len(owners)]
            target = next(b for b in orders.brokers[number % 3 :] + orders.brokers if b != owners[name])
            ended = orders.move(Bundle.parse(name), owners[name], target)
            assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, target), ended
            assert orders.owners()[name] == target

        owners = orders.owners()
        name = sorted(owners)[0]
        bundle, owner = Bundle.parse(name), owners[name]
        inactive = orders.move(bundle, owner, "127.0.0.1:1")
        assert (inactive.outcome, orders.owners()[name]) == (OrderOutcome.REFUSED, owner), inactive
        split = orders.run(bundle, OrderKind.SPLIT, owner, None, bundle.lower + 12_345)
        assert split.outcome is OrderOutcome.SPLIT, split
        other = next(b for b in orders.brokers if b != owner)
        assert orders.move(bundle, owner, other).outcome is OrderOutcome.GONE, "its range is stale"
        report = traffic.stop(drain_s=300.0)
    assert report.lost == 0
