"""What isolation policies, versions, anti-affinity groups and a cap on bundles say about the assignment of a bundle.

Of the brokers that may be granted something now, kept for as long as these are the same. A namespace whose isolation
policy leaves it no broker gets none, as in Pulsar, whose lookup is then left without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controller.domain.holdings import Holdings
from controller.domain.settings.placement import PlacementSettings
from controller.policy.placement.isolation import domain_of, isolation_of, of_newest_version


@dataclass(slots=True)
class Group:
    """An anti-affinity group: bundles of its namespaces by broker and by failure domain, kept up to date."""

    by_broker: dict[str, int] = field(default_factory=dict)
    by_domain: dict[str, int] = field(default_factory=dict)


class PlacementLimits:
    """See the module's text. `versions`: eligible broker -> its version, None if it tells none; `holdings` returns the
    newest index."""

    def __init__(
        self,
        settings: PlacementSettings,
        max_bundles: int | None,
        versions: Mapping[str, str | None],
        holdings: Callable[[], Holdings],
    ) -> None:
        self._settings, self._holdings, self.max_bundles = settings, holdings, max_bundles
        self._isolation = isolation_of(settings.isolation)
        newest = of_newest_version(versions) if settings.prefer_later_versions else versions
        self._available = sorted(broker for broker in versions if broker in newest)
        self._allowed: dict[int, frozenset[str]] = {}
        self._domains: dict[str, str] = {}
        self._by_domain: dict[int, dict[str, list[str]]] = {}
        self._group_of = {name: at for at, group in enumerate(settings.anti_affinity) for name in group.namespaces}
        self._groups: dict[int, Group] = {}

    def kind_of(self, namespace: str) -> int:
        """Namespaces of one kind may use the same brokers."""
        return self._isolation.kind_of(namespace)

    def allowed(self, namespace: str) -> frozenset[str]:
        """The brokers that the namespace may use."""
        kind = self.kind_of(namespace)
        if kind not in self._allowed:
            self._allowed[kind] = frozenset(self._isolation.allowed(kind, self._available))
        return self._allowed[kind]

    def policy_name(self, namespace: str) -> str:
        """The namespace's isolation policy; empty for a shared one."""
        kind = self.kind_of(namespace)
        return self._settings.isolation[kind].name if kind < len(self._settings.isolation) else ""

    def group(self, namespace: str) -> Group | None:
        """The namespace's anti-affinity group as it is now."""
        at = self._group_of.get(namespace)
        if at is None:
            return None
        if at not in self._groups:
            group = self._groups[at] = Group()
            for member in self._settings.anti_affinity[at].namespaces:
                for broker, count in self._holdings().spread(member).items():
                    self._count(group, broker, count)
        return self._groups[at]

    def domain(self, broker: str) -> str:
        """The broker's failure domain; the same for all where there are none."""
        if broker not in self._domains:
            self._domains[broker] = domain_of(broker, self._settings.failure_domains)
        return self._domains[broker]

    def by_domain(self, namespace: str) -> Mapping[str, list[str]]:
        """Failure domain -> the brokers there that the namespace may use; domains without any are left out."""
        kind = self.kind_of(namespace)
        if kind not in self._by_domain:
            found: dict[str, list[str]] = {}
            for broker in sorted(self.allowed(namespace)):
                found.setdefault(self.domain(broker), []).append(broker)
            self._by_domain[kind] = found
        return self._by_domain[kind]

    def moved(self, namespace: str, source: str | None, target: str | None) -> None:
        """A bundle of the namespace left one broker and came to another."""
        group = self._groups.get(self._group_of.get(namespace, -1))
        if group is not None:
            for broker, sign in ((source, -1), (target, 1)):
                if broker is not None:
                    self._count(group, broker, sign)

    def _count(self, group: Group, broker: str, bundles: int) -> None:
        domain = self.domain(broker)
        group.by_broker[broker] = group.by_broker.get(broker, 0) + bundles
        group.by_domain[domain] = group.by_domain.get(domain, 0) + bundles
