"""What isolation, versions, anti-affinity and a cap on bundles allow when a single bundle is placed or ordered away.

Rounds ask the tables of `rules.py` the same questions for all bundles at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controller.domain.decision import Reason
from controller.domain.holdings import Holdings
from controller.domain.settings.placement import PlacementSettings
from controller.policy.placement.isolation import domain_of, isolation_of, of_newest_version


@dataclass(slots=True)
class GroupCounts:
    """Bundles of an anti-affinity group by broker and by failure domain, kept up to date."""

    by_broker: dict[str, int] = field(default_factory=dict)
    by_domain: dict[str, int] = field(default_factory=dict)


class AssignmentRules:
    """What isolation, versions, anti-affinity and a cap on bundles allow, of the brokers that may be granted something.

    Kept for as long as these brokers are the same. `versions`: eligible broker -> its version, None if unknown;
    `holdings` returns the newest index.
    """

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
        self._groups: dict[int, GroupCounts] = {}

    def kind_of(self, namespace: str) -> int:
        """The namespace's kind; namespaces of one kind may use the same brokers."""
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

    def group(self, namespace: str) -> GroupCounts | None:
        """The namespace's anti-affinity group as it is now, if it has one."""
        at = self._group_of.get(namespace)
        if at is None:
            return None
        if at not in self._groups:
            group = self._groups[at] = GroupCounts()
            for member in self._settings.anti_affinity[at].namespaces:
                for broker, count in self._holdings().spread(member).items():
                    self._count(group, broker, count)
        return self._groups[at]

    def domain(self, broker: str) -> str:
        """The broker's failure domain; the same for all where none is configured."""
        if broker not in self._domains:
            self._domains[broker] = domain_of(broker, self._settings.failure_domains)
        return self._domains[broker]

    def by_domain(self, namespace: str) -> Mapping[str, list[str]]:
        """Failure domain -> its brokers that the namespace may use; domains without any are left out."""
        kind = self.kind_of(namespace)
        if kind not in self._by_domain:
            found: dict[str, list[str]] = {}
            for broker in sorted(self.allowed(namespace)):
                found.setdefault(self.domain(broker), []).append(broker)
            self._by_domain[kind] = found
        return self._by_domain[kind]

    def find_crowding(self, namespace: str, broker: str, leaving: str | None) -> Reason | None:
        """The rule of its anti-affinity group that keeps a bundle of the namespace away from the broker, or None.

        `leaving`: where the bundle is now; there it does not count, and staying is a choice if it may be granted.
        """
        group = self.group(namespace)
        if group is None:
            return None
        home = self.domain(leaving) if leaving is not None else None
        choices = self.by_domain(namespace)
        in_domain = {name: group.by_domain.get(name, 0) - (name == home) for name in choices}
        fewest = min(in_domain.values(), default=0)
        if in_domain.get(self.domain(broker), fewest) > fewest:
            return Reason.FAILURE_DOMAIN
        near = [one for name, brokers in choices.items() if in_domain[name] == fewest for one in brokers]
        held = {one: group.by_broker.get(one, 0) - (one == leaving) for one in near}
        return Reason.ANTI_AFFINITY if held.get(broker, 0) > min(held.values(), default=0) else None

    def note_move(self, namespace: str, source: str | None, target: str | None) -> None:
        """Count a bundle of the namespace for the target instead of the source."""
        group = self._groups.get(self._group_of.get(namespace, -1))
        if group is not None:
            for broker, sign in ((source, -1), (target, 1)):
                if broker is not None:
                    self._count(group, broker, sign)

    def _count(self, group: GroupCounts, broker: str, bundles: int) -> None:
        domain = self.domain(broker)
        group.by_broker[broker] = group.by_broker.get(broker, 0) + bundles
        group.by_domain[domain] = group.by_domain.get(domain, 0) + bundles
