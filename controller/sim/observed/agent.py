"""A simulated agent of a whole cluster: the real observer, the real execution of orders, sessions for all brokers.

Only messages and requests are simulated: they are delayed, and the process crashes anywhere between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.agent.cluster import orders as ask
from controller.agent.cluster.observer import Listing, Observer
from controller.agent.cluster.orders import Ended, Run, carry_out
from controller.agent.session.lease import Lease
from controller.agent.session.registration import REPLACED, Standing, first_session, judge, next_session
from controller.domain.apply import fold
from controller.domain.entries import Entry
from controller.domain.events import UNLISTED, BrokerEvent, Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.observed import Order
from controller.domain.state import METADATA
from controller.sim.observed.requests import Request

if TYPE_CHECKING:
    from controller.sim.observed.cluster import ObservedSim

POLL_MS = 5_000
MOST_WAY_MS = 300  # of a message, each way


class _Asked(NamedTuple):
    """A request for what a broker owns. `seq`: of the journal, as far as it was applied then."""

    broker: str
    number: int
    seq: int
    at_ms: int


class SimClusterAgent:
    """One process, with a session for each broker that Pulsar lists."""

    def __init__(self, cluster: ObservedSim, nonce: str) -> None:
        self.cluster, self.nonce = cluster, nonce
        self.state = cluster.state.copy()
        self.alive = True
        self.paused_until_ms = self.hung_until_ms = 0
        self.refusing, self.reads_journal = False, True
        self.inbox: list[Entry] = []
        self.sessions: dict[str, Session] = {}
        self.leases: dict[str, Lease] = {}
        self.observer = Observer()
        self.runs: dict[str, Run] = {}  # by order id
        self.requests: dict[str, Request] = {}  # sent by runs
        self._sent = 0

    @property
    def session(self) -> Session:
        """A key for the checks of other simulations; it serves nothing itself."""
        return Session(self.nonce, 1, self.nonce, 1)

    def serving_now(self) -> dict[Bundle, int]:
        """Nothing: the brokers serve."""
        return {}

    @property
    def acting(self) -> bool:
        """Whether the process runs at this moment."""
        return self.alive and self.cluster.now_ms >= self.paused_until_ms

    def crash(self) -> None:
        """End at once, in the middle of whatever it does."""
        self.alive = False
        for order_id in list(self.runs):
            self._drop(order_id)

    # ------------------------------------------------------------ periodic

    def beat(self) -> None:
        """Send a heartbeat for every session."""
        if not self.acting:
            return
        for broker in sorted(self.sessions):
            if self._renew(broker) and not self.cluster.is_kafka_cut(self.nonce):
                info = {"runtime": "pulsar", "authority": METADATA, "can_fence": False}
                self.cluster.send_heartbeat(Heartbeat(self.sessions[broker], self.state.seq, info))
                self.leases[broker].renew(self.cluster.now_ms, self.cluster.now_ms)

    def poll(self) -> None:
        """List the brokers, then ask each for its bundles."""
        if not self.acting:
            return
        listed = self.cluster.listed()
        for broker in sorted(listed - self.sessions.keys()):
            self.sessions[broker] = first_session(self.state, broker, self.nonce)
            self.leases[broker] = Lease(self.cluster.settings.lease_ms, self.cluster.now_ms)
        for broker in sorted(self.sessions.keys() - listed):
            self._send(BrokerEvent("goodbye", self.sessions.pop(broker), self.state.seq, reason=UNLISTED))
            del self.leases[broker]
            self.observer.forget(broker)
        self._tell_facts()
        for broker in sorted(self.sessions):
            self._sent += 1
            asked = _Asked(broker, self._sent, self.state.seq, self.cluster.now_ms)
            self.cluster.after(self.cluster.random_ms(1, MOST_WAY_MS), lambda a=asked: self._read_list(a))  # type: ignore[misc]

    def _read_list(self, asked: _Asked) -> None:
        """The broker answers; what it says then arrives later."""
        names = self.cluster.pulsar.owned_by(asked.broker)
        self.cluster.after(self.cluster.random_ms(1, MOST_WAY_MS), lambda: self._listed(asked, names))

    def _listed(self, asked: _Asked, names: frozenset[str] | None) -> None:
        broker = asked.broker
        if not self.acting or broker not in self.sessions:
            return
        self.observer.note(Listing(broker, asked.number, asked.seq, names))
        self.cluster.note_listed(names or frozenset(), asked.at_ms)
        for namespace in sorted(self.observer.find_unknown_rings(broker, self.state)):
            self._tell_ring(namespace)
        changes = self.observer.find_changes(broker, self.state)
        if changes:
            self._send(BrokerEvent("observed", self.sessions[broker], self.state.seq, data=changes))

    def _tell_ring(self, namespace: str) -> None:
        ring = self.cluster.pulsar.rings.get(namespace, ())
        if self.sessions and self.state.observed.rings.get(namespace, ()) != ring:
            data = {"namespace": namespace, "boundaries": list(ring)}
            self._send(BrokerEvent("ring", self._speaker(), self.state.seq, data=data))

    def _tell_facts(self) -> None:
        wanted = {f"broker:{broker}": self.cluster.configuration(broker) for broker in self.sessions}
        wanted |= {f"suspect:{b}": {"why": "no answer"} for b in self.observer.suspects}
        wanted |= {f"isolation:{name}": dict(policy) for name, policy in self.cluster.pulsar.policies.items()}
        wanted["leader"] = {"broker": self.cluster.pulsar.leader}
        known = self.state.observed.facts
        gone = [key for key in known if key.startswith(("suspect:", "isolation:")) and key not in wanted]
        for key, value in [*wanted.items(), *((key, None) for key in gone)]:
            if self.sessions and known.get(key) != value:
                self._send(BrokerEvent("fact", self._speaker(), self.state.seq, data={"key": key, "value": value}))

    def _speaker(self) -> Session:
        living = [s for s in self.sessions.values() if s in self.state.sessions]
        return min(living or self.sessions.values())

    # ------------------------------------------------------------ the journal

    def receive(self, entries: Sequence[Entry]) -> None:
        """Receive journal entries, in order but perhaps late."""
        self.inbox += entries
        self.work()

    def work(self) -> None:
        """Apply the journal; begin orders that are ours, drop those that have ended."""
        if not self.acting:
            return
        fresh = [e for e in self.inbox if e.seq > self.state.seq]
        self.inbox = []
        if fresh:
            self.state = fold(self.state, fresh)
        for broker in list(self.sessions):
            self._judge(broker)
        open_orders = {o.id: o for o in self.state.observed.orders.values() if o.executor == self.nonce}
        for gone in self.runs.keys() - open_orders.keys():
            self._drop(gone)
        for order in sorted(open_orders.values(), key=lambda order: order.seq):
            if self.alive and order.id not in self.runs and order.id not in self.cluster.begun:
                self.cluster.begun.add(order.id)
                self.runs[order.id] = carry_out(order, self.cluster.pulsar.modular)
                self._advance(order, None)

    def inventory(self) -> None:
        """Nothing is served here."""

    def _judge(self, broker: str) -> None:
        standing = judge(self.state, self.sessions[broker]).standing
        if standing in REPLACED:
            self.crash()  # another agent has taken over
        elif standing is Standing.ENDED:
            self.leases[broker].end()
            self._renew(broker)

    def _renew(self, broker: str) -> bool:
        """Take the next session when the lease has expired; returns whether the broker has a session."""
        if self.leases[broker].has_expired(self.cluster.now_ms):
            self.sessions[broker] = next_session(self.sessions[broker])
            self.leases[broker] = Lease(self.cluster.settings.lease_ms, self.cluster.now_ms)
        return True

    # ------------------------------------------------------------ orders

    def _advance(self, order: Order, answer: Any) -> None:
        """Send the order's run an answer, and schedule what it asks next."""
        run = self.runs.get(order.id)
        if run is None or not self.acting:
            return
        try:
            call = run.send(answer)
        except StopIteration as stop:
            self._drop(order.id)
            self._tell_end(order, stop.value)
            return
        lease = self.leases.get(order.source)
        if isinstance(call, ask.Unload | ask.Split) and (lease is None or lease.has_expired(self.cluster.now_ms)):
            self._drop(order.id)  # nothing is sent without a lease: the order ends with the session
            return
        delay_ms = call.ms if isinstance(call, ask.Pause) else self.cluster.random_ms(1, 400)
        self.cluster.after(delay_ms, lambda: self._answer(order, call))

    def _answer(self, order: Order, call: ask.Call) -> None:
        pulsar = self.cluster.pulsar
        answer: Any = None
        if isinstance(call, ask.Unload | ask.Split):
            if self.alive:  # else the process died before it sent the request
                self._send_change(order, call)
            return
        if isinstance(call, ask.ListOwned):  # what it says arrives later
            names = pulsar.owned_by(call.broker)
            self.cluster.after(self.cluster.random_ms(1, MOST_WAY_MS), lambda: self._advance(order, names))
            return
        if isinstance(call, ask.ReadRing):
            answer = pulsar.rings.get(call.namespace, ())
            if self.alive:
                self._tell_ring(call.namespace)
        elif isinstance(call, ask.CountTopics):
            answer = 2
        elif isinstance(call, ask.FindBoundary):
            answer = pulsar.find_boundary(call.bundle, call.owner)
        elif isinstance(call, ask.LookUp):
            answer = pulsar.look_up(str(call.bundle))
        elif isinstance(call, ask.FindOwner):
            answer = self.observer.sole_owner_of(str(call.bundle), call.after)
        self._advance(order, answer)

    def _send_change(self, order: Order, call: ask.Unload | ask.Split) -> None:
        after, waits = self._sent, order.id in self.runs
        request = Request(order.id, call, lambda reply: self._advance(order, replace(reply, after=after)), waits)
        self.requests[order.id] = request
        self.cluster.send_change(order, request)

    def _drop(self, order_id: str) -> None:
        """The run is over; an answer to its request is not waited for any more."""
        self.runs.pop(order_id).close()
        request = self.requests.pop(order_id, None)
        if request is not None:
            request.waits = False

    def _tell_end(self, order: Order, ended: Ended) -> None:
        session = self.sessions.get(order.source) or (self._speaker() if self.sessions else None)
        if session is not None:
            data = {"id": order.id, **ended.to_data(), "ended_at_ms": self.cluster.now_ms}
            self._send(BrokerEvent("order_ended", session, self.state.seq, order.bundle, data=data))

    def _send(self, event: BrokerEvent) -> None:
        if not self.cluster.is_kafka_cut(self.nonce):
            self.cluster.after(self.cluster.random_ms(1, MOST_WAY_MS), lambda: self.cluster.pending.append(event))
