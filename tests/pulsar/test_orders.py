"""Orders on a real cluster with clients: bundles arrive at the exact broker, a round's split cuts where half of the
load lies, and what Pulsar refuses is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.domain.ids import Bundle, topic_hash
from controller.domain.observed import OrderOutcome
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.traffic.rates import even_rates, topics_of
from controller.testbed.pulsar.traffic.traffic import Traffic
from tests.pulsar.own_client import Orders
from tests.pulsar.waiting import wait_until

pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = pytest.mark.pulsar

NAMESPACE, BUNDLES, TOPICS, MOVES = "tests/orders", 8, 24, 10
HOT_RATES = (2.0, 2.0, 2.0, 2.0, 20.0, 28.0)  # messages/s of the split bundle's topics, lowest hash first


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
        split_by_load(orders, traffic, bundle, owner)
        named = Bundle.parse(next(n for n in sorted(owners) if n != name and len(topics_in(Bundle.parse(n))) > 1))
        split = orders.split(named, owners[str(named)], named.lower + 12_345, command_id="c")
        assert (split.outcome, split.boundary) == (OrderOutcome.SPLIT, named.lower + 12_345), split
        other = next(b for b in orders.brokers if b != owner)
        assert orders.move(bundle, owner, other).outcome is OrderOutcome.GONE, "its range is stale"
        report = traffic.stop(drain_s=300.0)
    assert report.lost == 0
