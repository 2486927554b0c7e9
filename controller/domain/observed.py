"""What is known of a cluster whose own metadata decides ownership (Apache Pulsar), and the orders sent to it.

Ballast does not own these bundles: it observes where they are, orders moves and splits, and observes the outcome. A
bundle has at most one open order. An operator adopts the cluster from its own balancer, and releases it to that one.
Everything here is a fold of journal entries (`controller/domain/apply_observed.py`) and its values are immutable.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any

from controller.domain.decision import Reason
from controller.domain.ids import RING_END, Bundle


class OrderKind(str, Enum):
    """What is ordered. UNLOAD: Pulsar chooses the target."""

    MOVE = "move"
    UNLOAD = "unload"
    SPLIT = "split"


class OrderOutcome(str, Enum):
    """How an order ended."""

    MOVED = "moved"  # the target lists the bundle, or for UNLOAD any other broker does
    SPLIT = "split"  # the namespace's ring has both children
    STAYED = "stayed"  # the unload reached the owner, which owns the bundle still, or again
    ELSEWHERE = "elsewhere"  # a broker other than the target owns it
    REFUSED = "refused"  # Pulsar declined, or would have
    GONE = "gone"  # the range is not in the ring any more, or the namespace is deleted
    FAILED = "failed"  # the request never reached the owner
    EXPIRED = "expired"  # no answer before the deadline
    EXECUTOR_GONE = "executor_gone"  # the sessions of the agent that had it ended
    RELEASED = "released"  # an operator gave the cluster back to its own balancer


ORDER_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # of histograms of their time
_OPERATORS = frozenset({Reason.DRAINED.value, Reason.OVERRIDDEN.value})
OBSERVED_STATES = ("owned", "ordered", "disputed", "unknown")  # of an observed bundle, in one word
IN_DOUBT = frozenset({OrderOutcome.FAILED, OrderOutcome.EXPIRED, OrderOutcome.EXECUTOR_GONE, OrderOutcome.RELEASED})
BACKS_OFF = frozenset({OrderOutcome.STAYED, OrderOutcome.REFUSED})


@dataclass(frozen=True, slots=True)
class Observation:
    """Where a bundle is according to its cluster.

    `seq` is that of the entry with the newest change; it takes the place that the epoch has for owned bundles.
    `stale`: the session that observed it has ended. `disputed`: several brokers claim it.
    """

    bundle: Bundle
    broker: str | None
    seq: int
    moved_at_ms: int = 0  # event time of the newest change of the owner, whoever caused it; 0: none was seen
    stale: bool = False
    disputed: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """An open order, caused by a decision or a command. `executor`: the nonce of the agent that carries it out."""

    id: str
    kind: OrderKind
    bundle: Bundle
    source: str
    executor: str
    seq: int
    target: str | None = None
    boundary: int | None = None
    reason: str = ""
    decision_id: str | None = None
    command_id: str | None = None

    @property
    def by_round(self) -> bool:
        """Whether a round wants it for the sake of balance: no command, drain or override of an operator does."""
        return self.decision_id is not None and self.reason not in _OPERATORS

    @property
    def boundary_is_proposed(self) -> bool:
        """Whether a round named the boundary. It knows bundles and no topics, so it always names the middle; any other
        boundary was chosen on purpose, and so was the middle by an operator's command."""
        return self.decision_id is not None and self.boundary == self.bundle.middle()

    @property
    def range_text(self) -> str:
        """The bundle's range as Pulsar writes it; its modular load manager keeps destinations by this text alone."""
        return str(self.bundle).rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Block:
    """Why a bundle gets no order for now. `in_doubt_seq`: until exactly one broker lists it in an observation that was
    requested after this entry. `not_before_ms`: on the axis of rounds, after `failures` orders in a row that brought
    nothing."""

    in_doubt_seq: int = 0
    not_before_ms: int = 0
    failures: int = 0


RELEASE, END_RELEASE = "release", "end_release"  # commands


class AdoptionPhase(str, Enum):
    """Whose the cluster is. Only ADOPTED lets orders go."""

    ADOPTED = "adopted"
    RELEASING = "releasing"  # open orders end, and the settings are being put back
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Adoption:
    """The newest word of an operator on whether Ballast or the cluster's own balancer is in charge.

    `before`: setting -> its override before Ballast first wrote it, None where there was none. Adopting again, as after
    an interruption, does not change it; only a finished release ends it. `at_ms`: wall time, for people. `cluster`: as
    Pulsar names it; empty in journals of older versions.
    """

    phase: AdoptionPhase
    before: Mapping[str, str | None]
    seq: int
    at_ms: int = 0
    who: str = ""
    why: str = ""
    command_id: str = ""
    cluster: str = ""

    def is_of_another(self, cluster: str) -> bool:
        """Whether it is known to be of another cluster than this one, and still holds."""
        known = self.cluster and cluster and self.cluster != cluster
        return bool(known) and self.phase is not AdoptionPhase.RELEASED

    def to_json(self) -> dict[str, Any]:
        """As snapshots and `ballast status --json` have it."""
        row = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**row, "phase": self.phase.value, "before": dict(self.before)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Adoption:
        """The inverse of `to_json`; a newer version may have written more."""
        known = {name: row[name] for name in cls.__dataclass_fields__ if name in row}
        return cls(**{**known, "phase": AdoptionPhase(row["phase"])})


@dataclass(slots=True)
class ObservedCluster:
    """Observations by bundle name, rings, orders and facts.

    `rings`: namespace -> its boundaries in ascending order, first 0 and last 0xffffffff. `range_blocks`: range text ->
    bundle for which the modular load manager may still keep a destination. `facts`: what the brokers say of
    themselves and of their policies, by key (`controller/domain/facts.py`). `settled_at_ms`: broker -> event time of
    the end of the newest move from or to it. `adoption`: None if nobody ever adopted or released the cluster; then
    orders may go once its own balancer is off.
    """

    bundles: dict[str, Observation] = field(default_factory=dict)
    rings: dict[str, tuple[int, ...]] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    blocks: dict[str, Block] = field(default_factory=dict)
    range_blocks: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    settled_at_ms: dict[str, int] = field(default_factory=dict)
    adoption: Adoption | None = None

    def is_range_kept_by_another(self, name: str) -> bool:
        """Whether a destination may be kept for another bundle of this one's range. The bundle's own would only be
        written again by its next order."""
        return self.range_blocks.get(name.rpartition("/")[2], name) != name

    def ranges_in_use(self, living: Container[str]) -> set[str]:
        """The range texts of open orders, and of bundles in doubt whose broker lives: their requests may be carried out
        yet. `living`: brokers with a session."""
        found = {order.range_text for order in self.orders.values()}
        for name, block in self.blocks.items():
            seen = self.bundles.get(name) if block.in_doubt_seq else None
            if seen is not None and seen.broker in living:
                found.add(name.rpartition("/")[2])
        return found

    def copy(self) -> ObservedCluster:
        """A copy to apply entries to: containers are copied, values are shared."""
        result = object.__new__(ObservedCluster)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(result, name, value.copy() if isinstance(value, dict) else value)
        return result

    @property
    def released(self) -> bool:
        """Whether an operator gave the cluster back to its own balancer, or is about to."""
        return self.adoption is not None and self.adoption.phase is not AdoptionPhase.ADOPTED

    def holder(self, name: str) -> str | None:
        """The broker that a bundle counts for: the target of an open move, else the observed owner."""
        seen, order = self.bundles.get(name), self.orders.get(name)
        if seen is None:
            return None
        return order.target if order is not None and order.kind is OrderKind.MOVE else seen.broker

    def state_of(self, name: str) -> str:
        """The state of an observed bundle, one of `OBSERVED_STATES`."""
        seen = self.bundles[name]
        if seen.disputed:
            return "disputed"
        if name in self.orders:
            return "ordered"
        return "owned" if seen.broker is not None and not seen.stale else "unknown"

    def orders_of(self, broker: str) -> int:
        """How many open orders have the broker as source or target."""
        return sum(broker in (order.source, order.target) for order in self.orders.values())

    def open_splits(self, namespace: str) -> int:
        """How many open orders split a bundle of the namespace."""
        return sum(o.kind is OrderKind.SPLIT and o.bundle.namespace == namespace for o in self.orders.values())


def bundles_of_ring(namespace: str, boundaries: tuple[int, ...]) -> Iterator[Bundle]:
    """The bundles between the boundaries of a namespace, in ring order."""
    return (Bundle(namespace, lower, upper) for lower, upper in pairwise(boundaries))


def has_bundle(boundaries: tuple[int, ...], bundle: Bundle) -> bool:
    """Whether a ring with these boundaries has the bundle."""
    at = bisect_left(boundaries, bundle.lower)
    return boundaries[at : at + 2] == (bundle.lower, bundle.upper)


def is_ring(boundaries: tuple[int, ...]) -> bool:
    """Whether the boundaries ascend from 0 to 0xffffffff."""
    return boundaries[:1] == (0,) and boundaries[-1:] == (RING_END,) and list(boundaries) == sorted(set(boundaries))


def changes_between(before: Set[str], now: Set[str]) -> tuple[list[str], list[str]]:
    """The names that are new and those that are gone, sorted."""
    return sorted(now - before), sorted(before - now)
