"""Isolation, anti-affinity and bundle caps in a round: the tables, and how they stand after the moves chosen so far.

`build_rules` makes a snapshot's tables (`PlacementRules`) of what is configured. `PlacementState` follows the moves:
the spread of an anti-affinity group and the bundles of a broker change with every move, isolation does not. Without any
configured rule there are no tables.

Anti-affinity is Pulsar's rule: of the brokers that a bundle may use, those in the failure domains with the fewest
bundles of its group, and of these the ones with the fewest (owned bundles are counted, as in Pulsar's extensible
manager). The bundle itself does not count, and its present place is one of the choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.isolation import domain_of, isolation_of
from controller.policy.view.frame import NOBODY, Ints, count_held, namespaces_of
from controller.policy.view.reason_codes import ALLOWED, CODES
from controller.policy.view.snapshot import NO_GROUP, Bools, PlacementRules, Snapshot


def build_rules(snapshot: Snapshot, settings: PolicySettings) -> PlacementRules | None:
    """The tables of a snapshot whose blocks are filled in; None where no rule is configured."""
    placement, most = settings.placement, settings.caps.max_bundles
    if not placement.isolation and not placement.anti_affinity and most is None:
        return None
    kinds, groups = _classify_bundles(snapshot.bundles, placement.isolation, placement.anti_affinity)
    available = tuple(snapshot.frame.in_service.tolist())
    allowed, may_stay, pools = _match_brokers(snapshot.brokers, available, placement.isolation)
    return PlacementRules(
        kind=kinds,
        allowed=allowed,
        may_stay=may_stay,
        pools=pools,
        policies=tuple(policy.name for policy in placement.isolation),
        group=groups,
        spread=_count_groups(snapshot, groups, placement.anti_affinity),
        domain=_number_domains(snapshot.brokers, placement.failure_domains) if placement.failure_domains else None,
        open=snapshot.target_block == ALLOWED,
        max_bundles=most,
        held=count_bundles(snapshot) if most is not None else np.zeros(len(snapshot.brokers), np.int64),
    )


class PlacementState:
    """The rules as they stand after the moves chosen so far."""

    def __init__(self, rules: PlacementRules, owner: Ints) -> None:
        self.rules = rules
        self._owner = owner.copy()
        self._spread = rules.spread.copy()
        self._held = rules.held.copy()

    def codes(self, bundles: Ints, targets: Ints, swap: bool = False) -> Ints:
        """[n x t] ALLOWED, or the index into REASONS of the rule that keeps the bundle away from the target.

        `swap`: a bundle of the target leaves it at the same time, so the cap on bundles does not apply.
        """
        rules = self.rules
        allowed = rules.allowed[rules.kind[bundles]][:, targets]
        result = np.where(allowed, ALLOWED, CODES[Reason.ISOLATION])
        grouped = np.flatnonzero(rules.group[bundles] != NO_GROUP)
        known: dict[tuple[int, int, int], Ints] = {}
        for row in grouped.tolist():
            at = bundles[row]
            key = int(rules.group[at]), int(rules.kind[at]), int(self._owner[at])
            if key not in known:
                known[key] = self._anti_affinity(*key)
            result[row] = np.where(allowed[row], known[key][targets], result[row])
        if rules.max_bundles is not None and not swap:
            full = (self._held[targets] >= rules.max_bundles)[None, :]
            result = np.where((result == ALLOWED) & full, CODES[Reason.BROKER_CAP], result)
        return np.asarray(result, np.int64)

    def code(self, bundle: int, target: int, swap: bool = False) -> int:
        """The same for one bundle and one target."""
        return int(self.codes(np.array([bundle]), np.array([target]), swap)[0, 0])

    def targets_of(self, bundles: Ints) -> list[Bools]:
        """[B] the brokers that isolation allows, for each kind among these bundles."""
        return [self.rules.allowed[kind] for kind in np.unique(self.rules.kind[bundles]).tolist()]

    def move(self, bundle: int, target: int) -> None:
        """Count the bundle for its target from now on."""
        group, source = int(self.rules.group[bundle]), int(self._owner[bundle])
        for broker, sign in ((source, -1), (target, 1)):
            if broker != NOBODY:
                self._held[broker] += sign
                if group != NO_GROUP:
                    self._spread[group, broker] += sign
        self._owner[bundle] = target

    def to_rules(self) -> PlacementRules:
        """The tables with the moves so far counted in."""
        return replace(self.rules, spread=self._spread.copy(), held=self._held.copy())

    def _anti_affinity(self, group: int, kind: int, source: int) -> Ints:
        """[B] codes of the group's rule for a bundle that is at the source now."""
        rules = self.rules
        held = self._spread[group].copy()
        choice = rules.open & rules.allowed[kind]
        if source != NOBODY:
            held[source] -= 1
            choice[source] |= rules.may_stay[kind, source]
        codes = np.full(len(held), ALLOWED, np.int64)
        if not choice.any():
            return codes
        if rules.domain is not None:
            of_domain = np.bincount(rules.domain, held)[rules.domain]
            far = of_domain > of_domain[choice].min()
            codes[far] = CODES[Reason.FAILURE_DOMAIN]
            choice &= ~far
        near = (codes == ALLOWED) & (held > held[choice].min())
        codes[near] = CODES[Reason.ANTI_AFFINITY]
        return codes


def track_placement(snapshot: Snapshot) -> PlacementState | None:
    """The state of the snapshot's rules before any move; None where no rule is configured."""
    return None if snapshot.rules is None else PlacementState(snapshot.rules, snapshot.owner)


def pools_of(snapshot: Snapshot) -> tuple[Bools, ...]:
    """The pools into which isolation parts the brokers; () where all can share all work."""
    pools = () if snapshot.rules is None else snapshot.rules.pools
    return pools if len(pools) > 1 else ()


def count_bundles(snapshot: Snapshot) -> Ints:
    """[B] bundles of each broker: by the journal where the frame has it, else by the owners in the frame."""
    facts = snapshot.frame.rule_facts
    if facts is not None and facts.held is not None:
        return np.array(facts.held, np.int64)
    return count_held(snapshot.owner, len(snapshot.brokers))


def mark_violations(snapshot: Snapshot) -> Bools:
    """[N] bundles in violation of isolation; their rows are stored for the replay, considered or not."""
    if snapshot.rules is None:
        return np.zeros(len(snapshot.bundles), bool)
    return snapshot.rules.find_violations(snapshot.owner)


def _count_groups(snapshot: Snapshot, groups: Ints, of: Sequence[AntiAffinityGroup]) -> Ints:
    """[G x B] bundles of each group: by the journal where the frame has it, else by the owners in the frame."""
    result = np.zeros((len(of), len(snapshot.brokers)), np.int64)
    facts = snapshot.frame.rule_facts
    if facts is not None and facts.spread is not None:
        for at, group in enumerate(of):
            result[at] = np.sum([facts.spread[namespace] for namespace in group.namespaces], axis=0)
        return result
    grouped = np.flatnonzero((groups != NO_GROUP) & (snapshot.owner != NOBODY))
    np.add.at(result, (groups[grouped], snapshot.owner[grouped]), 1)
    return result


@lru_cache(maxsize=4)
def _classify_bundles(
    bundles: tuple[str, ...], policies: tuple[IsolationPolicy, ...], groups: tuple[AntiAffinityGroup, ...]
) -> tuple[Ints, Ints]:
    """[N] kind and [N] group of each bundle."""
    spaces, of_space = namespaces_of(bundles)
    isolation = isolation_of(policies)
    group_of = {namespace: at for at, group in enumerate(groups) for namespace in group.namespaces}
    kinds = np.array([isolation.kind_of(space) for space in spaces], np.int64)
    members = np.array([group_of.get(space, NO_GROUP) for space in spaces], np.int64)
    return kinds[of_space], members[of_space]


@lru_cache(maxsize=8)
def _match_brokers(
    brokers: tuple[str, ...], available: tuple[bool, ...], policies: tuple[IsolationPolicy, ...]
) -> tuple[Bools, Bools, tuple[Bools, ...]]:
    """[K x B] allowed targets by isolation, [K x B] where bundles may stay, and the pools that follow."""
    isolation = isolation_of(policies)
    there = [broker for broker, is_there in zip(brokers, available, strict=True) if is_there]
    allowed = np.zeros((isolation.kinds, len(brokers)), bool)
    may_stay = allowed.copy()
    for kind in range(isolation.kinds):
        targets, primaries = set(isolation.allowed(kind, there)), set(isolation.may_stay(kind, brokers))
        allowed[kind] = [broker in targets for broker in brokers]
        may_stay[kind] = [broker in primaries for broker in brokers]
    return allowed, may_stay | allowed, _find_pools(allowed)


def _find_pools(allowed: Bools) -> tuple[Bools, ...]:
    """[B] masks of the connected brokers: two that one kind of namespace may use are in the same pool."""
    pools: list[Bools] = []
    for mask in (row for row in allowed if row.any()):
        apart = [pool for pool in pools if not (pool & mask).any()]
        joined = [pool for pool in pools if (pool & mask).any()]
        pools = [*apart, np.logical_or.reduce([mask, *joined])]
    return tuple(pools)


@lru_cache(maxsize=4)
def _number_domains(brokers: tuple[str, ...], domains: tuple[FailureDomain, ...]) -> Ints:
    """[B] the number of each broker's failure domain."""
    names = [domain_of(broker, domains) for broker in brokers]
    return np.unique(np.array(names, object), return_inverse=True)[1].astype(np.int64).reshape(-1)
