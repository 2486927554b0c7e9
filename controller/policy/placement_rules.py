"""Isolation, anti-affinity and bundle caps as arrays: which bundle may go to which broker, and by which rule not.

`PlacementRules` are a snapshot's tables: namespaces fall into *kinds* (isolation.py), so that [kinds x B] says for
every namespace what a [namespaces x B] matrix would. `PlacementTally` is what the moves chosen so far make of them:
the spread of an anti-affinity group and the bundles a broker holds change with every move, isolation does not. Where
nothing is configured there are no tables, and nothing is asked.

Anti-affinity is Pulsar's rule: of the brokers that a bundle may use, those in the failure domains with the fewest
bundles of its group, and of these the ones with the fewest (Owned bundles are counted, as its extensible manager does).
The bundle itself does not count, and where it is now is one of the choices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.domain.placement_settings import AntiAffinityGroup, FailureDomain, IsolationPolicy
from controller.domain.settings import PolicySettings
from controller.policy.frame import NOBODY, Ints, namespaces_of
from controller.policy.isolation import domain_of, isolation_of
from controller.policy.snapshot import ALLOWED, CODES, Snapshot

Bools = NDArray[np.bool_]
NO_GROUP = -1


@dataclass(frozen=True, eq=False)
class PlacementRules:
    """K kinds of namespaces, G anti-affinity groups, B brokers, N bundles."""

    kind: Ints  # [N] what isolation a bundle's namespace has
    allowed: Bools  # [K x B] may be a target by isolation
    may_stay: Bools  # [K x B] what is there is where it should be
    pools: tuple[Bools, ...]  # [B] each: brokers that can share work, each in one pool; those in none take nothing
    policies: tuple[str, ...]  # names; the last kind has none
    group: Ints  # [N] NO_GROUP
    spread: Ints  # [G x B] bundles of the group
    domain: Ints | None  # [B] None: no failure domains
    open: Bools  # [B] may take something at all
    max_bundles: int | None
    held: Ints  # [B] bundles

    def has_policy(self, bundle: int) -> bool:
        """Whether an isolation policy or an anti-affinity group is about it."""
        return bool(self.kind[bundle] < len(self.policies) or self.group[bundle] != NO_GROUP)

    def policy_name(self, bundle: int) -> str:
        """The isolation policy of the bundle's namespace; empty for a shared one."""
        at = int(self.kind[bundle])
        return self.policies[at] if at < len(self.policies) else ""

    def misplaced(self, owner: Ints) -> Bools:
        """[N] whose owner isolation forbids."""
        return np.asarray((owner != NOBODY) & ~self.may_stay[self.kind, owner])


class PlacementTally:
    """The rules as they stand after the moves chosen so far."""

    def __init__(self, rules: PlacementRules, owner: Ints) -> None:
        self.rules = rules
        self._owner = owner.copy()
        self._spread = rules.spread.copy()
        self._held = rules.held.copy()

    def codes(self, bundles: Ints, targets: Ints, exchange: bool = False) -> Ints:
        """[n x t] ALLOWED, or the index into REASONS of the rule that keeps the bundle away from the target.

        `exchange`: something of the target leaves it at the same time, so that a cap on bundles says nothing.
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
                known[key] = self._apart(*key)
            result[row] = np.where(allowed[row], known[key][targets], result[row])
        if rules.max_bundles is not None and not exchange:
            full = (self._held[targets] >= rules.max_bundles)[None, :]
            result = np.where((result == ALLOWED) & full, CODES[Reason.BROKER_CAP], result)
        return np.asarray(result, np.int64)

    def code(self, bundle: int, target: int, exchange: bool = False) -> int:
        """The same for one bundle and one target."""
        return int(self.codes(np.array([bundle]), np.array([target]), exchange)[0, 0])

    def targets_of(self, bundles: Ints) -> list[Bools]:
        """[B] for each kind among these bundles the brokers that isolation allows."""
        return [self.rules.allowed[kind] for kind in np.unique(self.rules.kind[bundles]).tolist()]

    def moved(self, bundle: int, target: int) -> None:
        """The bundle is its target's from now on."""
        group, source = int(self.rules.group[bundle]), int(self._owner[bundle])
        for broker, sign in ((source, -1), (target, 1)):
            if broker != NOBODY:
                self._held[broker] += sign
                if group != NO_GROUP:
                    self._spread[group, broker] += sign
        self._owner[bundle] = target

    def _apart(self, group: int, kind: int, source: int) -> Ints:
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


def rules_of(snapshot: Snapshot, settings: PolicySettings) -> PlacementRules | None:
    """The tables of a snapshot whose blocks are filled in; None where no rule is configured."""
    placement, most = settings.placement, settings.caps.max_bundles
    if not placement.isolation and not placement.anti_affinity and most is None:
        return None
    kinds, groups = _of_bundles(snapshot.bundles, placement.isolation, placement.anti_affinity)
    available = tuple(in_service(snapshot).tolist())
    allowed, may_stay, pools = _of_brokers(snapshot.brokers, available, placement.isolation)
    return PlacementRules(
        kind=kinds,
        allowed=allowed,
        may_stay=may_stay,
        pools=pools,
        policies=tuple(policy.name for policy in placement.isolation),
        group=groups,
        spread=_spread(snapshot, groups, placement.anti_affinity),
        domain=_domains(snapshot.brokers, placement.failure_domains) if placement.failure_domains else None,
        open=snapshot.target_block == ALLOWED,
        max_bundles=most,
        held=bundles_held(snapshot) if most is not None else np.zeros(len(snapshot.brokers), np.int64),
    )


def pools_of(snapshot: Snapshot) -> tuple[Bools, ...]:
    """The pools that isolation makes of the brokers; () where all can share all work."""
    pools = () if snapshot.rules is None else snapshot.rules.pools
    return pools if len(pools) > 1 else ()


def tally_of(snapshot: Snapshot) -> PlacementTally | None:
    """A fresh tally of the snapshot's rules, if it has any."""
    return None if snapshot.rules is None else PlacementTally(snapshot.rules, snapshot.owner)


def bundles_held(snapshot: Snapshot) -> Ints:
    """[B] bundles of each broker: by the journal where the frame has it, else by the owners that were reported."""
    facts = snapshot.frame.rule_facts
    if facts is not None and facts.held is not None:
        return np.array(facts.held, np.int64)
    return np.bincount(snapshot.owner + 1, minlength=len(snapshot.brokers) + 1)[1:].astype(np.int64)


def in_service(snapshot: Snapshot) -> Bools:
    """[B] alive and to stay: the brokers that count as available for an isolation policy."""
    facts = snapshot.frame.broker_facts
    return np.asarray(snapshot.known & snapshot.alive & (facts[:, 3] == 0) & (facts[:, 4] == 0) & (facts[:, 5] == 0))


def ruled_bundles(snapshot: Snapshot) -> Bools:
    """[N] whose rows the rules hang on beside those that a strategy looked into; they are stored for the replay."""
    if snapshot.rules is None:
        return np.zeros(len(snapshot.bundles), bool)
    return snapshot.rules.misplaced(snapshot.owner)


def counted_rules(codes: Ints, reasons: Sequence[Reason]) -> dict[str, int]:
    """How many of these pairs lost by which placement rule, for evidence; only those that did."""
    counts = Counter(codes[codes != ALLOWED].tolist())
    return {reasons[code].value: count for code, count in sorted(counts.items())}


def _spread(snapshot: Snapshot, groups: Ints, of: tuple[AntiAffinityGroup, ...]) -> Ints:
    """[G x B] bundles of each group: by the journal where the frame has it, else by the owners that were reported."""
    result = np.zeros((len(of), len(snapshot.brokers)), np.int64)
    facts = snapshot.frame.rule_facts
    if facts is not None and facts.spread is not None:
        for at, group in enumerate(of):
            result[at] = np.sum([facts.spread[namespace] for namespace in group.namespaces], axis=0)
        return result
    counted = np.flatnonzero((groups != NO_GROUP) & (snapshot.owner != NOBODY))
    np.add.at(result, (groups[counted], snapshot.owner[counted]), 1)
    return result


@lru_cache(maxsize=4)
def _of_bundles(
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
def _of_brokers(
    brokers: tuple[str, ...], available: tuple[bool, ...], policies: tuple[IsolationPolicy, ...]
) -> tuple[Bools, Bools, tuple[Bools, ...]]:
    """[K x B] who may be a target by isolation, and where what is there may stay; the pools that follow."""
    isolation = isolation_of(policies)
    there = [broker for broker, is_there in zip(brokers, available, strict=True) if is_there]
    allowed = np.zeros((isolation.kinds, len(brokers)), bool)
    home = allowed.copy()
    for kind in range(isolation.kinds):
        targets, homes = set(isolation.allowed(kind, there)), set(isolation.at_home(kind, brokers))
        allowed[kind] = [broker in targets for broker in brokers]
        home[kind] = [broker in homes for broker in brokers]
    return allowed, home | allowed, _pools(allowed)


def _pools(allowed: Bools) -> tuple[Bools, ...]:
    """[B] masks: brokers that some kind of namespace may use both are in one pool, and so on from there."""
    pools: list[Bools] = []
    for mask in (row for row in allowed if row.any()):
        apart = [pool for pool in pools if not (pool & mask).any()]
        joined = [pool for pool in pools if (pool & mask).any()]
        pools = [*apart, np.logical_or.reduce([mask, *joined])]
    return tuple(pools)


@lru_cache(maxsize=4)
def _domains(brokers: tuple[str, ...], domains: tuple[FailureDomain, ...]) -> Ints:
    """[B] the failure domain of each broker, numbered."""
    names = [domain_of(broker, domains) for broker in brokers]
    return np.unique(np.array(names, object), return_inverse=True)[1].astype(np.int64).reshape(-1)
