"""One controller, one simulated Pulsar, agents that come and go; the promises about orders, checked after every event.

- At most one unload or split per order reached an owner, also where a broker that hung carries one out later.
- No order was opened while the breaker had tripped, outside mode live, while another balancer might act, between a
  release and the next adoption, or to a target that is dead, suspect, drained or forbidden by isolation; at most so
  many were open. No bundle whose order ended in doubt got another one before it was listed on a request that was sent
  after that end.
- A split cuts where an operator said, or inside the range; its end names a boundary that Pulsar's ring has.
- Every order ends, and two polls after the last thing that happened the journal's owners are Pulsar's (`settle`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.agent.cluster.observer import TRUSTED_AFTER
from controller.agent.cluster.orders import Split
from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.facts import ISOLATION, Facts, answer_timeout_ms, find_other_balancer, is_suspect
from controller.domain.observed import IN_DOUBT, ObservedCluster, Order, OrderKind, OrderOutcome
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import LIVE, ClusterState
from controller.sim.observed.agent import MOST_WAY_MS, POLL_MS, SimClusterAgent
from controller.sim.observed.pulsar import SimPulsar, Whims, is_isolated
from controller.sim.observed.requests import Request
from controller.sim.ownership.cluster import SimCluster
from controller.sim.ownership.invariants import check_fold, check_holdings

LISTED_AFTER_DEATH_MS = 10_000  # Pulsar's session timeout
BATCH_MS = 700  # at most, from the start of a controller's batch to the start of the next one
LOOK_MS = 250  # between two looks at whether all is quiet
# Within which owners are right once nothing happens: two polls, the answer of the second one, the event that follows,
# and the batch that reads it. The first poll may be judged by a journal that the agent has not read to its end. No
# broker that hangs or is suspect adds to it: those woke up before, and a list counts whoever is suspect.
RIGHT_WITHIN_MS = 2 * POLL_MS + 3 * MOST_WAY_MS + 2 * BATCH_MS
TRUSTED_WITHIN_MS = (TRUSTED_AFTER + 1) * POLL_MS + RIGHT_WITHIN_MS  # a broker that answers again is suspect no more
_OF_OBSERVING = frozenset({Kind.OBSERVED, Kind.RING, Kind.FACT, Kind.OFFSETS})


class ObservedSim(SimCluster):
    """See the module. `pulsar`: what is really so."""

    def __init__(self, seed: int, modular: bool = True, settings: ControlSettings | None = None) -> None:
        self._shadow = ClusterState()  # the fold up to the entry that is being checked
        self._told = 0  # entries of the journal that are about more than what is seen
        super().__init__(seed, settings)
        self.pulsar = SimPulsar(self.random, modular)
        self.shedding = False  # whether a broker's own balancer is switched on
        self.released = False  # by the newest accepted command about it
        self.begun: set[str] = set()  # orders that some agent began: a restarted one must not begin them again
        self._dead_until: dict[str, int] = {}
        self._doubted_ms: dict[str, int] = {}  # bundle -> since when the outcome of its last order is in doubt
        self._listed_ms: dict[str, int] = {}  # bundle -> when the newest request was sent whose answer lists it
        self.after(1_000, self._clients)

    # ------------------------------------------------------------ for scenarios

    def start_agent(self) -> SimClusterAgent:
        """Start an agent of the cluster; its predecessor need not be dead."""
        agent = SimClusterAgent(self, f"n{len(self.agents)}")
        self.agents.append(agent)  # type: ignore[arg-type]
        self._every(1_000, agent.beat, agent)  # type: ignore[arg-type]
        self._every(250, agent.work, agent)  # type: ignore[arg-type]
        self._every(POLL_MS, agent.poll, agent)  # type: ignore[arg-type]
        return agent

    def kill_broker(self, broker: str) -> None:
        """Kill a broker; Pulsar lists it until its session times out."""
        self.pulsar.kill(broker)
        self._dead_until[broker] = self.now_ms + LISTED_AFTER_DEATH_MS

    def listed(self) -> set[str]:
        """The brokers that Pulsar lists."""
        return self.pulsar.alive | {b for b, until in self._dead_until.items() if self.now_ms < until}

    def configuration(self, broker: str) -> dict[str, Any]:
        """What a broker tells of itself."""
        manager = "modular" if self.pulsar.modular else "extensible"
        told = {"manager": manager, "version": "4.0.8", "shedding": self.shedding, "auto_split": False}
        return {**told, "unload_timeout_ms": 10_000, "stats_period_ms": 5_000}

    def wake(self) -> None:
        """No broker hangs any more: each carries out what it has received."""
        self.pulsar.wake()
        self._check_reached()

    def isolate(self, *brokers: str) -> None:
        """Give the namespace t/a brokers of its own; none: take them back."""
        hosts = [broker.partition(":")[0] for broker in brokers]
        self.pulsar.policies = {"p": {"namespaces": ["t/a"], "primary": hosts, "secondary": []}} if hosts else {}

    def settle(self, patience_ms: int = 300_000) -> None:
        """End all faults. Every order ends, and two polls after the last event the owners in the journal are right."""
        self._end_faults()
        self._await_quiet(patience_ms)
        self._check_owners()
        self.run(TRUSTED_WITHIN_MS)  # else what waits for a broker that did not answer would wait rightly
        self._await_quiet(patience_ms)
        self._check_owners()
        self._check_waiting()
        check_fold(ClusterState(), self.journal, self.state)

    def _await_quiet(self, patience_ms: int) -> None:
        until_ms, quiet_ms, before = self.now_ms + patience_ms, self.now_ms, self._all_that_happened()
        while self.now_ms - quiet_ms < RIGHT_WITHIN_MS or self.state.observed.orders:
            if self.now_ms > until_ms:
                raise InvariantBroken(f"orders never ended: {sorted(self.state.observed.orders)}")
            self.run(LOOK_MS)
            now = self._all_that_happened()
            if now != before:
                quiet_ms, before = self.now_ms, now
            elif self.state.frozen and self.now_ms - quiet_ms >= RIGHT_WITHIN_MS:
                self.command("thaw")

    def _end_faults(self) -> None:
        self.cut.clear()
        self.shedding = False
        self.pulsar.whims = Whims()
        self.wake()
        for broker in self.state.brokers:
            self.command("undrain", broker=broker)  # else orders would go on
        if not any(agent.alive for agent in self.agents):
            self.start_agent()

    def _all_that_happened(self) -> object:
        """Changes with everything that happens to the cluster, and that the journal says of it beyond what it sees."""
        pulsar = self.pulsar
        return dict(pulsar.owner), dict(pulsar.rings), pulsar.leader, self.listed(), self._told

    def _check_owners(self) -> None:
        wrong = self._find_differences()
        if wrong:
            raise InvariantBroken(f"observed owners differ from Pulsar's (journal, Pulsar): {wrong}")
        blocks = self.state.observed.blocks
        doubted = sorted(name for name in self.pulsar.owner if name in blocks and blocks[name].in_doubt_seq)
        if doubted:
            raise InvariantBroken(f"one broker lists these, and they are in doubt still: {doubted}")

    def _check_waiting(self) -> None:
        """What waits for its turn waits for a destination that Pulsar may keep, or for a broker that is gone."""
        cluster, alive = self.state.observed, self.pulsar.alive
        stuck = [
            name
            for name, order in self._watch.queued_orders.items()
            if name in self.pulsar.owner
            and name.rpartition("/")[2] not in cluster.range_blocks
            and (order.target is None or order.target in alive)
        ]
        if stuck:
            raise InvariantBroken(f"nothing stands in their way, and their orders are not sent: {stuck}")

    def _find_differences(self) -> dict[str, tuple[str | None, str | None]]:
        seen = {name: o.broker for name, o in self.state.observed.bundles.items() if o.broker and not o.stale}
        names = seen.keys() | self.pulsar.owner.keys()
        both = {name: (seen.get(name), self.pulsar.owner.get(name)) for name in names}
        return {name: pair for name, pair in both.items() if pair[0] != pair[1]}

    # ------------------------------------------------------------ for the agent

    def send_change(self, order: Order, request: Request) -> None:
        """Send an order's request to Pulsar; it times out as a real one would."""
        change, broker = request.change, request.change.source
        if isinstance(change, Split):
            change.bundle.split_at(change.boundary)
            if order.command_id is not None and change.boundary != order.boundary:
                raise InvariantBroken(f"order {order.id} cuts at {change.boundary} instead of {order.boundary}")
        self.after(answer_timeout_ms({f"broker:{broker}": self.configuration(broker)}, broker), request.time_out)
        self.pulsar.send(request)
        self._check_reached()

    def note_listed(self, names: frozenset[str], asked_ms: int) -> None:
        """A broker lists these, on a request that was sent then."""
        for name in names:
            self._listed_ms[name] = max(asked_ms, self._listed_ms.get(name, 0))

    def _check_reached(self) -> None:
        order_id, count = max(self.pulsar.reached.items(), key=lambda one: one[1], default=("", 0))
        if count > 1:
            raise InvariantBroken(f"order {order_id} reached an owner {count} times")

    # ------------------------------------------------------------ inside

    def _clients(self) -> None:
        self.pulsar.look_up_all()
        self.after(self.random_ms(300, 2_000), self._clients)

    def _journal(self, entries: list[Entry]) -> None:
        super()._journal(entries)
        shadow = self._shadow
        for entry in entries:
            if entry.kind is Kind.ORDER:
                self._check_order(shadow, entry)
            elif entry.kind is Kind.ORDER_ENDED:
                self._check_end(entry)
            elif entry.kind is Kind.COMMAND_ACCEPTED and entry.data["kind"] in ("adopt", "release"):
                self.released = entry.data["kind"] == "release"
            self._told += entry.kind not in _OF_OBSERVING
            apply_in_place(shadow, entry)
        if entries:
            check_holdings(self.state)

    def _check_end(self, entry: Entry) -> None:
        """Where an order says that it has split a bundle, the ring parts."""
        if OrderOutcome(entry.data["outcome"]) in IN_DOUBT:
            self._doubted_ms[entry.bundle or ""] = self.now_ms
        ring = self.pulsar.rings.get((entry.bundle or "").rpartition("/")[0], ())
        if entry.data["outcome"] == OrderOutcome.SPLIT.value and entry.data.get("boundary") not in ring:
            raise InvariantBroken(f"entry {entry.seq} says that {entry.bundle} was cut at {entry.data.get('boundary')}")

    def _check_order(self, state: ClusterState, entry: Entry) -> None:
        """What must hold in the state before an order is opened."""
        cluster, data, name = state.observed, entry.data, entry.bundle or ""
        seen, target = cluster.bundles[name], data.get("target")
        answering = [b.id for b in state.live_brokers() if not is_suspect(cluster.facts, b.id)]
        wrong = {
            "mode": state.mode != LIVE,
            "released": self.released,
            "frozen": state.frozen,
            "another balancer": find_other_balancer(cluster.facts, answering) is not None,
            "owner": seen.broker != data["source"] or seen.stale or seen.disputed,
            "in doubt": self._listed_ms.get(name, 0) < self._doubted_ms.get(name, 0),
            "target": target is not None
            and (
                state.session_of(target) is None or is_suspect(cluster.facts, target) or state.brokers[target].drained
            ),
            "too many": len(cluster.orders) >= self.settings.orders_in_flight,
            "too many of a broker": any(
                cluster.orders_of(b) >= self.settings.orders_per_broker
                for b in (data["source"], target)
                if b is not None
            ),
            "isolation": target is not None and is_isolated(_policies_in(cluster.facts), seen.bundle.namespace, target),
            "range": self.pulsar.modular
            and data["kind"] != OrderKind.SPLIT.value
            and _is_range_taken(cluster, data["kind"], name),
        }
        broken = [what for what, is_wrong in wrong.items() if is_wrong]
        if broken:
            raise InvariantBroken(f"entry {entry.seq} orders {name} to {target} against: {', '.join(broken)}")


def _policies_in(facts: Facts) -> dict[str, Mapping[str, list[str]]]:
    return {key: fact for key, fact in facts.items() if key.startswith(ISOLATION)}


def _is_range_taken(cluster: ObservedCluster, kind: str, name: str) -> bool:
    """Whether another order may have left a destination for this range, or be about to. A move writes its own one."""
    text = name.rpartition("/")[2]
    kept = cluster.range_blocks.get(text)
    mine = kept == name and kind == OrderKind.MOVE.value
    return (kept is not None and not mine) or any(order.range_text == text for order in cluster.orders.values())
