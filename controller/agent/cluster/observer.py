"""Turns what brokers list into the observations that the journal lacks. Pure.

Every broker is asked by itself, so lists come one at a time and may contradict each other while a bundle moves. The
claim whose request was sent last counts. Bundles that several brokers go on claiming are disputed.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import Any

from controller.domain.ids import Bundle
from controller.domain.observed import has_bundle
from controller.domain.state import ClusterState

DISPUTED_AFTER = 3  # polls in a row in which a broker claims a bundle while another one claims it as well
SUSPECT_AFTER = 3  # polls without an answer
TRUSTED_AFTER = 2  # polls with an answer again


@dataclass(frozen=True, slots=True)
class Listing:
    """What a broker listed. `sent`: the request's number, in the order of sending; `requested_seq`: the journal seq
    that the agent had applied then, or earlier. `names` None: it did not answer."""

    broker: str
    sent: int
    requested_seq: int
    names: frozenset[str] | None


@dataclass(slots=True)
class _Claims:
    """The newest list of a broker."""

    sent: int
    requested_seq: int
    names: frozenset[str]


@dataclass(slots=True)
class Observer:
    """The newest list of every broker, and who is suspect."""

    _claims: dict[str, _Claims] = field(default_factory=dict)
    _claimants: dict[str, set[str]] = field(default_factory=dict)  # bundle -> brokers whose newest list has it
    _conflicts: dict[str, dict[str, int]] = field(default_factory=dict)  # bundle -> claimant -> its lists meanwhile
    _failed: dict[str, int] = field(default_factory=dict)  # polls in a row without an answer
    _good: dict[str, int] = field(default_factory=dict)  # polls in a row with one, of suspects
    suspects: set[str] = field(default_factory=set)

    def note(self, listing: Listing) -> None:
        """Take a broker's list, or its silence. A list that was requested before the newest one is dropped."""
        broker = listing.broker
        if listing.names is None:
            self._good[broker] = 0
            self._failed[broker] = self._failed.get(broker, 0) + 1
            if self._failed[broker] >= SUSPECT_AFTER:
                self.suspects.add(broker)
            return
        self._failed[broker] = 0
        self._good[broker] = self._good.get(broker, 0) + 1
        if self._good[broker] >= TRUSTED_AFTER:
            self.suspects.discard(broker)
        before = self._claims.get(broker)
        if before is not None and before.sent > listing.sent:
            return
        for name in before.names - listing.names if before is not None else ():
            self._drop(name, broker)
        self._claims[broker] = _Claims(listing.sent, listing.requested_seq, listing.names)
        for name in listing.names:
            claimants = self._claimants.setdefault(name, set())
            claimants.add(broker)
            if len(claimants) > 1:
                counts = self._conflicts.setdefault(name, {})  # by claimant: each lists the bundle once in a poll
                counts[broker] = counts.get(broker, 0) + 1

    def forget(self, broker: str) -> None:
        """The cluster lists the broker no more."""
        claims = self._claims.pop(broker, None)
        for name in claims.names if claims is not None else ():
            self._drop(name, broker)
        self._failed.pop(broker, None)
        self._good.pop(broker, None)
        self.suspects.discard(broker)

    def _drop(self, name: str, broker: str) -> None:
        claimants = self._claimants.get(name, set())
        claimants.discard(broker)
        self._conflicts.get(name, {}).pop(broker, None)
        if len(claimants) < 2:
            self._conflicts.pop(name, None)
        if not claimants:
            self._claimants.pop(name, None)

    @property
    def brokers(self) -> Collection[str]:
        """The brokers with a list."""
        return self._claims.keys()

    def owner_of(self, name: str) -> str | None:
        """The claimant whose list was requested last; None without one."""
        claimants = self._claimants.get(name)
        return max(claimants, key=lambda broker: (self._claims[broker].sent, broker)) if claimants else None

    def sole_owner_of(self, name: str, after: int = 0) -> str | None:
        """The only broker that claims the bundle, by a list requested after the request with that number; None for none
        or several."""
        claimants = self._claimants.get(name, set())
        owner = next(iter(claimants)) if len(claimants) == 1 else None
        return owner if owner is not None and self._claims[owner].sent > after else None

    def names_of(self, broker: str) -> Set[str]:
        """What the broker listed last."""
        claims = self._claims.get(broker)
        return claims.names if claims is not None else frozenset()

    def find_changes(self, broker: str, state: ClusterState) -> dict[str, Any]:
        """The data of an event `observed` about the broker, as `controller.control.observations` reads it; empty when
        the journal has it all."""
        claims = self._claims.get(broker)
        if claims is None:
            return {}
        cluster, listed = state.observed, state.holdings.observed_at(broker)
        mine = {name for name in claims.names if self.owner_of(name) == broker}
        stale = {n for n in mine & listed if cluster.bundles[n].stale}
        disputed = {n for n in self._conflicts.keys() & mine if self._is_disputed(n)}
        known = {n for n in mine if n in cluster.bundles}
        changes = {
            "added": (mine - listed) | stale,
            "removed": listed - mine,
            "confirmed": {n for n in self._in_doubt(state) & mine if self._is_certain(n, state)},
            "disputed": {n for n in disputed & known if not cluster.bundles[n].disputed},
            "agreed": {n for n in known - disputed if cluster.bundles[n].disputed and n not in self._conflicts},
        }
        found: dict[str, Any] = {kind: sorted(names) for kind, names in changes.items() if names}
        return {**found, "requested_seq": claims.requested_seq} if found else {}

    def _is_disputed(self, name: str) -> bool:
        return max(self._conflicts[name].values(), default=0) >= DISPUTED_AFTER

    def _in_doubt(self, state: ClusterState) -> set[str]:
        return {name for name, block in state.observed.blocks.items() if block.in_doubt_seq}

    def _is_certain(self, name: str, state: ClusterState) -> bool:
        """Whether exactly one broker lists the bundle, by lists that were all requested after the doubt arose."""
        doubt_seq = state.observed.blocks[name].in_doubt_seq
        answering = (claims for broker, claims in self._claims.items() if broker not in self.suspects)
        return self.sole_owner_of(name) is not None and all(c.requested_seq >= doubt_seq for c in answering)

    def find_unknown_rings(self, broker: str, state: ClusterState) -> set[str]:
        """Namespaces whose ring must be read again, because the broker lists a range that the known one lacks."""
        found = set()
        for name in self.names_of(broker) - state.observed.bundles.keys():
            bundle = Bundle.parse(name)
            if not has_bundle(state.observed.rings.get(bundle.namespace, ()), bundle):
                found.add(bundle.namespace)
        return found
