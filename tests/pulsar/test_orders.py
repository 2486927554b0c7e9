"""Orders on a real cluster with clients: bundles arrive at the exact broker, a round's split cuts where half of the
load lies, and what Pulsar refuses is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.observer import Listing, Observer
from controller.agent.cluster.orders import Ended, carry_out
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topics import TopicReader
from controller.cli.run.cluster_agent import reads_topics
from controller.config.sections.pulsar_cluster import PulsarCluster as Connection
from controller.domain.ids import Bundle, topic_hash
from controller.domain.observed import Order, OrderKind, OrderOutcome
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import CLUSTER_NAME
from controller.testbed.pulsar.traffic.rates import even_rates, topics_of
from controller.testbed.pulsar.traffic.traffic import Traffic
from tests.pulsar.waiting import wait_until

pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = pytest.mark.pulsar

NAMESPACE, BUNDLES, TOPICS, MOVES = "tests/orders", 8, 24, 10
HOT_RATES = (2.0, 2.0, 2.0, 2.0, 20.0, 28.0)  # messages/s of the split bundle's topics, lowest hash first
_T = TypeVar("_T")


class Orders:
    """Carries orders out as the agent does, and knows which broker owns what."""

    def __init__(self, cluster: PulsarCluster) -> None:
        self.cluster = cluster
        self.brokers = [cluster.spec.broker_id(name) for name in cluster.spec.broker_names]

    def run(self, order: Order) -> Ended:
        async def work(calls: PulsarCalls) -> Ended:
            run, answer = carry_out(order, self.cluster.spec.manager == "modular"), None
            while True:
                try:
                    answer = await calls.answer(run.send(answer))
                except StopIteration as stop:
                    return stop.value

        return self._with_calls(work, with_polls=order.kind is OrderKind.SPLIT)

    def move(self, bundle: Bundle, source: str, target: str) -> Ended:
        return self.run(Order("o", OrderKind.MOVE, bundle, source, "test", 1, target))

    def split(self, bundle: Bundle, source: str, boundary: int, **cause: str) -> Ended:
        return self.run(Order("o", OrderKind.SPLIT, bundle, source, "test", 1, None, boundary, **cause))

    def ring(self) -> list[int]:
        """The namespace's boundaries."""
        answer = self.cluster.admin.request("GET", "broker1", f"/admin/v2/namespaces/{NAMESPACE}/bundles")
        return [int(boundary, 16) for boundary in answer.json()["boundaries"]]

    def rates(self, bundle: Bundle, owner: str) -> dict[str, float]:
        """Topic -> messages/s in, as the bundle's owner told last."""
        name = next(n for n in self.cluster.spec.broker_names if self.cluster.spec.broker_id(n) == owner)
        told = self.cluster.admin.request("GET", name, "/admin/v2/broker-stats/topics").json()
        topics = told.get(NAMESPACE, {}).get(str(bundle).rpartition("/")[2], {}).get("persistent", {})
        return {topic: stats["msgRateIn"] for topic, stats in topics.items()}

    def owners(self) -> dict[str, str]:
        """Bundle -> broker id, of the namespace."""
        found = {}
        for name in self.cluster.spec.broker_names:
            for bundle in self.cluster.admin.owned_bundles(name) or ():
                if bundle.startswith(f"{NAMESPACE}/"):
                    found[bundle] = self.cluster.spec.broker_id(name)
        return found

    def _with_calls(self, work: Callable[[PulsarCalls], Awaitable[_T]], with_polls: bool) -> _T:
        """`with_polls`: topics were polled before, with the manager of which the agent reads them all the time."""

        async def run() -> _T:
            connection = Connection(service_urls=tuple(self.cluster.web_urls))
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


def topics_in(bundle: Bundle) -> list[str]:
    """The topics of a bundle, lowest hash first."""
    return sorted((t for t in topics_of(NAMESPACE, TOPICS) if bundle.contains(topic_hash(t))), key=topic_hash)


def split_by_load(orders: Orders, traffic: Traffic, bundle: Bundle, owner: str) -> None:
    """A round proposes the middle, where half of the topics lie, and nearly none of the load."""
    topics = topics_in(bundle)
    wanted = dict(zip(topics, HOT_RATES, strict=True))
    traffic.set_rates(wanted)
    rates = wait_until(
        lambda: orders.rates(bundle, owner),
        lambda found: all(0.6 * rate <= found.get(topic, 0.0) <= 1.4 * rate for topic, rate in wanted.items()),
        "the owner to tell of the skew",
    )
    ended = orders.split(bundle, owner, bundle.middle(), decision_id="d")
    assert (ended.outcome, ended.boundary, ended.detail) == (OrderOutcome.SPLIT, topic_hash(topics[-1]), ""), ended
    assert ended.boundary in orders.ring()
    assert bundle.middle() not in orders.ring()
    below = sum(rate for topic, rate in rates.items() if topic_hash(topic) < ended.boundary) / sum(rates.values())
    middle = sum(rate for topic, rate in rates.items() if topic_hash(topic) < bundle.middle()) / sum(rates.values())
    assert (0.35 < below < 0.65, middle < 0.25) == (True, True), (below, middle)


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
        split_by_load(orders, traffic, bundle, owner)
        named = Bundle.parse(next(n for n in sorted(owners) if n != name and len(topics_in(Bundle.parse(n))) > 1))
        split = orders.split(named, owners[str(named)], named.lower + 12_345, command_id="c")
        assert (split.outcome, split.boundary) == (OrderOutcome.SPLIT, named.lower + 12_345), split
        other = next(b for b in orders.brokers if b != owner)
        assert orders.move(bundle, owner, other).outcome is OrderOutcome.GONE, "its range is stale"
        report = traffic.stop(drain_s=300.0)
    assert report.lost == 0
