"""The tables of the rules of placement, from a snapshot and what is configured, and what the snapshot says by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.placement import AntiAffinityGroup, FailureDomain, IsolationPolicy
from controller.domain.settings.policy import PolicySettings
from controller.policy.placement.isolation import domain_of, isolation_of
from controller.policy.view.frame import NOBODY, Ints, namespaces_of
from controller.policy.view.placement_rules import NO_GROUP, Bools, PlacementRules, PlacementTally
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import Snapshot


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
