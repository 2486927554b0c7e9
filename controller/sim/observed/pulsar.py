"""A simulated Pulsar cluster: brokers that own bundles by themselves, lookups that place them, requests that go wrong.

It behaves as measured and read in Pulsar 4.0.8: an unload closes a bundle at its owner and leaves it to the next
lookup; the modular load manager keeps a destination by range text at the leader, even of a request that fails, and the
first lookup of any namespace's equal range uses it up; an extensible one hands over to the destination by itself. A
broker that hangs carries out what it has received once it wakes, whether or not anybody waits for the answer still.
Only lookups obey isolation policies; neither manager checks a destination against them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from controller.agent.cluster.orders import Boundary, Split, Unload
from controller.domain.ids import RING_END, Bundle
from controller.domain.observed import bundles_of_ring, has_bundle
from controller.sim.observed.requests import Request

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
    policies: dict[str, Mapping[str, list[str]]] = field(default_factory=dict)  # isolation: by name, as Pulsar tells it
    reached: Counter[str] = field(default_factory=Counter)  # order id -> its requests that reached an owner
    received: list[tuple[str, Request]] = field(default_factory=list)  # by brokers that hang, in order

    def start(self, broker: str) -> None:
        """Start a broker, which owns nothing; one that hangs is restarted."""
        if broker in self.hung:
            self.kill(broker)
        self.alive.add(broker)
        if not self.leader:
            self.leader = broker

    def kill(self, broker: str) -> None:
        """Kill a broker; its bundles are free. A new leader has no destinations."""
        self.alive.discard(broker)
        self.hung.discard(broker)
        self.received = [one for one in self.received if one[0] != broker]
        self.owner = {name: owner for name, owner in self.owner.items() if owner != broker}
        if self.leader == broker:
            self.leader = min(self.alive, default="")
            self.destinations.clear()

    def wake(self) -> None:
        """No broker hangs any more; what they have received is carried out."""
        self.hung.clear()
        received, self.received = self.received, []
        for broker, request in received:
            self._receive(broker, request)

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

    def look_up(self, name: str) -> bool:
        """A lookup: it assigns a bundle that nobody owns, and uses up a destination. Returns whether it did."""
        candidates = sorted(self.alive - self.hung)
        if name in self.owner or not candidates or not self._exists(name):
            return False
        kept = self.destinations.pop(name.rpartition("/")[2], None) if self.modular else None
        namespace = name.rpartition("/")[0]
        allowed = [broker for broker in candidates if not is_isolated(self.policies, namespace, broker)]
        self.owner[name] = kept if kept in candidates else self.random.choice(allowed or candidates)
        return True

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

    def split_by_itself(self, name: str) -> None:
        """Split this bundle as an administrator would, or any if nobody owns it."""
        names = [name] if name in self.owner else sorted(self.owner)
        bundle = Bundle.parse(self.random.choice(names)) if names else None
        if bundle is not None and bundle.upper - bundle.lower > 1:
            self._divide(bundle, bundle.middle())

    def send(self, request: Request) -> None:
        """Take a request from an agent: at the owner, or for a destination at the modular manager's leader first."""
        change, name = request.change, str(request.change.bundle)
        if isinstance(change, Unload) and name in self.owner and self.random.random() < self.whims.leave:
            del self.owner[name]
            self.look_up(name)
        first = self.leader if self._is_for_leader(change) else change.source
        unreached = first not in self.alive or self.random.random() < self.whims.unreached
        if not unreached:
            self._receive(first, request)
            return
        noted = self._is_for_leader(change) and first in self.alive and self.random.random() < 0.5
        if noted:  # the leader was reached, and whom it redirected to was not
            self._note_destination(change)
        request.answer(0, "connection refused", noted)

    def _is_for_leader(self, change: Unload | Split) -> bool:
        return self.modular and isinstance(change, Unload) and change.target is not None

    def _note_destination(self, change: Unload | Split) -> None:
        assert isinstance(change, Unload)
        self.destinations[str(change.bundle).rpartition("/")[2]] = str(change.target)

    def _receive(self, broker: str, request: Request) -> None:
        """A broker has a request: it carries it out if it is the owner, and else redirects to that one."""
        if broker in self.hung:
            self.received.append((broker, request))
            return
        change = request.change
        if self._is_for_leader(change) and broker == self.leader:
            self._note_destination(change)
        owner = self.owner.get(str(change.bundle))
        if owner is not None and owner != broker:
            if request.waits:  # else nobody follows
                self._receive(owner, request)
        elif isinstance(change, Split):
            self._split(change, request)
        else:
            self._unload(change, request)

    def _unload(self, change: Unload, request: Request) -> None:
        name, whims, roll = str(change.bundle), self.whims, self.random.random()
        if not self._exists(name):
            request.answer(412, "Invalid upper boundary")
            return
        owner = self.owner.get(name)
        if owner is None:
            request.answer(204)  # nothing to unload
            return
        self.reached[request.order_id] += 1
        if roll < whims.refuse:
            request.answer(self.random.choice([412, 500]), "refused")
            return
        if roll < whims.refuse + whims.nothing:
            request.answer(204)
            return
        del self.owner[name]
        if roll < whims.refuse + whims.nothing + whims.snatch:
            self.owner[name] = owner
        elif not self.modular and change.target in self.alive - self.hung:
            self.owner[name] = str(change.target)
        if self.random.random() >= whims.lost:
            request.answer(204)

    def _split(self, change: Split, request: Request) -> None:
        """At one boundary; both halves stay with the owner."""
        name = str(change.bundle)
        if not self._exists(name) or name not in self.owner:
            request.answer(412, "Invalid upper boundary")
            return
        self.reached[request.order_id] += 1
        if self.random.random() >= self.whims.nothing:
            self._divide(change.bundle, change.boundary)
        if self.random.random() >= self.whims.lost:
            request.answer(204)

    def _divide(self, bundle: Bundle, boundary: int) -> None:
        self.rings[bundle.namespace] = tuple(sorted({*self.rings[bundle.namespace], boundary}))
        owner = self.owner.pop(str(bundle))
        for half in bundle.split_at(boundary):
            self.owner[str(half)] = owner
            self.has_clients[str(half)] = self.has_clients.get(str(bundle), True)

    def _exists(self, name: str) -> bool:
        bundle = Bundle.parse(name)
        return has_bundle(self.rings.get(bundle.namespace, ()), bundle)


def is_isolated(policies: Mapping[str, Mapping[str, list[str]]], namespace: str, broker: str) -> bool:
    """Whether policies, none of them with secondary brokers, keep a namespace away from a broker."""
    host = broker.partition(":")[0]
    own = [policy for policy in policies.values() if namespace in policy["namespaces"]]
    return any(host not in p["primary"] for p in own) if own else any(host in p["primary"] for p in policies.values())
