"""A simulated Pulsar cluster: brokers that own bundles by themselves, lookups that place them, requests that go wrong.

It behaves as measured and read in Pulsar 4.0.8: an unload closes a bundle at its owner and leaves it to the next
lookup; the modular load manager keeps a destination by range text at the leader, even of a request that fails, and the
first lookup of any namespace's equal range uses it up; an extensible one hands over to the destination by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from controller.agent.cluster.orders import Boundary, Reply, Split, Unload, may_have_reached
from controller.domain.ids import RING_END, Bundle
from controller.domain.observed import bundles_of_ring, has_bundle

Boundaries = tuple[int, ...]
_T = TypeVar("_T")


class Dice(Protocol):
    """The seeded generator of the simulation."""

    def random(self) -> float:
        """A number in [0, 1)."""

    def choice(self, seq: Sequence[_T]) -> _T:
        """One of the values."""


@dataclass(slots=True)
class Whims:
    """How often, 0..1, a request ends otherwise than well; the rest succeeds."""

    nothing: float = 0.0  # 204, and nothing happened
    refuse: float = 0.0  # 412 or 500 after the leader noted the destination
    lost: float = 0.0  # carried out, but never answered
    unreached: float = 0.0  # the connection fails before the owner
    snatch: float = 0.0  # the owner gets it back at once
    leave: float = 0.0  # the bundle leaves its owner by itself just before the request


@dataclass(slots=True)
class SimPulsar:
    """Brokers by id, owners by bundle name, rings by namespace. Change it through its methods only."""

    random: Dice
    modular: bool = True
    alive: set[str] = field(default_factory=set)
    hung: set[str] = field(default_factory=set)  # listed, but answers nothing
    owner: dict[str, str] = field(default_factory=dict)
    rings: dict[str, Boundaries] = field(default_factory=dict)
    leader: str = ""
    destinations: dict[str, str] = field(default_factory=dict)  # at the leader: range text -> broker
    whims: Whims = field(default_factory=Whims)
    has_clients: dict[str, bool] = field(default_factory=dict)  # bundles without are placed by nobody's lookup
    reached: list[Unload | Split] = field(default_factory=list)  # every request that reached an owner

    def start(self, broker: str) -> None:
        """Start a broker, which owns nothing."""
        self.alive.add(broker)
        self.hung.discard(broker)
        if not self.leader:
            self.leader = broker

    def kill(self, broker: str) -> None:
        """Kill a broker; its bundles are free. A new leader has no destinations."""
        self.alive.discard(broker)
        self.hung.discard(broker)
        self.owner = {name: owner for name, owner in self.owner.items() if owner != broker}
        if self.leader == broker:
            self.leader = min(self.alive, default="")
            self.destinations.clear()

    def create(self, namespace: str, count: int) -> None:
        """Create a namespace; its bundles are placed by clients' lookups."""
        step = 2**32 // count
        self.rings[namespace] = (*(at * step for at in range(count)), RING_END)
        for bundle in bundles_of_ring(namespace, self.rings[namespace]):
            self.has_clients[str(bundle)] = self.random.random() < 0.9
            self.look_up(str(bundle))

    def bundles(self) -> list[str]:
        """The names of all bundles."""
        return [str(b) for namespace, ring in self.rings.items() for b in bundles_of_ring(namespace, ring)]

    def look_up(self, name: str) -> None:
        """A lookup: it assigns a bundle that nobody owns, and uses up a destination."""
        candidates = sorted(self.alive - self.hung)
        if name in self.owner or not candidates or not self._exists(name):
            return
        kept = self.destinations.pop(name.rpartition("/")[2], None) if self.modular else None
        self.owner[name] = kept if kept in candidates else self.random.choice(candidates)

    def look_up_all(self) -> None:
        """Clients reconnect to what nobody owns."""
        for name in self.bundles():
            if name not in self.owner and self.has_clients.get(name, True):
                self.look_up(name)

    def move_by_itself(self) -> None:
        """Move a bundle as an administrator or a policy would."""
        names = sorted(self.owner)
        if names:
            name = self.random.choice(names)
            del self.owner[name]
            self.look_up(name)

    def owned_by(self, broker: str) -> frozenset[str] | None:
        """What the broker lists; None when it does not answer."""
        if broker not in self.alive or broker in self.hung:
            return None
        return frozenset(name for name, owner in self.owner.items() if owner == broker)

    def find_boundary(self, bundle: Bundle, owner: str) -> Boundary:
        """Where half of the bundle's load lies: anywhere, also where old statistics put it; not known now and then."""
        roll = self.random.random()
        if self.owned_by(owner) is None or roll < 0.2:
            return Boundary(None, "no answer")
        return Boundary(bundle.lower + int((roll - 0.2) / 0.75 * (bundle.upper - bundle.lower)))

    def unload(self, request: Unload) -> Reply:
        """An unload with a destination, or a plain one. It finds its way to whoever owns the bundle by now."""
        name, whims, roll = str(request.bundle), self.whims, self.random.random()
        if name in self.owner and self.random.random() < whims.leave:
            del self.owner[name]
            self.look_up(name)
        by_leader = self.modular and request.target is not None
        first = self.leader if by_leader else request.source
        unreached = first not in self.alive or self.random.random() < whims.unreached
        noted = by_leader and first in self.alive and (not unreached or self.random.random() < 0.5)
        if noted:
            self.destinations[name.rpartition("/")[2]] = str(request.target)
        if unreached:  # the leader, or whom it has redirected us to
            return self._reply(0, noted, "connection refused")
        owner = self.owner.get(name)
        if first in self.hung or owner in self.hung:
            return self._reply(0, detail="read timeout", unanswered=True)
        if owner is None:
            return self._reply(204)  # nothing to unload
        self.reached.append(request)
        if roll < whims.refuse:
            return self._reply(self.random.choice([412, 500]), detail="refused")
        if roll < whims.refuse + whims.nothing:
            return self._reply(204)
        del self.owner[name]
        if roll < whims.refuse + whims.nothing + whims.snatch:
            self.owner[name] = owner
        elif not self.modular and request.target in self.alive - self.hung:
            self.owner[name] = str(request.target)
        lost = self.random.random() < self.whims.lost
        return self._reply(0 if lost else 204, detail="read timeout" if lost else "", unanswered=lost)

    def _reply(self, status: int, noted: bool = True, detail: str = "", unanswered: bool = False) -> Reply:
        return Reply(status, may_have_reached(status, unanswered), detail, redirected=noted)

    def split(self, request: Split) -> Reply:
        """A split at one boundary; both halves stay with the owner."""
        bundle, roll = request.bundle, self.random.random()
        if roll < self.whims.unreached:
            return Reply(0, reached=False, detail="connection refused")
        owner = self.owner.get(str(bundle))
        if not self._exists(str(bundle)) or owner is None:
            return Reply(412, reached=True, detail="Invalid upper boundary")
        self.reached.append(request)
        if roll < self.whims.unreached + self.whims.nothing:
            return Reply(204, reached=True)
        ring = self.rings[bundle.namespace]
        self.rings[bundle.namespace] = tuple(sorted({*ring, request.boundary}))
        del self.owner[str(bundle)]
        for half in bundle.split_at(request.boundary):
            self.owner[str(half)] = owner
            self.has_clients[str(half)] = self.has_clients.get(str(bundle), True)
        return Reply(0, True, "read timeout") if self.random.random() < self.whims.lost else Reply(204, True)

    def _exists(self, name: str) -> bool:
        bundle = Bundle.parse(name)
        return has_bundle(self.rings.get(bundle.namespace, ()), bundle)
