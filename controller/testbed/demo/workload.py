"""The clients of the demo: topics, rates and readers.

One producer process sends to all topics; lines on its standard input change its rates. Readers: one exclusive
subscription over all topics (order and loss are checked on it), one shared by two readers, one failover.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.domain.ids import Bundle, topic_hash
from controller.domain.ring import locate
from controller.domain.state import ClusterState
from controller.process.children import Child
from controller.testbed.checker.logs import wait_until_read
from controller.testbed.local_cluster import LocalCluster

PRODUCER = (sys.executable, "-m", "controller.brokers.reference.client.producer_program")
CONSUMER = (sys.executable, "-m", "controller.brokers.reference.client.consumer_program")
# Bundles of a few percent of a broker, all different, so that they can always be spread evenly
# (tests/unit/testbed/test_demo_plot.py). With half as many, one in four runs ended with a broker beyond the tolerance.
NAMESPACES = {"demo/orders": 32, "demo/metrics": 16}
TOPICS = tuple(
    [f"persistent://demo/orders/order-{i:02}" for i in range(64)]
    + [f"persistent://demo/metrics/metric-{i:02}" for i in range(32)]
)
SHARED_TOPICS = TOPICS[:16]
FAILOVER_TOPICS = TOPICS[64:80]
BASE_RATE_PER_S = 2.0  # per topic, on average; together the topics use a fifth of four brokers
FULL_BROKERS = 4  # this many share the full rate; with fewer brokers, topics send less
# The share of the hot broker's CPU that its hot topics cost. With more, the third broker that takes a part of it could
# exceed the mean by more than the strategy allows (tests/unit/testbed/test_demo_heat.py).
HOT_SHARE = 0.45
SIZE_BYTES = 400


def bundle_of(state: ClusterState, topic: str) -> Bundle:
    """The bundle that contains the topic now."""
    namespace = "/".join(topic.split("/")[2:4])
    return locate(state.namespaces[namespace], topic_hash(topic))


def owner_of(state: ClusterState, topic: str) -> str | None:
    """The broker that clients of the topic are sent to."""
    session = state.bundles[str(bundle_of(state, topic))].owner_for_clients()
    return session.broker if session else None


def topics_of(state: ClusterState, broker: str, topics: Iterable[str] = TOPICS) -> list[str]:
    """The topics that the broker serves."""
    return [t for t in topics if owner_of(state, t) == broker]


def deliveries(topic: str) -> int:
    """How often a message of the topic is delivered: once per subscription."""
    return 1 + (topic in SHARED_TOPICS) + (topic in FAILOVER_TOPICS)


def base_rates(brokers: int) -> dict[str, float]:
    """The usual rate of every topic in messages/s: 0.5 to 1.5 times the average."""
    share = min(brokers, FULL_BROKERS) / FULL_BROKERS
    return {topic: BASE_RATE_PER_S * share * (0.5 + 0.1 * (7 * i % 11)) for i, topic in enumerate(TOPICS)}


def heat_rates(bundles: Mapping[str, str], rates: Mapping[str, float], operations_per_s: float) -> dict[str, float]:
    """Rates that make topics (topic -> bundle) hot: every bundle gets the same extra load, so that each can move.

    An operation is a message received or delivered. If the load were spread over topics, a bundle with three of them
    would be too much for any broker.
    """
    held = Counter(bundles.values())
    return {
        topic: rates[topic] + operations_per_s / len(held) / held[bundle] / (1 + deliveries(topic))
        for topic, bundle in bundles.items()
    }


class Workload:
    """The client processes of one cluster. Rates in messages/s by topic."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.rates: dict[str, float] = {}
        self.logs: list[Path] = []
        self.producer: Child | None = None
        self.consumers: list[Child] = []
        self._backlog: Child | None = None

    def create(self) -> None:
        """Create namespaces and topics by commands."""
        for namespace, bundles in NAMESPACES.items():
            self.cluster.command("create_namespace", namespace=namespace, bundles=bundles)
        for topic in (TOPICS[0], TOPICS[64]):
            self.cluster.command("create_topic", topic=topic)

    def start(self, rates: Mapping[str, float]) -> None:
        """Start readers, then the producer, so that nothing is sent before its subscription exists."""
        self._consume("reader", "audit", "exclusive", TOPICS)
        for number in (1, 2):
            self._consume(f"worker-{number}", "workers", "shared", SHARED_TOPICS)
        self._consume("standby", "pair", "failover", FAILOVER_TOPICS)
        self.producer = self._client("producer", PRODUCER, ["--name", "demo-producer", "--size", str(SIZE_BYTES)])
        self.set_rates(rates)

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """Change the rates of the given topics; all others keep theirs."""
        if self.producer is None:
            raise RuntimeError("start the workload first")
        for topic, rate in rates.items():
            self.rates[topic] = rate
            self.producer.tell(json.dumps({"topic": topic, "rate": rate}))

    def build_backlog(self, topics: Iterable[str]) -> None:
        """Start a subscription that receives but does not acknowledge until `clear_backlog`."""
        self._backlog = self._consume("slow", "slow", "exclusive", topics)
        self._backlog.tell(json.dumps({"ack": False}))

    def clear_backlog(self) -> None:
        """Make the slow reader acknowledge what it holds and continue like any other."""
        if self._backlog is not None:
            self._backlog.tell(json.dumps({"ack": True}))

    def stop(self, drain_s: float) -> None:
        """Stop producers once everything is acknowledged, and readers once they have had time to read the rest."""
        self.cluster.tell("producers wait for their last acknowledgements")
        if self.producer is not None:
            self.producer.stop(60)
        self.cluster.tell("readers read the rest")
        wait_until_read(self.logs, drain_s)
        for child in self.consumers:
            child.terminate()
        for child in self.consumers:
            child.wait(60)

    def _consume(self, name: str, subscription: str, kind: str, topics: Iterable[str]) -> Child:
        more = ["--name", name, "--subscription", subscription, "--type", kind]
        child = self._client(name, CONSUMER, [*more, *(word for topic in topics for word in ("--topic", topic))])
        self.consumers.append(child)
        return child

    def _client(self, name: str, program: tuple[str, ...], more: list[str]) -> Child:
        log = self.cluster.folder / "clients" / f"{name}.jsonl"
        self.logs.append(log)
        lookups = self.cluster.client_options()
        return self.cluster.start(name, [*program, *lookups, *more, "--log", str(log)], stdin=True)
