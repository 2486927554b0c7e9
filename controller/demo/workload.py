"""The demo's clients: which topics there are, how much is sent where, and who reads it.

One producer process sends to all topics; its rates change while it runs, by lines on its standard input. Readers:
one exclusive subscription over all topics (order and loss are audited on it), one shared by two, one failover.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.demo.auditor_logs import wait_until_read
from controller.demo.local_cluster import LocalCluster
from controller.demo.processes import Child
from controller.domain.ids import Bundle, topic_hash
from controller.domain.ring import locate
from controller.domain.state import ClusterState

PRODUCER = (sys.executable, "-m", "controller.demo.producer_client")
CONSUMER = (sys.executable, "-m", "controller.demo.consumer_client")
NAMESPACES = {"demo/orders": 16, "demo/metrics": 8}
TOPICS = tuple(
    [f"persistent://demo/orders/order-{i:02}" for i in range(32)]
    + [f"persistent://demo/metrics/metric-{i:02}" for i in range(16)]
)
SHARED_TOPICS = TOPICS[:8]
FAILOVER_TOPICS = TOPICS[32:40]
BASE_RATE_PER_S = 4.0
# Of the hot broker's CPU that its hot topics are to cost. More than that, and the third broker that takes a share of
# it may be beyond the mean by more than the strategy allows (tests/unit/test_demo_heat.py).
HOT_SHARE = 0.45
SIZE_BYTES = 400


def bundle_of(state: ClusterState, topic: str) -> Bundle:
    """The living bundle that holds the topic now."""
    namespace = "/".join(topic.split("/")[2:4])
    return locate(state.namespaces[namespace], topic_hash(topic))


def owner_of(state: ClusterState, topic: str) -> str | None:
    """The broker that clients of the topic are sent to."""
    session = state.bundles[str(bundle_of(state, topic))].owner_for_clients()
    return session.broker if session else None


def topics_of(state: ClusterState, broker: str, topics: Iterable[str] = TOPICS) -> list[str]:
    """Those topics that the broker serves."""
    return [t for t in topics if owner_of(state, t) == broker]


def heated(bundles: Mapping[str, str], messages_per_s: float) -> dict[str, float]:
    """Rates that make these topics hot (topic -> its bundle): every bundle gets the same, so that each can be moved.

    Spread over topics instead, a bundle with three of them would be more than any broker may take.
    """
    held = Counter(bundles.values())
    return {topic: messages_per_s / len(held) / held[bundle] for topic, bundle in bundles.items()}


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
        """Namespaces and topics, by command."""
        for namespace, bundles in NAMESPACES.items():
            self.cluster.command("create_namespace", namespace=namespace, bundles=bundles)
        for topic in (TOPICS[0], TOPICS[32]):
            self.cluster.command("create_topic", topic=topic)

    def start(self, rate_per_s: float = BASE_RATE_PER_S) -> None:
        """Readers first, so that nothing is sent before its subscription exists."""
        self._consume("reader", "audit", "exclusive", TOPICS)
        for number in (1, 2):
            self._consume(f"worker-{number}", "workers", "shared", SHARED_TOPICS)
        self._consume("standby", "pair", "failover", FAILOVER_TOPICS)
        self.producer = self._client("producer", PRODUCER, ["--name", "demo-producer", "--size", str(SIZE_BYTES)])
        self.set_rates(dict.fromkeys(TOPICS, rate_per_s))

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """Change the named topics' rates; all others keep theirs."""
        if self.producer is None:
            raise RuntimeError("start the workload first")
        for topic, rate in rates.items():
            self.rates[topic] = rate
            self.producer.tell(json.dumps({"topic": topic, "rate": rate}))

    def build_backlog(self, topics: Iterable[str]) -> None:
        """A subscription that receives and does not acknowledge, until `clear_backlog`."""
        self._backlog = self._consume("slow", "slow", "exclusive", topics)
        self._backlog.tell(json.dumps({"ack": False}))

    def clear_backlog(self) -> None:
        """The slow reader acknowledges what it holds and goes on as any other."""
        if self._backlog is not None:
            self._backlog.tell(json.dumps({"ack": True}))

    def stop(self, drain_s: float) -> None:
        """Producers stop and wait for acknowledgements; readers get the time to read the rest."""
        if self.producer is not None:
            self.producer.stop(60)
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
        lookups = [word for url in self.cluster.lookup_urls() for word in ("--lookup", url)]
        return self.cluster.start(name, [*program, *lookups, *more, "--log", str(log)], stdin=True)
