"""Reads and tells the facts of a Pulsar cluster that orders and placement depend on (`controller/domain/facts.py`).

They are read once a minute, and at once when brokers come or go; groups of namespaces as `AntiAffinityGroups` says.
Rules that cannot be read stay as they were known. A fact that the journal would not take stops all orders, with the
reason: no rule is dropped silently.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.non_persistent import NonPersistentTopics
from controller.agent.cluster.speaker import Speaker
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.facts import Manager, RuntimeConfiguration, read_runtime_configuration
from controller.brokers.pulsar.outcomes import Answer, CallFailed, Outcome
from controller.brokers.pulsar.policies import REFUSED, AntiAffinityGroups, Policies, read_cluster_policies
from controller.brokers.pulsar.poll import ClusterPoll
from controller.domain.errors import label, printable
from controller.domain.facts import (
    ANTI_AFFINITY,
    BROKER,
    DENIED,
    FAILURE_DOMAIN,
    ISOLATION,
    LEADER,
    MUST_BE_OFF,
    NON_PERSISTENT,
    find_flaw,
)
from controller.domain.ids import Bundle

MOST_DIGITS = 15  # of a time in ms
VERSION_PATH = "/admin/v2/brokers/version"
EVERY_MS = 60_000
DENIED_FOR_MS = 300_000  # after a refusal of the credentials, until orders are tried again
FORGOTTEN_AFTER_MS = 600_000  # a broker that restarts is listed again by then; a pod with another address never is
Fact = Mapping[str, Any] | None

log = logging.getLogger(__name__)


class FactReader:
    """Keeps the journal's facts about the cluster current."""

    def __init__(
        self,
        poll: ClusterPoll,
        calls: PulsarCalls,
        speaker: Speaker,
        non_persistent: NonPersistentTopics,
        boot_ms: Callable[[], int],
    ) -> None:
        self._poll, self._calls, self._speaker, self._boot_ms = poll, calls, speaker, boot_ms
        self._non_persistent = non_persistent
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._policies: Policies | None = None  # None: never read
        self._groups = AntiAffinityGroups(poll.admin)
        self._refused: dict[str, str] = {}  # what credentials do not suffice to read -> why
        self._denied_until_ms, self._denied_why = 0, ""
        self._denying: dict[str, str] = {}  # broker that refuses polls -> why
        self._unlisted_ms: dict[str, int] = {}  # broker that the journal has a fact of -> since when it is not listed
        self._unfit = ""  # why the journal cannot take a fact that was read

    def version_of(self, broker: str) -> str:
        """The broker's version as last read, here or before a restart; empty if it is not known."""
        key = f"{BROKER}{broker}"
        known = (facts.get(key, {}).get("version") for facts in (self._facts, self._speaker.state().observed.facts))
        return next((str(version) for version in known if version), "")

    async def run(self) -> None:
        """Read and tell until cancelled."""
        loop = asyncio.get_running_loop()
        self._non_persistent.restore(self._speaker.state().observed.facts)
        while True:
            began_s, brokers = loop.time(), self._poll.members.brokers
            await self._read()
            while loop.time() < began_s + EVERY_MS / 1000 and self._poll.members.brokers == brokers:
                await self._read_groups()
                await self._non_persistent.ask_again(self._count_non_persistent, self._speaker.state().observed.bundles)
                self._tell()  # until the journal has them
                await asyncio.sleep(1)

    def note_denied(self, why: str) -> None:
        """An order was answered 401 or 403: no orders for a while."""
        log.error("Pulsar refused the credentials of an order: %s; no orders for %d s", why, DENIED_FOR_MS // 1000)
        self._denied_until_ms = self._boot_ms() + DENIED_FOR_MS
        self._denied_why = f"it refused the credentials of an order: {why}"
        self._speaker.tell_fact(DENIED, {"why": self._denied_why})

    def note_poll_failed(self, broker: str, failure: CallFailed) -> bool:
        """A broker did not say what it owns. Returns whether for want of credentials: no orders then until all brokers
        take them, as of who is refused nobody knows what has become of its bundles."""
        if failure.outcome not in REFUSED:
            return False
        if not self.denying:
            log.error("no orders are sent: brokers do not tell what they own: %s", failure)
        self._denying[broker] = f"brokers do not tell what they own: {failure}"
        self._speaker.tell_fact(DENIED, {"why": self._find_denial() or self._denying[broker]})
        return True

    def forget_refusal(self, broker: str) -> None:
        """A broker said what it owns, or has been silent for so long that it stands for itself alone."""
        self._denying.pop(broker, None)

    @property
    def denying(self) -> list[str]:
        """The listed brokers whose last word on what they own was a refusal, the first one first."""
        listed = frozenset(self._poll.members.brokers)
        return [broker for broker in self._denying if broker in listed]

    async def _read(self) -> None:
        admin, members = self._poll.admin, self._poll.members
        facts = self._with_versions(await read_broker_facts(admin, dict(members.addresses)))
        leader = await self._calls.find_leader()
        if leader is not None:
            facts[LEADER] = {"broker": leader}
        self._facts = facts
        await self._read_policies(uses_failure_domains(facts))

    def _with_versions(self, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """The facts, with the last known version of each broker that did not tell it now. One missing answer does not
        stop orders."""
        known = {key: self.version_of(key.removeprefix(BROKER)) for key, fact in found.items() if "version" not in fact}
        return {key: {**fact, "version": known[key]} if known.get(key) else fact for key, fact in found.items()}

    async def _read_policies(self, domains_enabled: bool) -> None:
        try:
            self._policies = await read_cluster_policies(self._poll.admin, self._poll.cluster, domains_enabled)
            self._refused.pop("policies", None)
        except CallFailed as error:
            log.warning("the cluster's rules of placement cannot be read: %s", error)
            if self._policies is None or error.outcome in REFUSED:
                self._refused["policies"] = f"its rules of placement cannot be read: {error}"

    async def _read_groups(self) -> None:
        try:
            await self._groups.read_due(self._speaker.state().observed.rings.keys())
            self._refused.pop("groups", None)
        except CallFailed as error:
            self._refused["groups"] = f"anti-affinity groups cannot be read: {error}"

    async def _count_non_persistent(self, bundle: Bundle) -> int | None:
        seen = self._speaker.state().observed.bundles.get(str(bundle))
        if seen is None or seen.broker is None:
            return None
        return await self._calls.count_non_persistent(bundle, seen.broker)

    def _tell(self) -> None:
        """Tell the facts that the journal lacks, and take back those that no longer hold."""
        facts = {
            **(self._policies or {}), **self._groups.to_facts(), **self._non_persistent.to_facts(), **self._facts
        }  # fmt: skip
        changed = self._find_changed(facts)
        denied = self._find_denial()
        if denied:  # first: no order is to go between it and what it is about
            facts[DENIED] = {"why": denied}
            self._speaker.tell_fact(DENIED, facts[DENIED])
        for key, value in changed.items():
            self._speaker.tell_fact(key, value)
        self._note_unlisted()
        for key in list(self._speaker.state().observed.facts):
            if key not in facts and self._is_over(key):
                self._speaker.tell_fact(key, None)

    def _note_unlisted(self) -> None:
        known = {k.removeprefix(BROKER) for k in self._speaker.state().observed.facts if k.startswith(BROKER)}
        unlisted, now_ms = known.difference(self._poll.members.brokers), self._boot_ms()
        self._unlisted_ms = {broker: self._unlisted_ms.get(broker, now_ms) for broker in unlisted}

    def _find_changed(self, facts: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """The facts that the journal lacks and can take; notes why it cannot take one of the others."""
        known, before, self._unfit = self._speaker.state().observed.facts, self._unfit, ""
        changed = {key: value for key, value in facts.items() if known.get(key) != value}
        for key in list(changed):
            flaw = find_flaw(key, changed[key])
            if flaw is not None:
                del changed[key]
                self._unfit = self._unfit or f"{label(key)} cannot be journaled, so it would not hold: {flaw}"
        if self._unfit and self._unfit != before:
            log.error("no orders are sent: %s", self._unfit)
        return changed

    def _find_denial(self) -> str:
        """Why no orders may be sent; empty if they may."""
        if self._boot_ms() < self._denied_until_ms:
            return self._denied_why
        return [*(self._denying[broker] for broker in self.denying), *self._refused.values(), self._unfit][0]

    def _is_over(self, key: str) -> bool:
        """Whether a fact that was not found no longer holds: what it is about has been read."""
        if key.startswith(ANTI_AFFINITY):
            namespace = key.removeprefix(ANTI_AFFINITY)
            return namespace in self._groups.known or namespace not in self._speaker.state().observed.rings
        if key.startswith(BROKER):
            since_ms = self._unlisted_ms.get(key.removeprefix(BROKER))
            return since_ms is not None and self._boot_ms() - since_ms >= FORGOTTEN_AFTER_MS
        return (
            key == DENIED
            or key.startswith(NON_PERSISTENT)
            or (self._policies is not None and key.startswith((ISOLATION, FAILURE_DOMAIN)))
        )


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
    """The fact about a broker from its runtime configuration, which has dynamic values applied. `version`: empty if it
    did not tell it, and then left out."""
    values, manager = configuration.values, configuration.manager
    known = manager is not None and manager is not Manager.OTHER
    fact: dict[str, Any] = {
        "manager": manager.value if known and manager else values.get("loadManagerClassName", "unknown"),
        **({"version": version} if version else {}),
        "stats_period_ms": int(configuration.stats_period_s * 1000),
    }
    switches = {
        "load_balancer": "loadBalancerEnabled",
        **MUST_BE_OFF,
        "failure_domains": "failureDomainsEnabled",
    }
    fact |= {name: values[key].lower() == "true" for name, key in switches.items() if key in values}
    if configuration.shedding_excluded:
        fact["excluded_namespaces"] = list(configuration.shedding_excluded)
    timeout = values.get("namespaceBundleUnloadingTimeoutMs", "")
    if timeout.isascii() and timeout.isdigit() and len(timeout) <= MOST_DIGITS:
        fact["unload_timeout_ms"] = int(timeout)
    syncer = values.get("loadBalancerServiceUnitTableViewSyncer", "None")
    if syncer not in ("", "None", "null"):
        fact["syncer"] = syncer
    return fact


def uses_failure_domains(facts: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a broker says that it uses the cluster's failure domains."""
    return any(fact.get("failure_domains") for key, fact in facts.items() if key.startswith(BROKER))


def _text_of(answer: Answer) -> str:
    text = answer.body.decode("utf-8", "replace").strip().strip('"')[:100] if answer.outcome is Outcome.OK else ""
    return printable(text)
