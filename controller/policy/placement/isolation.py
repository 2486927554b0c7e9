"""Which brokers a namespace may use, by isolation policy, version and failure domain; for rounds and assignments.

The rules are Pulsar's filters (`pulsar/placement/filters.py`). They give the same answer for all namespaces of one
*kind*: the index of the first isolation policy that matches, or the number of policies for a namespace without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from controller.domain.settings.placement import FailureDomain, IsolationPolicy, host_of, names_a_port
from controller.pulsar.placement import filters
from controller.pulsar.placement.filters import DEFAULT_DOMAIN, BadBrokerVersion


class Isolation:
    """The policies of a cluster. Caches the kinds of namespaces."""

    def __init__(self, policies: tuple[IsolationPolicy, ...]) -> None:
        self.policies = policies
        self._filters = [filters.IsolationPolicy(p.primary, p.secondary, p.min_available) for p in policies]
        self._kinds: dict[str, int] = {}

    @property
    def kinds(self) -> int:
        """The number of kinds; the last kind has no policy."""
        return len(self.policies) + 1

    def kind_of(self, namespace: str) -> int:
        """The kind of a namespace."""
        found = self._kinds.get(namespace)
        if found is None:
            matches = (at for at, policy in enumerate(self.policies) if _any_full(policy.namespaces, namespace))
            found = self._kinds[namespace] = next(matches, len(self.policies))
        return found

    def allowed(self, kind: int, available: Sequence[str]) -> list[str]:
        """Those of the available brokers that a namespace of this kind may use, in their order of preference."""
        policy = self._filters[kind] if kind < len(self._filters) else None
        return filters.by_isolation(available, policy, self._filters, matches=matches_broker)

    def may_stay(self, kind: int, brokers: Iterable[str]) -> list[str]:
        """Where bundles of this kind may stay, available or not: its primaries; without a policy all shared brokers."""
        if kind < len(self.policies):
            return [broker for broker in brokers if matches_broker(broker, self.policies[kind].primary)]
        return self.allowed(kind, list(brokers))


@lru_cache(maxsize=8)
def isolation_of(policies: tuple[IsolationPolicy, ...]) -> Isolation:
    """One instance for equal policies, so that its cache outlasts a round."""
    return Isolation(policies)


@lru_cache(maxsize=1 << 16)
def matches_broker(broker: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern matches the whole host, or the whole host:port where the pattern has a colon. That colon may be
    one of an IPv6 address, whose brackets belong to the host, as in Pulsar."""
    host = host_of(broker)
    return any(
        re.fullmatch(pattern, broker if names_a_port(pattern) else host)
        or (host.startswith("[") and re.fullmatch(pattern, host))
        for pattern in patterns
    )


def domain_of(broker: str, domains: Iterable[FailureDomain]) -> str:
    """The failure domain that names the broker or its host; Pulsar's `default` for one that none names."""
    host = host_of(broker)
    return next((d.name for d in domains if broker in d.brokers or host in d.brokers), DEFAULT_DOMAIN)


def of_newest_version(versions: Mapping[str, str | None]) -> frozenset[str]:
    """Brokers of the newest version; all brokers when one reports no version (the filter is skipped, as in Pulsar)."""
    try:
        return frozenset(filters.by_version(versions, prefer_later=True))
    except BadBrokerVersion:
        return frozenset(versions)


def _any_full(patterns: Iterable[str], text: str) -> bool:
    return any(re.fullmatch(pattern, text) for pattern in patterns)
