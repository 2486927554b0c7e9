"""Checks rules of placement by names and with Pulsar's filters, independently of the arrays that rounds use.

`check_placement` is part of I7: no move of a round breaks a hard rule, given the moves before it.
"""

from __future__ import annotations

from collections import Counter

from controller.domain.decision import DecisionKind, RoundResult
from controller.domain.errors import InvariantBroken
from controller.domain.ids import Bundle
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import ClusterState
from controller.policy.placement.isolation import domain_of, isolation_of


def check_placement(result: RoundResult, state: ClusterState, settings: PolicySettings) -> None:
    """Raise InvariantBroken for a move that breaks a rule.

    These are moves to a broker that isolation forbids, beyond the cap on bundles, or to a failure domain or broker with
    more bundles of the anti-affinity group than the source has.
    """
    if not has_rules(settings):
        return
    isolation, available = isolation_of(settings.placement.isolation), _available(state)
    held = Counter({broker: state.holdings.total(broker) for broker in state.brokers})
    groups = _Groups(state, settings)
    moves = [d for d in result.decisions if d.kind is DecisionKind.TRANSFER and d.bundle and d.source and d.target]
    for move in moves:
        source, target, bundle = str(move.source), str(move.target), Bundle.parse(str(move.bundle))
        kind = isolation.kind_of(bundle.namespace)
        if target not in isolation.allowed(kind, available):
            raise InvariantBroken(f"I7: {move.id} moves {bundle} to {target}, which isolation forbids")
        most = settings.caps.max_bundles
        if most is not None and held[target] >= most and move.swapped_with is None:
            raise InvariantBroken(f"I7: {move.id} moves {bundle} to {target}, which holds {held[target]} of {most}")
        may_stay = source in isolation.allowed(kind, available) or source in isolation.may_stay(kind, [source])
        if may_stay and groups.worse(bundle.namespace, source, target):
            raise InvariantBroken(f"I7: {move.id} moves {bundle} to {target}, closer to others of its group")
        held.update({target: 1, source: -1})
        groups.move(bundle.namespace, source, target)


def count_misplaced(state: ClusterState, settings: PolicySettings) -> int:
    """Count the bundles on brokers where isolation forbids them."""
    isolation, available = isolation_of(settings.placement.isolation), _available(state)
    count = 0
    for record in state.bundles.values():
        if record.by is not None and settings.placement.isolation:
            kind, broker = isolation.kind_of(record.bundle.namespace), record.by.broker
            count += not (broker in isolation.allowed(kind, available) or isolation.may_stay(kind, [broker]))
    return count


def domain_gap(state: ClusterState, settings: PolicySettings) -> int:
    """The largest difference in bundles of a group between failure domains with living brokers (or between brokers)."""
    groups = _Groups(state, settings)
    return max((max(found.values()) - min(found.values()) for found in groups.by_domain(_available(state))), default=0)


def has_rules(settings: PolicySettings) -> bool:
    """Whether any rule is configured that this file checks."""
    placement = settings.placement
    return bool(placement.isolation or placement.anti_affinity or settings.caps.max_bundles is not None)


class _Groups:
    """Bundles of every anti-affinity group by broker."""

    def __init__(self, state: ClusterState, settings: PolicySettings) -> None:
        self._domains = settings.placement.failure_domains
        self._of = {name: group.name for group in settings.placement.anti_affinity for name in group.namespaces}
        self._held = {group.name: Counter[str]() for group in settings.placement.anti_affinity}
        for namespace, group in self._of.items():
            self._held[group].update(state.holdings.spread(namespace))

    def worse(self, namespace: str, source: str, target: str) -> bool:
        """Whether a move would make the spread of the namespace's group worse."""
        group = self._of.get(namespace)
        if group is None:
            return False
        held = self._held[group]
        here, there = self._home(source), self._home(target)
        if here != there:
            total = Counter[str]()
            for broker, count in held.items():
                total[self._home(broker)] += count
            return total[there] > total[here] - 1
        return held[target] > held[source] - 1

    def move(self, namespace: str, source: str, target: str) -> None:
        group = self._of.get(namespace)
        if group is not None:
            self._held[group].update({target: 1, source: -1})

    def by_domain(self, brokers: list[str]) -> list[Counter[str]]:
        """Of each group with at least one of these brokers, by domain."""
        found = []
        for held in self._held.values():
            total = Counter({self._home(broker): 0 for broker in brokers})
            for broker in brokers:
                total[self._home(broker)] += held[broker]
            found.append(total)
        return [total for total in found if total]

    def _home(self, broker: str) -> str:
        return domain_of(broker, self._domains) if self._domains else broker


def _available(state: ClusterState) -> list[str]:
    return [broker.id for broker in state.live_brokers() if not broker.drained and not broker.leaving]
