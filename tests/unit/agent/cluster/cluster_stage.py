"""Agents of a stand-in Pulsar cluster with the real controller step behind them; only Kafka and tables are not real.

What an agent sends is processed when an agent next reads the journal.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from controller.agent.cluster.agent import ClusterAgent
from controller.agent.connections import AgentConnections
from controller.agent.lifecycle import Ending
from controller.agent.options import AgentOptions
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topics import TopicReader
from controller.bus.topics import TopicNames
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.events import Event, parse_broker_event, parse_heartbeat
from controller.domain.state import ClusterState
from controller.loads.recorded import Overrides
from controller.process.clock import boot_ms
from tests.unit.brokers.pulsar.stand_in import StandIn, stand_in
from tests.unit.control.step_driver import StepDriver

NAMES = TopicNames("")
LEASE_MS, POLL_MS = 6_000, 100
PATIENCE_S = 20.0


class Site:
    """Kafka, the controller and its journal."""

    def __init__(self, cluster: StandIn) -> None:
        self.cluster, self.driver = cluster, StepDriver()
        named = Entry(self.driver.state.seq + 1, Kind.CONTROLLER_STARTED, "i", 0, 0, data={"journal_id": "j"})
        self.driver.state = fold(self.driver.state, [named])
        self.driver.journal.append(named)
        self.sent: list[tuple[str, Mapping[str, Any]]] = []
        self.heard: list[bytes] = []  # heartbeats that a starting agent hears
        self.access: dict[str, Any] = {}  # settings of agents' credentials
        self._pending: list[Event] = []
        self._lock = threading.Lock()

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        parse = {NAMES.heartbeats: parse_heartbeat, NAMES.broker_events: parse_broker_event}.get(topic)
        with self._lock:
            self.sent.append((topic, value))
            if parse is not None:
                self._pending.append(parse(json.dumps(value).encode()))
        future: Future[tuple[int, int]] = Future()
        future.set_result((0, 0))
        return future

    def read(self) -> tuple[list[Entry], ClusterState]:
        """The journal after all that was sent."""
        with self._lock:
            self.driver.now_ms = boot_ms()
            self.driver.run(*self._pending, beats=False)
            self._pending.clear()
            return [Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0), *self.driver.journal], self.driver.state.copy()

    @property
    def facts(self) -> Mapping[str, Mapping[str, Any]]:
        return self.driver.state.observed.facts

    def facts_told(self) -> list[str]:
        """The keys of all facts that were ever told, in order."""
        events = [value for topic, value in self.sent if topic == NAMES.broker_events]
        return [str(value["data"]["key"]) for value in events if value["kind"] == "fact"]

    @asynccontextmanager
    async def agent(self, nonce: str, **options: Any) -> AsyncIterator[tuple[ClusterAgent, asyncio.Task[Ending]]]:
        """A running agent. By default it begins without listening for others."""
        given = AgentOptions(
            **{"lease_ms": LEASE_MS, "heartbeat_ms": 50, "journal_poll_ms": 20, "take_over": True, **options}
        )
        reader: Any = lambda topics, take, fail: Reader(self, topics, take)  # noqa: E731
        async with PulsarAdmin(self.cluster.settings(**self.access)) as admin, TopicReader(admin) as topics:
            poll = ClusterPoll(admin, topics, wait_for_topics=False)
            await poll.start()
            connections = AgentConnections(self, self, reader, Tables(self), NAMES)
            process = {"host": f"host-of-{nonce}", "pid": 77}
            made = ClusterAgent(nonce, poll, connections, given, Overrides(), poll_ms=POLL_MS, process=process)
            running = asyncio.create_task(made.run())
            try:
                yield made, running
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await poll.stop()

    async def until(self, holds: Callable[[], object]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not holds():
            assert asyncio.get_running_loop().time() < end, "it never came true"
            await asyncio.sleep(0.01)


class Reader:
    """Hands the heartbeats over at its start, where it was made for them; reads nothing else."""

    def __init__(self, site: Site, topics: Sequence[str], take: Callable[[Sequence[Any]], None]) -> None:
        self._take = take
        self._records = site.heard if NAMES.heartbeats in topics else []

    def start(self, timeout_ms: int = 30_000) -> None:
        self._take([SimpleNamespace(topic=NAMES.heartbeats, value=value) for value in self._records])

    def stop(self, timeout_s: float = 5.0) -> None: ...


class Tables:
    """One agent's reader of the journal's table."""

    place = "memory"

    def __init__(self, site: Site) -> None:
        self._site, self._read, self.state = site, 0, ClusterState()

    def bootstrap(self) -> object:
        return self.catch_up()

    def offer(self, entries: Iterable[Entry]) -> object:
        return None

    def hear(self, seq: int) -> None: ...

    def catch_up(self) -> Sequence[Entry]:
        entries, self.state = self._site.read()
        new = entries[self._read :]
        self._read = len(entries)
        return new


def on_site(scenario: Callable[[Site], Any], brokers: int = 3) -> None:
    """Run a scenario on a stand-in cluster whose brokers own one bundle each."""

    async def run() -> None:
        async with stand_in(brokers) as cluster:
            step = 0x100000000 // brokers
            bounds = [*(step * at for at in range(brokers)), 0xFFFFFFFF]
            for at, broker in enumerate(cluster.brokers):
                broker.held = {f"t/n/0x{bounds[at]:08x}_0x{bounds[at + 1]:08x}": 100.0}
                broker.answers["/t/n/bundles"] = lambda b, r: {"boundaries": [f"0x{at:08x}" for at in bounds]}
            await scenario(Site(cluster))

    asyncio.run(run())
