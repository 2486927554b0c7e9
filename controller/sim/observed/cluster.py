"""One controller, one simulated Pulsar, agents that come and go; the promises about orders, checked after every event.

- At most one unload or split per order reached an owner.
- No order was opened while the breaker had tripped, outside mode live, while another balancer might act, between a
  release and the next adoption, or to a target that is dead, suspect or drained; at most so many were open.
- A split cuts where an operator said, or inside the range; its end names a boundary that Pulsar's ring has.
- Every order ends, and after some quiet the journal's owners are Pulsar's.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from controller.agent.cluster.orders import Reply, Split, Unload
from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.facts import find_other_balancer, is_suspect
from controller.domain.observed import Order, OrderKind, OrderOutcome
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import LIVE, ClusterState
from controller.sim.observed.agent import POLL_MS, SimClusterAgent
from controller.sim.observed.pulsar import SimPulsar, Whims
from controller.sim.ownership.cluster import SimCluster
from controller.sim.ownership.invariants import check_fold, check_holdings

SETTLE_STEP_MS = 10_000
LISTED_AFTER_DEATH_MS = 10_000  # Pulsar's session timeout


class ObservedSim(SimCluster):
    """See the module. `pulsar`: what is really so."""

    def __init__(self, seed: int, modular: bool = True, settings: ControlSettings | None = None) -> None:
        self._shadow = ClusterState()  # the fold up to the entry that is being checked
        super().__init__(seed, settings)
        self.pulsar = SimPulsar(self.random, modular)
        self.shedding = False  # whether a broker's own balancer is switched on
        self.released = False  # by the newest accepted command about it
        self.begun: set[str] = set()  # orders that some agent began: a restarted one must not begin them again
        self._sends: Counter[str] = Counter()  # order -> requests that reached an owner
        self._dead_until: dict[str, int] = {}
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

    def settle(self, patience_ms: int = 240_000) -> None:
        """End all faults; then every order ends, and two polls later the journal's owners are Pulsar's."""
        self.cut.clear()
        self.shedding = False
        self.pulsar.hung.clear()
        self.pulsar.whims = Whims()
        for broker in self.state.brokers:
            self.command("undrain", broker=broker)  # else orders would go on
        if not any(agent.alive for agent in self.agents):
            self.start_agent()
        for _ in range(patience_ms // SETTLE_STEP_MS):
            self.run(SETTLE_STEP_MS)
            self.pulsar.look_up_all()
            if self.state.frozen:
                self.command("thaw")
            elif not self.state.observed.orders and not self._find_differences():
                quiet_from = len(self.journal)
                self.run(2 * POLL_MS)
                if not any(entry.kind is Kind.ORDER for entry in self.journal[quiet_from:]):
                    break  # else a command that had waited was sent
        if self.state.observed.orders:
            raise InvariantBroken(f"orders never ended: {sorted(self.state.observed.orders)}")
        wrong = self._find_differences()
        if wrong:
            raise InvariantBroken(f"observed owners differ from Pulsar's (journal, Pulsar): {wrong}")
        check_fold(ClusterState(), self.journal, self.state)

    def _find_differences(self) -> dict[str, tuple[str | None, str | None]]:
        seen = {name: o.broker for name, o in self.state.observed.bundles.items() if o.broker and not o.stale}
        names = seen.keys() | self.pulsar.owner.keys()
        both = {name: (seen.get(name), self.pulsar.owner.get(name)) for name in names}
        return {name: pair for name, pair in both.items() if pair[0] != pair[1]}

    # ------------------------------------------------------------ for the agent

    def carry_unload(self, order: Order, call: Unload) -> Reply:
        """Send an unload to Pulsar, and count it when it reached an owner."""
        before = len(self.pulsar.reached)
        reply = self.pulsar.unload(call)
        self._count(order, len(self.pulsar.reached) - before)
        return reply

    def carry_split(self, order: Order, call: Split) -> Reply:
        """Send a split to Pulsar, and count it when it reached an owner."""
        if order.command_id is not None and call.boundary != order.boundary:
            raise InvariantBroken(f"order {order.id} cuts at {call.boundary} instead of {order.boundary}")
        call.bundle.split_at(call.boundary)
        before = len(self.pulsar.reached)
        reply = self.pulsar.split(call)
        self._count(order, len(self.pulsar.reached) - before)
        return reply

    def _count(self, order: Order, sends: int) -> None:
        self._sends[order.id] += sends
        if self._sends[order.id] > 1:
            raise InvariantBroken(f"order {order.id} reached an owner {self._sends[order.id]} times")

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
            apply_in_place(shadow, entry)
        if entries:
            check_holdings(self.state)

    def _check_end(self, entry: Entry) -> None:
        """Where an order says that it has split a bundle, the ring parts."""
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
            "in doubt": name in cluster.blocks and cluster.blocks[name].in_doubt_seq > 0,
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
            "range": self.pulsar.modular
            and data["kind"] == OrderKind.MOVE.value
            and (
                cluster.is_range_kept_by_another(name)
                or name.rpartition("/")[2] in {order.range_text for order in cluster.orders.values()}
            ),
        }
        broken = [what for what, is_wrong in wrong.items() if is_wrong]
        if broken:
            raise InvariantBroken(f"entry {entry.seq} orders {name} to {target} against: {', '.join(broken)}")
