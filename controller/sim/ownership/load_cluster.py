"""The ownership simulation with records of service: who serves what, for how long nobody did, what moved and why.

`SimCluster` runs the real step and the real agent cores millisecond by millisecond and checks I1 to I3. As little of
that happens in an hour, the clock of a quiet cluster stands still: CLOCK_BOOTTIME and the time of load reports are
separate clocks anyway, and with nothing in flight, no silent broker and no pending failure, heartbeats change nothing.
Moves are read from the journal, gaps from what the simulated brokers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.agent.handover.core import HandoverCore
from controller.domain.decision import OF_STEP, Reason
from controller.domain.entries import Entry, Kind
from controller.domain.events import BrokerEvent, Heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.settings.policy import ControlSettings
from controller.sim.ownership.agent import SimAgent
from controller.sim.ownership.cluster import SimCluster

BALANCE, FAILOVER, DRAIN, SPLIT, COMMAND, RETURN = "balance", "failover", "drain", "split", "command", "return"
CAUSES = (BALANCE, FAILOVER, DRAIN, SPLIT, COMMAND, RETURN)
_BY_REASON = {
    Reason.ORPHANED.value: FAILOVER, Reason.DRAINED.value: DRAIN, Reason.SPLIT_SEND_ON.value: SPLIT,
    Reason.COMMANDED.value: COMMAND, Reason.OVERRIDDEN.value: COMMAND,
    "owner_ended": FAILOVER, "both_ended": FAILOVER, "target_ended": RETURN,
}  # fmt: skip
AXIS_MS = 1_000_000_000_000  # where the time of load reports begins; 0 is that of bundles that never moved
_SLICE_MS = 500
_DELAYS = 0.1  # of the ownership simulation's message delays: a hop of some 20 ms, as measured on a real Kafka


@dataclass(frozen=True, order=True, slots=True)
class Move:
    """A change of owner. Times are since the start of the run.

    `decided_ms`: the time of the round that decided it, from which grace periods count; otherwise equal to `at_ms`.
    """

    at_ms: int
    bundle: str
    source: str
    target: str
    cause: str
    decided_ms: int


@dataclass(frozen=True, slots=True)
class Taken:
    """A broker began to serve a bundle that was not served for `gap_ms`; `moved`: another broker served it before."""

    broker: str
    bundle: Bundle
    gap_ms: int
    moved: bool


class _Served(dict[Bundle, int]):
    """The bundles that a broker serves; reports every change to the cluster."""

    def __init__(self, cluster: LoadCluster, broker: str) -> None:
        super().__init__()
        self._cluster, self._broker = cluster, broker

    def __setitem__(self, bundle: Bundle, epoch: int) -> None:
        if bundle not in self:
            self._cluster.note_taken(self._broker, bundle)
        super().__setitem__(bundle, epoch)

    def pop(self, bundle: Bundle, default: int | None = None) -> int | None:  # type: ignore[override]
        if bundle in self:
            self._cluster.note_left(self._broker, bundle)
        return super().pop(bundle, default)

    def clear(self) -> None:
        for bundle in self:
            self._cluster.note_left(self._broker, bundle)
        super().clear()


class WatchedAgent(SimAgent):
    """A simulated agent whose service is recorded."""

    def __init__(self, cluster: LoadCluster, broker: str, nonce: str) -> None:
        self._watching = cluster
        super().__init__(cluster, broker, nonce)
        self.serves = _Served(cluster, broker)

    def _new_core(self) -> HandoverCore:
        def refuses(bundle: Bundle) -> str | None:
            return Reason.BROKER_CAP.value if self.refusing or self.leaving else None

        return HandoverCore(self.session, refuses, self._watching.halves)


@dataclass(slots=True)
class _Ledger:
    """What is known of the journal so far."""

    read: int = 0
    owner: dict[str, str] = field(default_factory=dict)  # bundle -> broker that owned it last
    cause: dict[str, str] = field(default_factory=dict)  # bundle -> why it is on its way
    decided: dict[str, int] = field(default_factory=dict)  # bundle on its way -> time of the round that wanted it


class LoadCluster(SimCluster):
    """A controller and agents whose clock can stand still; reports what happened to the load simulation."""

    agent_type = WatchedAgent

    def __init__(self, seed: int, settings: ControlSettings) -> None:
        self.loads_of_halves: Callable[[Bundle, int], Mapping[str, float]] = lambda bundle, boundary: {}
        self.changes = 0  # counts changes of who serves what
        self._down_since: dict[Bundle, tuple[int, str]] = {}  # nobody serves it: since when, and who did
        self._taken: list[Taken] = []
        self._ledger = _Ledger()
        self.splits = 0
        self.rejections: list[str] = []  # of operators' commands
        super().__init__(seed, settings, slow=_DELAYS)

    # ------------------------------------------------------------ service, told by the agents

    def note_taken(self, broker: str, bundle: Bundle) -> None:
        """Note that a broker begins to serve the bundle."""
        self.changes += 1
        since, before = self._down_since.pop(bundle, (self.now_ms, broker))
        self._taken.append(Taken(broker, bundle, self.now_ms - since, before != broker))

    def note_left(self, broker: str, bundle: Bundle) -> None:
        """Note that a broker stops serving the bundle, for whatever reason."""
        self.changes += 1
        self._down_since[bundle] = (self.now_ms, broker)

    def take_arrivals(self) -> list[Taken]:
        """The bundles that brokers began to serve since the last call."""
        arrived, self._taken = self._taken, []
        return arrived

    def unserved_ms(self) -> int:
        """How long live bundles have not been served until now, in total."""
        living = {bundle for ring in self.state.namespaces.values() for bundle in ring}
        return sum(self.now_ms - since for bundle, (since, _) in self._down_since.items() if bundle in living)

    def serving(self) -> Iterator[tuple[Bundle, str]]:
        """Every bundle that is really served, with its broker."""
        for agent in self.agents:
            if agent.alive:
                for bundle, epoch in agent.serving_now().items():
                    if not self.store.excludes(bundle, epoch):
                        yield bundle, agent.broker

    def halves(self, bundle: Bundle, boundary: int) -> Mapping[str, float]:
        """The loads of both halves, for `split_done`, from the load simulation if there is one."""
        return self.loads_of_halves(bundle, boundary)

    def process_of(self, broker: str) -> SimAgent | None:
        """The newest living process of the broker."""
        return next((a for a in reversed(self.agents) if a.broker == broker and a.alive), None)

    # ------------------------------------------------------------ time

    def run_while_busy(self, most_ms: int) -> None:
        """Let the ownership clock run until the cluster is quiet, at most for `most_ms`."""
        end_ms = self.now_ms + most_ms
        while self.now_ms < end_ms and not self.quiet():
            self.run(min(_SLICE_MS, end_ms - self.now_ms))

    def settle(self, patience_ms: int = 90_000) -> None:
        """Settle like SimCluster, without waiting if nothing is in progress."""
        self.cut.clear()
        self.run_while_busy(patience_ms)
        super().settle(15_000 if self.quiet() else patience_ms)

    def quiet(self) -> bool:
        """Whether nothing but heartbeats would happen."""
        watch = self._watch
        if watch.deadlines or watch.orphans or watch.lookups or watch.expired or watch.rejections or self.state.frozen:
            return False
        if any(until > self.now_ms for until in self.cut.values()) or not all(map(_routine, self.pending)):
            return False
        if self._in_flight is not None and self._in_flight[1]:
            return False
        living = [agent for agent in self.agents if agent.alive]
        return {agent.session for agent in living} == set(self.state.sessions) and all(map(self._idle, living))

    def _idle(self, agent: SimAgent) -> bool:
        acting = agent.acting and agent.hung_until_ms <= self.now_ms and not agent.leaving
        return acting and agent.registered and agent.state.seq == self.state.seq and not agent.running

    # ------------------------------------------------------------ moves, from the journal

    def begin_metering(self) -> None:
        """Count moves and gaps from now on."""
        self._ledger = _Ledger(len(self.journal))
        self._ledger.owner = {name: r.by.broker for name, r in self.state.bundles.items() if r.by is not None}
        self._taken.clear()
        self.splits = 0

    def take_moves(self, at_ms: int) -> list[Move]:
        """The changes of owner in the journal since the last call."""
        ledger = self._ledger
        fresh, ledger.read = self.journal[ledger.read :], len(self.journal)
        moves = []
        for entry in fresh:
            if entry.kind is Kind.SPLIT and entry.by:
                self.splits += 1
                ledger.owner.update(dict.fromkeys(entry.data["children"], Session.parse(entry.by).broker))
            elif entry.kind is Kind.COMMAND_REJECTED:
                self.rejections.append(f"{entry.data['kind']} {entry.data['args']}: {entry.reason}")
            elif entry.kind is Kind.OWNERSHIP and entry.bundle:
                move = self._follow(entry, entry.bundle, at_ms)
                moves += [move] if move is not None else []
        return moves

    def _follow(self, entry: Entry, bundle: str, at_ms: int) -> Move | None:
        ledger = self._ledger
        if entry.reason in _BY_REASON:
            ledger.cause[bundle] = _BY_REASON[entry.reason]
            ledger.decided.pop(bundle, None)
        elif entry.reason and entry.decision_id and not entry.decision_id.startswith(OF_STEP):
            ledger.cause[bundle] = BALANCE
        if entry.data.get("moving_at_ms"):
            ledger.decided[bundle] = int(entry.data["moving_at_ms"]) - AXIS_MS
        if entry.state != State.OWNED.value or not entry.by:
            return None
        target = Session.parse(entry.by).broker
        source = ledger.owner.get(bundle)
        ledger.owner[bundle] = target
        cause, decided_ms = ledger.cause.pop(bundle, COMMAND), ledger.decided.pop(bundle, at_ms)
        if source is None or source == target:
            return None
        return Move(at_ms, bundle, source, target, cause, decided_ms)


def _routine(event: object) -> bool:
    return isinstance(event, Heartbeat) or (isinstance(event, BrokerEvent) and event.kind == "inventory")
