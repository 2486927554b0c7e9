"""Reads and tells the facts of a Pulsar cluster that orders and placement depend on (`controller/domain/facts.py`).

They are read once a minute, and at once when brokers come or go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.speaker import Speaker
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import Manager, RuntimeConfiguration, read_runtime_configuration
from controller.brokers.pulsar.outcomes import Answer, CallFailed, Outcome
from controller.brokers.pulsar.poll import ClusterPoll
from controller.domain.facts import BROKER, DENIED, ISOLATION, LEADER

VERSION_PATH = "/admin/v2/brokers/version"
EVERY_MS = 60_000
DENIED_FOR_MS = 300_000  # after a refusal of the credentials, until orders are tried again
Fact = Mapping[str, Any] | None

log = logging.getLogger(__name__)


class FactReader:
    """Keeps the journal's facts about the cluster current."""

    def __init__(self, poll: ClusterPoll, calls: PulsarCalls, speaker: Speaker, boot_ms: Callable[[], int]) -> None:
        self._poll, self._calls, self._speaker, self._boot_ms = poll, calls, speaker, boot_ms
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._denied_until_ms, self._denied_why = 0, ""

    def version_of(self, broker: str) -> str:
        """The broker's version as last read; empty if it is not known."""
        return str(self._facts.get(f"{BROKER}{broker}", {}).get("version", ""))

    async def run(self) -> None:
        """Read and tell until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_s, brokers = loop.time(), self._poll.members.brokers
            await self._read()
            while loop.time() < began_s + EVERY_MS / 1000 and self._poll.members.brokers == brokers:
                self._tell()  # until the journal has them
                await asyncio.sleep(1)

    def note_denied(self, why: str) -> None:
        """An order was answered 401 or 403: no orders for a while."""
        log.error("Pulsar refused the credentials of an order: %s; no orders for %d s", why, DENIED_FOR_MS // 1000)
        self._denied_until_ms, self._denied_why = self._boot_ms() + DENIED_FOR_MS, why
        self._speaker.tell_fact(DENIED, {"why": why})

    async def _read(self) -> None:
        admin, members = self._poll.admin, self._poll.members
        facts = await read_broker_facts(admin, dict(members.addresses))
        leader = await self._calls.find_leader()
        if leader is not None:
            facts[LEADER] = {"broker": leader}
        policies = await read_policies(admin, self._poll.cluster)
        facts |= {DENIED: {"why": "the isolation policies cannot be read"}} if policies is None else policies
        self._facts = facts

    def _tell(self) -> None:
        """Tell the facts that the journal lacks, and take back those that no longer hold."""
        facts = dict(self._facts)
        if self._boot_ms() < self._denied_until_ms:
            facts[DENIED] = {"why": self._denied_why}
        for key, value in facts.items():
            self._speaker.tell_fact(key, value)
        for key in list(self._speaker.state().observed.facts):
            if key not in facts and key.startswith((DENIED, ISOLATION)):
                self._speaker.tell_fact(key, None)


async def read_broker_facts(admin: PulsarAdmin, addresses: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    """`broker:ID` of every broker that answers; what a broker did not tell is left out and counts as unknown."""
    found = await asyncio.gather(*(_read_broker(admin, address) for address in addresses.values()))
    return {f"{BROKER}{broker}": fact for broker, fact in zip(addresses, found, strict=True) if fact is not None}


async def _read_broker(admin: PulsarAdmin, address: str) -> Fact:
    try:
        configuration = await read_runtime_configuration(admin, address)
    except CallFailed:
        return None
    version = await admin.get(VERSION_PATH, address)
    return describe_broker(configuration, _text_of(version))


def describe_broker(configuration: RuntimeConfiguration, version: str) -> dict[str, Any]:
    """The fact about a broker from its runtime configuration, which has dynamic values applied."""
    values, manager = configuration.values, configuration.manager
    known = manager is not None and manager is not Manager.OTHER
    fact: dict[str, Any] = {
        "manager": manager.value if known and manager else values.get("loadManagerClassName", "unknown"),
        "version": version,
        "stats_period_ms": int(configuration.stats_period_s * 1000),
    }
    switches = {
        "load_balancer": "loadBalancerEnabled",
        "shedding": "loadBalancerSheddingEnabled",
        "auto_split": "loadBalancerAutoBundleSplitEnabled",
    }
    fact |= {name: values[key].lower() == "true" for name, key in switches.items() if key in values}
    timeout = values.get("namespaceBundleUnloadingTimeoutMs", "")
    if timeout.isdigit():
        fact["unload_timeout_ms"] = int(timeout)
    syncer = values.get("loadBalancerServiceUnitTableViewSyncer", "None")
    if syncer not in ("", "None", "null"):
        fact["syncer"] = syncer
    return fact


async def read_policies(admin: PulsarAdmin, cluster: str) -> dict[str, Mapping[str, Any]] | None:
    """Isolation policies by `isolation:NAME`; None if they cannot be read."""
    answer = await admin.get(f"/admin/v2/clusters/{quote(cluster, safe='')}/namespaceIsolationPolicies")
    if answer.outcome is Outcome.NOT_FOUND:
        return {}
    try:
        policies = answer.mapping()
    except CallFailed:
        return None
    return {f"{ISOLATION}{name}": policy for name, policy in policies.items() if isinstance(policy, dict)}


def _text_of(answer: Answer) -> str:
    return answer.body.decode("utf-8", "replace").strip().strip('"')[:100] if answer.outcome is Outcome.OK else ""
