"""Carries out one order, as a generator of calls: it yields what to ask of the cluster and is sent the answer.

Pure, so the simulation drives the same code as the agent. At most one unload or split that may have reached an owner is
sent per order, whatever happens: it is repeated only after an answer that says it reached none, and only if the source
still lists the bundle. That is the last thing asked before every request; what may take long comes before it. Whether
the bundle moved is read from what the brokers list, never from a status code or a lookup: the modular load manager
answers 204 without doing anything, and a lookup assigns bundles.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from controller.domain.ids import Bundle
from controller.domain.observed import Order, OrderKind, OrderOutcome, has_bundle

MOST_TRIES = 3  # of a request that did not reach the owner
RETRY_PAUSE_MS = 1_000
FIRST_CHECK_MS = 200
MOST_CHECK_MS = 2_000  # pauses between looks at the brokers' lists double up to this
STAYED_CHECKS = 3  # looks in a row at which only the source lists the bundle
GIVE_UP_MS = 20_000  # after an answer that all is done, when nobody lists the bundle


@dataclass(frozen=True, slots=True)
class ReadRing:
    """Answered by the namespace's boundaries, () when it does not exist, or None without an answer."""

    namespace: str


@dataclass(frozen=True, slots=True)
class ListOwned:
    """Answered by the names of the bundles that the broker lists as active, or None without an answer."""

    broker: str


@dataclass(frozen=True, slots=True)
class CountTopics:
    """Answered by how many topics the bundle has, or None if unknown."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class FindBoundary:
    """Where half of the bundle's load lies, by the topics at its owner. Answered by a `Boundary`."""

    bundle: Bundle
    owner: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """`at`: the first hash of the upper half, with topics on both sides; None if not known, because of `why`."""

    at: int | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class CountNonPersistent:
    """Answered by how many non-persistent topics the bundle holds at its owner, or None if unknown."""

    bundle: Bundle
    owner: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Find out what an unload under the modular load manager needs. Answered by something for `Unload.prepared`."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class Unload:
    """The one request that moves. Answered by a `Reply`."""

    bundle: Bundle
    source: str
    target: str | None
    prepared: Any = None


@dataclass(frozen=True, slots=True)
class Split:
    """Answered by a `Reply`."""

    bundle: Bundle
    source: str
    boundary: int


@dataclass(frozen=True, slots=True)
class LookUp:
    """Look up a known topic of the bundle, so that it is placed (`placing.py`). Answered by whether that was seen."""

    bundle: Bundle


@dataclass(frozen=True, slots=True)
class FindOwner:
    """Answered by the broker that alone lists the bundle by the newest lists of all, or None. A list counts if it was
    requested after the request with this number: an older one may tell where the bundle was before."""

    bundle: Bundle
    after: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait. Not answered by anything of use."""

    ms: int


Asked = ReadRing | ListOwned | CountTopics | FindBoundary | CountNonPersistent | Prepare | FindOwner
Call = Asked | Unload | Split | LookUp | Pause


@dataclass(frozen=True, slots=True)
class Reply:
    """How a request ended. `status`: of HTTP, 0 without an answer. `reached`: it may have reached an owner. `after`:
    the number of the last request for a list that was sent before it."""

    status: int
    reached: bool
    detail: str = ""
    redirected: bool = False  # it may have reached the leader, which keeps the destination
    after: int = 0


def may_have_reached(status: int, unanswered: bool) -> bool:
    """Whether a request may have reached who owned the bundle then: the order's source, another broker or the leader.

    `unanswered`: somebody received it and said nothing. Who redirects it has not acted on it. An answer says what came
    of it, a refusal on the way as well: the same request would get it again.
    """
    return status != 0 or unanswered


@dataclass(slots=True)
class Ended:
    """The outcome. `owner`: as listed at the end. `sent`: the cluster may have kept the destination; of a move that
    arrived, because somebody else has brought the bundle there. `boundary`: where a split that may have reached an
    owner cut."""

    outcome: OrderOutcome
    owner: str | None = None
    sent: bool = False
    detail: str = ""
    boundary: int | None = None

    def to_data(self) -> dict[str, Any]:
        """As the event `order_ended` carries it."""
        return {
            "outcome": self.outcome.value,
            "sent": self.sent,
            **({"destination_kept": True} if self.sent and self.outcome is OrderOutcome.MOVED else {}),
            **({"owner": self.owner} if self.owner is not None else {}),
            **({"detail": self.detail} if self.detail else {}),
            **({"boundary": self.boundary} if self.boundary is not None else {}),
        }


Run = Generator[Call, Any, Ended]


def carry_out(order: Order, modular: bool, spare_non_persistent: bool = False) -> Run:
    """Check, send, and find out what came of it. `spare_non_persistent`: do not move such topics."""
    if order.kind is OrderKind.SPLIT:
        return (yield from _split(order))
    if spare_non_persistent:
        count = yield CountNonPersistent(order.bundle, order.source)
        if count:
            why = f"it holds {count} non-persistent topics, which would lose messages"
            return Ended(OrderOutcome.REFUSED, order.source, detail=why)
    return (yield from _move(order, modular))


def _check(order: Order) -> Generator[Call, Any, Ended | None]:
    """Why nothing is sent: the order does not fit what the cluster says right now."""
    ring = yield ReadRing(order.bundle.namespace)
    if ring is None:
        return Ended(OrderOutcome.FAILED, detail="the ring could not be read")
    if not has_bundle(ring, order.bundle):
        return Ended(OrderOutcome.GONE, detail="the range is not in the namespace's ring")
    owned = yield ListOwned(order.source)
    if owned is None:
        return Ended(OrderOutcome.FAILED, detail=f"{order.source} does not answer")
    if str(order.bundle) in owned:
        return None
    there = (yield ListOwned(order.target)) if order.target is not None else None
    if there is not None and str(order.bundle) in there:
        return Ended(OrderOutcome.MOVED, order.target, detail="it was there already")
    return Ended(OrderOutcome.REFUSED, detail=f"{order.source} does not own it")


def _move(order: Order, modular: bool) -> Run:
    sent = yield from _send(order, modular)
    if isinstance(sent, Ended):
        return sent
    reply, noted = sent
    if not reply.reached:
        return Ended(OrderOutcome.FAILED, sent=noted, detail=_describe(reply))
    placed = False
    if modular and 200 <= reply.status < 300:
        placed = bool((yield LookUp(order.bundle)))
    if 400 <= reply.status < 500:
        return (yield from _judge_refusal(order, reply, noted))
    return (yield from _await_move(order, reply, placed))


def _send(order: Order, modular: bool) -> Generator[Call, Any, tuple[Reply, bool] | Ended]:
    """The last reply, and whether the leader may have noted the destination of any try; or why no more was sent."""
    noted = False
    for attempt in range(MOST_TRIES):
        if attempt:
            yield Pause(RETRY_PAUSE_MS)
        request: Unload | Split
        if order.boundary is not None:
            request = Split(order.bundle, order.source, order.boundary)
        else:
            prepared = (yield Prepare(order.bundle)) if modular else None
            request = Unload(order.bundle, order.source, order.target, prepared)
        ended = yield from _check(order)
        if ended is not None:
            ended.sent = noted
            return ended
        reply: Reply = yield request
        noted |= reply.redirected or reply.reached
        if reply.reached:
            break
    return reply, noted


def _judge_refusal(order: Order, reply: Reply, sent: bool) -> Run:
    """Pulsar said no: because the range is gone, the target inactive, a right is missing, or somebody else was faster.

    The lists decide all the same. The owner is named only where one of them has the bundle.
    """
    name, detail = str(order.bundle), _describe(reply)
    there = (yield ListOwned(order.target)) if order.target is not None else None
    if there is not None and name in there:
        return Ended(OrderOutcome.MOVED, order.target, sent, detail)
    here = yield ListOwned(order.source)
    ring = yield ReadRing(order.bundle.namespace)
    if ring is not None and not has_bundle(ring, order.bundle):
        return Ended(OrderOutcome.GONE, None, sent, detail)
    if here is None or name in here:
        return Ended(OrderOutcome.REFUSED, None if here is None else order.source, sent, detail)
    ended = yield from _await_move(order, reply, placed=False)
    ended.sent = sent
    return ended


def _await_move(order: Order, reply: Reply, placed: bool) -> Run:
    """Look at the lists of target and source until one of them, or another broker, has the bundle.

    `placed`: it was seen to be placed since, which uses the destination up; so it is where another broker has it.
    Unless Pulsar has answered that it is done, or refuses, the bundle may be moving for as long as nobody lists it:
    only the controller's deadline ends the order then.
    """
    name, detail, is_over = str(order.bundle), _describe(reply), 200 <= reply.status < 500
    pause_ms, waited_ms, stayed = FIRST_CHECK_MS, 0, 0
    while True:
        there = (yield ListOwned(order.target)) if order.target is not None else None
        if there is not None and name in there:
            return Ended(OrderOutcome.MOVED, order.target, False, detail)
        here = yield ListOwned(order.source)
        stayed = stayed + 1 if here is not None and name in here else 0
        if stayed >= STAYED_CHECKS:
            return Ended(OrderOutcome.STAYED, order.source, not placed, detail)
        owner = yield FindOwner(order.bundle, reply.after)
        if not stayed and owner is not None and owner not in (order.source, order.target):
            outcome = OrderOutcome.MOVED if order.target is None else OrderOutcome.ELSEWHERE
            return Ended(outcome, owner, False, detail)
        if is_over and waited_ms >= GIVE_UP_MS and here is not None and not stayed:
            return Ended(OrderOutcome.ELSEWHERE, None, True, detail or "nobody lists it yet")
        yield Pause(pause_ms)
        waited_ms += pause_ms
        pause_ms = min(2 * pause_ms, MOST_CHECK_MS)


def _split(order: Order) -> Run:
    """At the order's boundary, or where half of the load lies if the order only proposes one."""
    assert order.boundary is not None, "an order to split without a boundary"
    topics = yield CountTopics(order.bundle)
    if topics is not None and topics < 2:
        few = Ended(OrderOutcome.REFUSED, order.source, detail=f"it has {topics} topics; a split needs two")
        return (yield from _check(order)) or few
    order, note = (yield from _choose_boundary(order)) if order.boundary_is_proposed else (order, "")
    sent = yield from _send(order, modular=False)
    if isinstance(sent, Ended):
        return sent
    reply, _ = sent
    ended = (yield from _await_halves(order, reply)) if reply.reached else Ended(OrderOutcome.FAILED)
    ended.boundary = order.boundary if reply.reached else None
    ended.detail = "; ".join(filter(None, [_describe(reply) or ended.detail, note]))
    return ended


def _choose_boundary(order: Order) -> Generator[Call, Any, tuple[Order, str]]:
    """The order as it is carried out, and why it keeps the boundary that was proposed."""
    found: Boundary = yield FindBoundary(order.bundle, order.source)
    if found.at is None:
        return order, f"at the proposed boundary: {found.why}"
    if not order.bundle.lower < found.at < order.bundle.upper:
        return order, f"at the proposed boundary: 0x{found.at:08x} is outside the range"
    return replace(order, boundary=found.at), ""


def _await_halves(order: Order, reply: Reply) -> Run:
    """Look at the namespace's ring until it has both halves, or should have had them."""
    assert order.boundary is not None, "an order to split without a boundary"
    halves, pause_ms, waited_ms = order.bundle.split_at(order.boundary), FIRST_CHECK_MS, 0
    while True:
        ring = yield ReadRing(order.bundle.namespace)
        if ring is not None and all(has_bundle(ring, half) for half in halves):
            return Ended(OrderOutcome.SPLIT, order.source)
        answered = 200 <= reply.status < 500
        if ring is not None and (waited_ms >= GIVE_UP_MS or (answered and waited_ms >= MOST_CHECK_MS)):
            if not has_bundle(ring, order.bundle):
                return Ended(OrderOutcome.GONE)
            return Ended(OrderOutcome.REFUSED, order.source, detail="the ring has not changed")
        yield Pause(pause_ms)
        waited_ms += pause_ms
        pause_ms = min(2 * pause_ms, MOST_CHECK_MS)


def _describe(reply: Reply) -> str:
    """Status and words, unless all went well."""
    if 200 <= reply.status < 300:
        return ""
    return f"HTTP {reply.status}: {reply.detail}" if reply.status else reply.detail or "no answer"
