"""Orders on a real cluster with clients: bundles arrive at the exact broker, and what Pulsar refuses is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.domain.ids import Bundle
from controller.domain.observed import OrderKind, OrderOutcome
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.traffic.rates import even_rates, topics_of
from controller.testbed.pulsar.traffic.traffic import Traffic
from tests.pulsar.own_client import Orders
from tests.pulsar.waiting import wait_until

pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = pytest.mark.pulsar

NAMESPACE, BUNDLES, TOPICS, MOVES = "tests/orders", 8, 24, 10


def test_orders_end_as_pulsar_carries_them_out(cluster: PulsarCluster, tmp_path: Path) -> None:
    cluster.admin.create_namespace("broker1", NAMESPACE, BUNDLES)
    topics = topics_of(NAMESPACE, TOPICS)
    orders = Orders(cluster, NAMESPACE)
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
