"""Topics that fall where a test wants them, and lookups as a client makes them."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx

from controller.domain.ids import topic_hash
from controller.domain.ring import locate
from controller.domain.state import ClusterState
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.waiting import wait_until

PATIENCE_S = 180.0  # only a hang takes so long


def topics_in(state: ClusterState, namespace: str, each: int) -> list[str]:
    """That many topic names for every bundle of the namespace, by bundle in ring order."""
    bundles = state.namespaces[namespace]
    found: Counter[str] = Counter()
    names: list[tuple[str, str]] = []
    for number in itertools.count():
        topic = f"persistent://{namespace}/t{number}"
        bundle = str(locate(bundles, topic_hash(topic)))
        if found[bundle] < each:
            found[bundle] += 1
            names.append((bundle, topic))
        if len(names) == each * len(bundles):
            return [topic for _, topic in sorted(names)]
    raise AssertionError("unreachable")


def look_up(cluster: LocalCluster, topics: list[str], url: str = "") -> dict[str, str]:
    """Ask a living agent, this one if it is given, for each topic until it is served; topic -> broker. All at once, as
    clients would. An agent that has not read of the namespace yet does not know it."""
    url = url or cluster.lookup_urls()[0]
    answers: dict[str, str] = {}

    def ask(topic: str) -> None:
        def answered() -> bool:
            reply = httpx.get(f"{url}/lookup", params={"topic": topic}, timeout=30)
            behind = reply.status_code == 404 and reply.json()["error"] == "unknown_namespace"
            assert reply.status_code in (200, 503) or behind, reply.text
            if reply.status_code == 200:
                answers[topic] = reply.json()["broker"]
            return reply.status_code == 200

        wait_until(answered, PATIENCE_S, 0.2)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, topics))
    return answers
