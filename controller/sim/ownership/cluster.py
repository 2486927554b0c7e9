"""A deterministic simulation of one controller and its agents: the real step, the real agent cores, random delays.

There is one heap of timed events and one seeded random generator. Every message is delayed by a random time; topics
keep their order, as in Kafka. Invariant I1 is checked after every event on what the brokers really do; I2, I3 and the
rule of living parties after every batch; I6 by `settle`.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from controller.brokers.memory.fences import MemoryFences
from controller.control.step import Batch, Watch, step
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import InvariantBroken
from controller.domain.events import AssignRequest, BrokerEvent, Command, Event, Heartbeat
from controller.domain.ids import Bundle
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.sim.ownership.agent import SimAgent
from controller.sim.ownership.invariants import (
    check_fold,
    check_one_server,
    check_settled,
    check_state,
    list_ordered_fences,
)


class SimCluster:
    """A controller, its journal, and all agent processes that ever ran, the newest last."""

    agent_type: type[SimAgent] = SimAgent

    def __init__(self, seed: int, settings: ControlSettings | None = None, slow: float = 1.0) -> None:
        self.random = random.Random(seed)
        self.settings = settings or ControlSettings()
        self.slow = slow  # multiplies message delays
        self.now_ms = 10_000
        self.state = ClusterState()
        self.journal: list[Entry] = []
        self.pending: list[Event] = []
        self.agents: list[SimAgent] = []
        self.store = MemoryFences()
        self.fences: list[tuple[Bundle, int]] = []  # that the journal has ordered
        self.cut: dict[str, int] = {}
        self.taken = False  # an agent has begun to serve a bundle since the last check of I1
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._serial = 0
        self._feed_at: dict[int, int] = {}  # agent -> arrival of its newest feed message, to keep the order
        self._batches = 0
        self._in_flight: tuple[list[Event], list[Entry]] | None = None
        self._journal([Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0)])
        self._watch = Watch.fresh(self.state, self.now_ms, self.settings)
        self._noted_ms = self.now_ms
        self.after(0, self._batch)

    # ------------------------------------------------------------ for scenarios

    def start(self, broker: str) -> SimAgent:
        """Start a process for the broker; a second one for the same id is allowed."""
        agent = self.agent_type(self, broker, f"n{len(self.agents)}")
        self.agents.append(agent)
        self._every(1000, agent.beat, agent)
        self._every(250, agent.work, agent)
        self._every(10_000, agent.inventory, agent)
        return agent

    def command(self, kind: str, **args: object) -> None:
        """Send an operator's command."""
        self._serial += 1
        self.pending.append(Command(f"c{self._serial}", kind, args))

    def lookup(self, bundle: Bundle) -> None:
        """Look up a bundle that nobody owns."""
        self.pending.append(AssignRequest("any:1", bundle))

    def restart_controller(self) -> None:
        """Kill and restart the controller. A running batch was committed or not; if not, its input is read again."""
        if self._in_flight is not None:
            events, entries = self._in_flight
            self._in_flight = None
            if self.random.random() < 0.5:
                self._publish(entries)
            else:
                self.pending = events + self.pending
        self._watch = Watch.fresh(self.state, self.now_ms, self.settings)
        self._noted_ms = self.now_ms

    def run(self, ms: int) -> None:
        """Let simulated time pass."""
        end = self.now_ms + ms
        while self._heap and self._heap[0][0] <= end:
            at, _, action = heapq.heappop(self._heap)
            self.now_ms = max(self.now_ms, at)
            action()
            if self.taken:  # only an agent that begins to serve can be a second server
                self.taken = False
                self.check_servers()
        self.now_ms = end

    def settle(self, patience_ms: int = 90_000) -> None:
        """End all faults and check that everything is served again after the deadlines."""
        self.cut.clear()
        for agent in self.agents:
            agent.paused_until_ms = agent.hung_until_ms = 0
            agent.refusing = False
            agent.reads_journal = True
        for _ in range(patience_ms // 15_000):
            self.run(15_000)
            if self.state.frozen:
                self.command("thaw")
        check_settled(self.state)
        check_fold(ClusterState(), self.journal, self.state)
        living = {a.session: a for a in self.agents if a.alive}
        for record in self.state.bundles.values():
            if record.by is not None:
                served = living[record.by].serving_now() if record.by in living else {}
                if served.get(record.bundle) != record.epoch:
                    raise InvariantBroken(f"I6: {record.by} owns {record.bundle} at {record.epoch}, serves {served}")

    def lagging(self) -> frozenset[str]:
        """The brokers that are behind the journal, as far as the controller knows."""
        return self._watch.lagging(self.state, self.settings)

    def check_servers(self) -> None:
        """Check I1 on all brokers."""
        check_one_server({a.session: a.serving_now() for a in self.agents if a.alive}, self.fences)

    # ------------------------------------------------------------ for agents

    def after(self, ms: int, action: Callable[[], object]) -> None:
        """Schedule an action."""
        self._serial += 1
        heapq.heappush(self._heap, (self.now_ms + ms, self._serial, action))

    def random_ms(self, low: int, high: int) -> int:
        """A random delay, multiplied by `slow`."""
        return int(self.random.randint(low, high) * self.slow)

    def is_kafka_cut(self, broker: str) -> bool:
        """Whether this broker cannot reach Kafka now."""
        return self.cut.get(broker, 0) > self.now_ms

    def send_heartbeat(self, beat: Heartbeat) -> None:
        """Append a heartbeat at once, because its acknowledgement renews the lease."""
        self.pending.append(beat)

    def send(self, event: BrokerEvent) -> None:
        """Send an event to the controller and, if it is `released`, to every agent directly."""
        if self.is_kafka_cut(event.session.broker):
            return
        self.pending.append(event)
        if event.kind == "released" and event.bundle is not None and event.epoch is not None:
            bundle, epoch, session = event.bundle, event.epoch, event.session
            for agent in self.agents:
                self.after(self.random_ms(1, 400), lambda a=agent: a.hear_released(bundle, epoch, session))  # type: ignore[misc]

    # ------------------------------------------------------------ inside

    def _every(self, ms: int, action: Callable[[], None], agent: SimAgent) -> None:
        def tick() -> None:
            if agent.alive:
                action()
                self.after(ms, tick)

        self.after(self.random.randint(0, ms), tick)

    def _batch(self) -> None:
        """Process everything appended before now; the batch's time was noted at the end of the last batch."""
        events, self.pending = self.pending, []
        self._batches += 1
        offsets = {"t": {"0": self._batches}}
        batch = Batch(events, offsets, self._batches, "i", 0, read_ms=self.now_ms)
        before = self.state
        result = step(before, self._watch, batch, self._noted_ms, self.settings)
        if result.state is not before:
            check_state(before, result.state)
        self._in_flight = events, result.entries
        self.after(self.random.randint(0, 300), self._commit)

    def _commit(self) -> None:
        if self._in_flight is not None:
            self._publish(self._in_flight[1])
            self._in_flight = None
        self._noted_ms = self.now_ms
        self.after(self.random.randint(50, 400), self._batch)

    def _publish(self, entries: list[Entry]) -> None:
        self._journal(entries)
        for index, agent in enumerate(self.agents):
            if entries and agent.alive:
                at = max(self._feed_at.get(index, 0), self.now_ms + self.random_ms(1, 700))
                self._feed_at[index] = at
                self.after(at - self.now_ms, lambda a=agent: a.receive(entries))  # type: ignore[misc]

    def _journal(self, entries: list[Entry]) -> None:
        if not entries:
            return
        self.state = fold(self.state, entries)
        self.journal += entries
        self.fences += list_ordered_fences(entries)
