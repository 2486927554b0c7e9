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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.policy.view.frame import NOBODY, Ints
from controller.policy.view.reason_codes import ALLOWED, CODES

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

    def counted(self) -> PlacementRules:
        """The tables with the moves so far counted in."""
        return replace(self.rules, spread=self._spread.copy(), held=self._held.copy())

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
