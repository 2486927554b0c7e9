"""Rules of placement on a real cluster: set by its admin interface, read back as facts, held against commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.facts import read_broker_facts
from controller.agent.cluster.observer import Observer
from controller.brokers.pulsar.addresses import Directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.brokers.pulsar.policies import read_policies
from controller.config.sections.pulsar_cluster import PulsarCluster as Connection
from controller.domain.ids import Bundle, topic_hash
from controller.domain.ring import initial_bundles
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import CLUSTER_NAME
from tests.pulsar.waiting import wait_until
from tests.unit.control.observed_driver import ObservedDriver

pulsar = pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = pytest.mark.pulsar

NAMESPACE, OTHER = "tests/rules", "tests/plain"
RING = initial_bundles(NAMESPACE, 4)


def change(cluster: PulsarCluster, method: str, path: str, body: Any = None) -> None:
    answer = httpx.request(method, f"{cluster.web_urls[0]}/admin/v2/{path}", json=body, timeout=30, trust_env=False)
    assert answer.status_code in (200, 204), (path, answer.status_code, answer.text)


def owners(cluster: PulsarCluster) -> dict[str, str]:
    """Bundle -> broker id."""
    return {
        name: cluster.spec.broker_id(broker)
        for broker in cluster.spec.broker_names
        for name in cluster.admin.owned_bundles(broker) or ()
        if name.startswith(f"{NAMESPACE}/")
    }


async def read_facts(cluster: PulsarCluster) -> dict[str, Mapping[str, Any]]:
    async with PulsarAdmin(Connection(service_urls=tuple(cluster.web_urls))) as admin:
        members = await Directory(admin, CLUSTER_NAME).refresh()
        facts = await read_broker_facts(admin, members.addresses)
        return {**facts, **await read_policies(admin, CLUSTER_NAME, members.addresses, domains_enabled=True)}


async def count_non_persistent(cluster: PulsarCluster, held: Mapping[str, str]) -> dict[str, int | None]:
    async with PulsarAdmin(Connection(service_urls=tuple(cluster.web_urls))) as admin:
        members = await Directory(admin, CLUSTER_NAME).refresh()
        calls = PulsarCalls(
            admin, Observer(), exclude_namespaces(()), cluster=lambda: CLUSTER_NAME,
            addresses=lambda: members.addresses, timeout_s=lambda broker: 10.0,
            on_denied=pytest.fail, find_stats=lambda broker, bundle: pytest.fail(bundle),
        )  # fmt: skip
        return {name: await calls.count_non_persistent(Bundle.parse(name), owner) for name, owner in held.items()}


def controller_of(facts: Mapping[str, Any], held: Mapping[str, str]) -> ObservedDriver:
    """A controller that was told what was read of the cluster. Its own balancer counts as off."""
    driver = ObservedDriver()
    brokers = sorted(key.removeprefix("broker:") for key in facts if key.startswith("broker:"))
    for broker in brokers:
        driver.join(broker, nonce="agent", authority="metadata", runtime="pulsar", can_fence=False)
    for key, value in facts.items():
        own = {"shedding": False, "auto_split": False} if key.startswith("broker:") else {}
        driver.tell(brokers[0], "fact", key=key, value={**value, **own})
    driver.tell(brokers[0], "ring", namespace=NAMESPACE, boundaries=[*(b.lower for b in RING), 0xFFFFFFFF])
    for broker in brokers:
        driver.observe(broker, *(Bundle.parse(name) for name, owner in held.items() if owner == broker))
    return driver


def test_domains_and_groups_are_read_back_and_hold_for_commands(cluster: PulsarCluster) -> None:
    for namespace in (NAMESPACE, OTHER):
        cluster.admin.create_namespace("broker1", namespace, 4)
    change(cluster, "POST", f"namespaces/{NAMESPACE}/antiAffinity", "ledger")
    lossy = f"non-persistent://{NAMESPACE}/lossy"
    names = [*(f"persistent://{NAMESPACE}/t{at}" for at in range(16)), lossy, f"persistent://{OTHER}/t"]
    client = pulsar.Client(cluster.client_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        producers = [client.create_producer(name) for name in names]
        held = wait_until(lambda: owners(cluster), lambda found: len(found) == 4, "all bundles to be owned", 120.0)
        bundle, source = min(held.items())
        alone, beside = (b for b in map(cluster.spec.broker_id, cluster.spec.broker_names) if b != source)
        change(cluster, "POST", f"clusters/{CLUSTER_NAME}/failureDomains/rack-1", {"brokers": [alone]})
        change(cluster, "POST", f"clusters/{CLUSTER_NAME}/failureDomains/rack-2", {"brokers": [beside, source]})
        facts = asyncio.run(read_facts(cluster))
        assert facts[f"anti_affinity:{NAMESPACE}"] == {"group": "ledger"}
        assert f"anti_affinity:{OTHER}" not in facts
        assert facts["failure_domain:rack-1"] == {"brokers": [alone], "enabled": True}
        assert set(facts["failure_domain:rack-2"]["brokers"]) == {beside, source}

        in_rack_1 = sum(owner == alone for owner in held.values())  # of the other three, so never as many as in rack-2
        fewer, more = (beside, alone) if in_rack_1 > 3 - in_rack_1 else (alone, beside)
        driver = controller_of(facts, held)
        driver.command("unload_bundle", bundle=bundle, to=more)
        assert f"the failure domain of {more} has more bundles" in driver.rejection()
        if fewer == alone:  # the only broker of its domain, so no other one there has fewer
            driver.command("unload_bundle", bundle=bundle, to=fewer)
            assert driver.state.observed.orders[bundle].target == fewer

        known = asyncio.run(count_non_persistent(cluster, held))
        there = next(str(one) for one in RING if one.contains(topic_hash(lossy)))
        assert known == {name: int(name == there) for name in held}
        for producer in producers:
            producer.close()
    finally:
        client.close()
        change(cluster, "DELETE", f"namespaces/{NAMESPACE}/antiAffinity")
        for rack in ("rack-1", "rack-2"):
            change(cluster, "DELETE", f"clusters/{CLUSTER_NAME}/failureDomains/{rack}")
    left = asyncio.run(read_facts(cluster))
    assert not [key for key in left if key.startswith(("anti_affinity:", "failure_domain:"))]
