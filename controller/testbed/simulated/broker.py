"""One broker process: the real agent and the reference broker, on an event loop of their own.

The broker may be slow, refuse, and fail in the middle of a call. What it serves is the truth that invariants look at,
whatever the agent believes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from controller.agent.agent import Agent
from controller.agent.connections import AgentConnections
from controller.agent.lifecycle import BROKEN, Ending
from controller.agent.options import AgentOptions
from controller.brokers.reference.runtime import ReferenceBroker
from controller.bus.topics import TopicNames
from controller.domain.errors import StoreError
from controller.domain.ids import Bundle
from controller.testbed.simulated.kafka import Link, SimKafka, SimProducer, SimReader
from controller.testbed.simulated.message_store import ADDRESS
from controller.testbed.simulated.metrics import metrics_of_agents
from controller.testbed.simulated.network import SimNetwork
from controller.testbed.simulated.runtime import SimRuntime
from controller.testbed.simulated.tables import SimFollower, SimStore
from controller.testbed.simulated.virtual_loop import VirtualLoop, unforeseen
from controller.testbed.simulated.world import WallClock, delay_ms

LOOKUP = "/lookup"
ROUNDING_MS = 2  # clocks count whole milliseconds
FAILED = 1  # exit code of a process that could not reach Kafka or the store at its start


class SimBroker:
    """One process of a broker. `clock_rate`: of its machine's clocks, against true time."""

    def __init__(
        self, kafka: SimKafka, store: SimStore, network: SimNetwork, broker: str, nonce: str, options: AgentOptions,
        names: TopicNames, *, clock_rate: float, can_fence: bool, on_end: Callable[[Ending], None],
        breach: Callable[[str], None],
    ) -> None:  # fmt: skip
        world = kafka.world
        self.broker, self.nonce, self.dice = broker, nonce, world.dice(f"{broker} {nonce}")
        self.link = Link(self.dice)
        self.alive = True
        self.on_fenced: Callable[[Bundle, int], None] = lambda bundle, epoch: None
        self.table_cut_until_ms = 0.0
        self.wall_clock = WallClock(world, clock_rate)
        self.began_ms = world.now_ms
        self.heard_ms = world.now_ms  # when records were last fetched
        self.stalled_until_ms = 0.0  # its clock is there already: it was stopped within a call
        self.asked_to_leave_ms = math.inf
        self.leave_timeout_ms = options.leave_timeout_ms
        self.sessions_begun = 1  # the highest number of a session that it has sent a heartbeat of
        self._world, self._kafka, self._network = world, kafka, network
        self._rate, self._on_end, self._breach = clock_rate, on_end, breach
        self._heartbeats, self._lease_ms = names.of_broker(broker).heartbeats, options.lease_ms
        self._readers: list[SimReader] = []
        self.producers = [SimProducer(kafka, self.link, self._runs) for _ in range(2)]
        self.loop = VirtualLoop(
            network, f"{broker} {nonce}", clock_rate, lambda: delay_ms(self.dice, 1, 80) * store.slow
        )
        self.loop.set_exception_handler(self._note_failure)
        reference = ReferenceBroker(
            f"{broker}.{nonce}", ADDRESS, may_serve=lambda: self.agent.may_serve(), clock_ms=self.boot_ms,
            on_fenced=lambda bundle, epoch: self.on_fenced(bundle, epoch),
        )  # fmt: skip
        self.runtime = SimRuntime(reference, self.dice, can_fence, world.counts)
        journal = SimFollower(store, lambda: world.now_ms >= self.table_cut_until_ms)
        self.agent = Agent(
            broker, nonce, self.runtime,
            AgentConnections(self.producers[0], self.producers[1], self._open_reader, journal, names),
            options, metrics=metrics_of_agents(world.seed), boot_ms=self.boot_ms, wall_ms=self.wall_clock,
            jitter=self.dice.random(),
        )  # fmt: skip
        self.lookup: Any = next(route.endpoint for route in self.agent.routes() if route.path == LOOKUP)
        self._run = self.loop.create_task(self.agent.run())
        self._run.add_done_callback(self._note_end)

    # ------------------------------------------------------------ what happens to it

    def pause(self, ms: float) -> None:
        """SIGSTOP, and SIGCONT so much later."""
        self.loop.paused_until_ms = max(self.loop.paused_until_ms, self._world.now_ms + ms)

    def stall(self, ms: float) -> None:
        """Be stopped for so long within the next heartbeat, once Kafka has it; its machine is cut off afterwards."""

        def stop() -> None:
            self.pause(ms)
            self.stalled_until_ms = self._world.now_ms + ms
            self.link.cut_until_ms = max(self.link.cut_until_ms, self.stalled_until_ms + self._lease_ms)

        self.producers[0].stall = (self._heartbeats, stop)

    def resume(self) -> None:
        """SIGCONT."""
        self.loop.paused_until_ms = max(self._world.now_ms, self.stalled_until_ms)

    def leave(self) -> None:
        """SIGTERM."""
        if self._runs():
            self.loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        self.asked_to_leave_ms = min(self.asked_to_leave_ms, self._world.now_ms)
        self.agent.leave()

    def kill(self) -> None:
        """SIGKILL."""
        if not self.alive:
            return
        self.alive = False
        self.loop.halt()
        self._network.kill(self.loop)
        for producer in self.producers:
            producer.dead = True
        for reader in self._readers:
            reader.stop()

    def read_again(self) -> None:
        """Its connection to Kafka was made anew."""
        for reader in self._readers:
            reader.read_again()

    # ------------------------------------------------------------ what is true of it

    def serving(self) -> dict[Bundle, int]:
        """What it serves, with epochs: nothing once the process is dead or its lease has expired."""
        return self.runtime.serving() if self.alive and self.leased() else {}

    def is_stopped(self) -> bool:
        """Whether the process does not run now."""
        return self._world.now_ms < max(self.loop.paused_until_ms, self.stalled_until_ms)

    def leased(self) -> bool:
        """Whether a session's lease is valid at this moment, by its own clock."""
        sessions = self.agent.sessions
        return sessions is not None and not sessions.lease.has_expired(self.boot_ms())

    def has_lease(self) -> bool:
        """Whether it is registered and its lease valid at this moment, by its own clock."""
        sessions, now_ms = self.agent.sessions, self.boot_ms()
        if sessions is None or not sessions.registered or sessions.lease.has_expired(now_ms):
            return False
        return sessions.lease.until_ms > now_ms and self._has_beaten()

    def _has_beaten(self) -> bool:
        """Whether Kafka has a heartbeat that was sent within a lease, whatever the agent believes."""
        beaten_ms = self.producers[0].appended_ms.get(self._heartbeats, -math.inf)
        return (self._world.now_ms - beaten_ms) * self._rate <= self._lease_ms + ROUNDING_MS

    def boot_ms(self) -> int:
        """CLOCK_BOOTTIME of its machine."""
        return int(max(self._world.now_ms, self.stalled_until_ms) * self._rate)

    # ------------------------------------------------------------ inside

    def _runs(self) -> bool:
        return self.alive and self._world.now_ms >= self.loop.paused_until_ms

    def _open_reader(
        self, topics: list[str], take: Callable[[Sequence[Any]], None], on_failure: Callable[[Exception], object]
    ) -> SimReader:
        def hear(records: Sequence[Any]) -> None:
            self.heard_ms = self._world.now_ms
            take(records)

        reader = self._kafka.reader(self.link, topics, hear)
        reader.runs = self._runs
        self._readers.append(reader)
        return reader

    def _note_end(self, task: asyncio.Task[Ending]) -> None:
        if self.alive:
            self.kill()
            ending = ending_of(task)
            self._world.after(0, lambda: self._on_end(ending))

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.alive and (failure := unforeseen(context)):
            self._breach(f"an exception was lost in {self.broker}: {failure}")

    def close(self) -> None:
        """Give back what the operating system counts. Nothing that it still does reaches anybody."""
        self.kill()
        self.loop.unwind()


def ending_of(task: asyncio.Task[Ending]) -> Ending:
    """How a process has ended; as broken by an exception that no fault causes."""
    error = task.exception()
    if error is None:
        return task.result()
    if isinstance(error, OSError | StoreError):
        return Ending(FAILED, str(error))
    return Ending(BROKEN, f"{type(error).__name__}: {error}")
