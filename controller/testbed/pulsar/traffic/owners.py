"""Which broker serves a topic now: its bundle by the namespace's ring, and the broker that owns the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from controller.domain.ids import Bundle, topic_hash
from controller.domain.ring import locate
from controller.testbed.pulsar.admin import explain
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import PulsarFailed


class Served(NamedTuple):
    """Where a topic is: `broker` is the name of a server, None while nobody owns the bundle."""

    bundle: str
    broker: str | None


def read_ring(cluster: PulsarCluster, namespace: str) -> list[Bundle]:
    """The bundles of a namespace in the order of the ring. Raises PulsarFailed for one that does not exist."""
    asked = cluster.servers.running_brokers()[0]
    answer = cluster.admin.request("GET", asked, f"/admin/v2/namespaces/{namespace}/bundles")
    if answer.status_code != 200:
        raise PulsarFailed(f"bundles of {namespace} cannot be read: {explain(answer)}")
    bounds = (int(text, 16) for text in answer.json()["boundaries"])
    return [Bundle(namespace, low, high) for low, high in pairwise(bounds)]


def locate_topics(cluster: PulsarCluster, namespace: str, topics: Sequence[str]) -> dict[str, Served]:
    """The bundle and broker of each topic of the namespace. A broker that does not answer owns nothing here."""
    ring = read_ring(cluster, namespace)
    owner = {
        bundle: name for name in cluster.servers.running_brokers() for bundle in cluster.admin.owned_bundles(name) or []
    }
    bundles = {topic: str(locate(ring, topic_hash(topic))) for topic in topics}
    return {topic: Served(bundle, owner.get(bundle)) for topic, bundle in bundles.items()}
