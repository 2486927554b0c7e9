"""Reads a cluster's rules of placement as facts: isolation policies, failure domains, anti-affinity groups.

Pulsar keeps the group of a namespace with the namespace, and lists a group's members only to who names tenant and
group. So each namespace is asked for its group: a new one at once, the others again when due, few at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote

from controller.brokers.pulsar.addresses import owned_path
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.observe import exclude_namespaces, parse_owned
from controller.brokers.pulsar.outcomes import Answer, CallFailed, Outcome
from controller.domain.facts import ANTI_AFFINITY, FAILURE_DOMAIN, ISOLATION

FEW_NAMESPACES = 100
AGAIN_S, AGAIN_IF_MANY_S = 60.0, 300.0  # between two readings of a namespace's group
AT_ONCE, MOST_OF_A_READING = 4, 50  # requests, namespaces
MOST_NAME = 256  # characters of a group's name that are kept
REFUSED = frozenset({Outcome.UNAUTHENTICATED, Outcome.FORBIDDEN, Outcome.NO_CREDENTIALS})
# being deleted, or of another cluster: Pulsar then answers 412, or redirects there
_NOT_HERE = frozenset({Outcome.PRECONDITION, Outcome.CONFLICT, Outcome.REDIRECTED})

Policies = dict[str, Mapping[str, Any]]


async def read_cluster_policies(admin: PulsarAdmin, cluster: str, domains_enabled: bool) -> Policies:
    """Isolation policies and failure domains, by key of their fact. `domains_enabled`: whether Pulsar uses domains
    (`failureDomainsEnabled`). Raises CallFailed."""
    base = f"/admin/v2/clusters/{quote(cluster, safe='')}"
    isolation = _by_name(await admin.get(f"{base}/namespaceIsolationPolicies"))
    domains = _by_name(await admin.get(f"{base}/failureDomains"))
    return {
        **{f"{ISOLATION}{name}": policy for name, policy in isolation.items()},
        **{
            f"{FAILURE_DOMAIN}{name}": {"brokers": domain.get("brokers") or [], "enabled": domains_enabled}
            for name, domain in domains.items()
        },
    }


async def read_policies(
    admin: PulsarAdmin, cluster: str, addresses: Mapping[str, str], domains_enabled: bool
) -> Policies:
    """All rules of the cluster that concern namespaces its brokers serve now. Raises CallFailed."""
    policies = await read_cluster_policies(admin, cluster, domains_enabled)
    groups, namespaces = AntiAffinityGroups(admin), await _list_served(admin, cluster, addresses)
    while groups.lacks(namespaces):
        await groups.read_due(namespaces)
    return {**policies, **groups.to_facts()}


class AntiAffinityGroups:
    """The anti-affinity groups of namespaces. `known`: namespace -> its group; None: it has none."""

    def __init__(self, admin: PulsarAdmin, now_s: Callable[[], float] = time.monotonic) -> None:
        self._admin, self._now_s = admin, now_s
        self._due_s: dict[str, float] = {}
        self.known: dict[str, str | None] = {}

    def lacks(self, namespaces: Collection[str]) -> bool:
        """Whether one of the namespaces has not been asked yet."""
        return not self._due_s.keys() >= set(namespaces)

    def to_facts(self) -> Policies:
        """The groups by key of their fact."""
        return {f"{ANTI_AFFINITY}{name}": {"group": group} for name, group in self.known.items() if group}

    async def read_due(self, namespaces: Collection[str]) -> None:
        """Ask for the groups of those namespaces that are due, and forget all namespaces that are not among these.

        What cannot be read stays as it was known. Raises CallFailed where the credentials do not suffice.
        """
        for gone in self._due_s.keys() - set(namespaces):
            del self._due_s[gone]
            self.known.pop(gone, None)
        now_s = self._now_s()
        due = sorted((self._due_s.get(name, 0.0), name) for name in namespaces if self._due_s.get(name, 0.0) <= now_s)
        again_s = AGAIN_S if len(namespaces) <= FEW_NAMESPACES else AGAIN_IF_MANY_S
        slots = asyncio.Semaphore(AT_ONCE)

        async def ask(namespace: str) -> Answer:
            async with slots:
                return await self._admin.get(f"/admin/v2/namespaces/{quote(namespace, safe='/')}/antiAffinity")

        names = [name for _, name in due[:MOST_OF_A_READING]]
        answers = await asyncio.gather(*(ask(name) for name in names))
        for name, answer in zip(names, answers, strict=True):
            self._due_s[name] = now_s + again_s
            if answer.outcome is Outcome.OK:
                self.known[name] = parse_group(answer)
            elif answer.is_absent or answer.outcome in _NOT_HERE:
                self.known[name] = None
        refused = next((answer for answer in answers if answer.outcome in REFUSED), None)
        if refused is not None:
            raise refused.failure()


def parse_group(answer: Answer) -> str | None:
    """The name of a group; None for none, which is an empty answer."""
    text = answer.body.decode("utf-8", "replace").strip().strip('"')
    return text[:MOST_NAME] if text not in ("", "null") else None


def _by_name(answer: Answer) -> dict[str, Mapping[str, Any]]:
    """What a cluster has of one kind. Raises CallFailed."""
    if answer.is_absent:
        return {}
    return {name: given for name, given in answer.mapping().items() if isinstance(given, dict)}


async def _list_served(admin: PulsarAdmin, cluster: str, addresses: Mapping[str, str]) -> set[str]:
    """The namespaces of the bundles that brokers own; a broker that does not answer is left out."""
    exclude = exclude_namespaces(admin.settings.excluded_namespaces)
    paths = [(owned_path(cluster, broker), address) for broker, address in addresses.items()]
    answers = await asyncio.gather(*(admin.get(path, address, follow=False) for path, address in paths))
    found = set[str]()
    for answer in answers:
        try:
            found |= {bundle.namespace for bundle in parse_owned(answer, exclude)}
        except CallFailed:
            continue
    return found
