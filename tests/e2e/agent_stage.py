"""Agents with in-memory runtimes on a real Kafka and real tables, and a stand-in for the controller job.

The stand-in follows the same small rules as the unit tests' `MiniController`, commits to the journal's table and
publishes on the feed, each of which a test may switch off.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from controller.agent.agent import Agent
from controller.agent.connections import AgentConnections
from controller.agent.handover.actions import Answer
from controller.agent.lifecycle import Ending
from controller.agent.options import AgentOptions
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.domain.entries import Entry, Kind
from controller.domain.events import BrokerEvent, Heartbeat, parse_broker_event, parse_heartbeat
from controller.domain.ids import Session
from controller.domain.ownership import State
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal as Ledger
from controller.ledger.tables import TableRoot
from tests.unit.agent.agent_world import Journal, MiniController

OPTIONS = AgentOptions(
    lease_ms=6_000, heartbeat_ms=300, inventory_interval_ms=1_000, report_interval_ms=1_000, journal_poll_ms=300,
    lookup_wait_ms=6_000, leave_timeout_ms=60_000,
)  # fmt: skip


class StandIn:
    """Reads heartbeats and broker events, writes the journal. Decides in the test's loop, commits beside it."""

    def __init__(self, bootstrap: str, names: TopicNames, root: Path) -> None:
        TableRoot(str(root)).create_all()
        self.journal = Journal()
        self.journal.add(Kind.CONTROLLER_STARTED)
        self.rules = MiniController(self.journal)
        self.registers = True
        self.publishes = True
        self.requests = 0
        self.events: list[BrokerEvent] = []
        self._names = names
        self._ledger = Ledger(str(root))
        self._committed = 0
        self._inbox: queue.SimpleQueue[KafkaRecord] = queue.SimpleQueue()
        self.producer = JsonProducer(bootstrap, "stand-in")
        self._reader = TopicReader(
            bootstrap, [names.heartbeats, names.broker_events, names.assign_requests], self._take, name="stand-in"
        )
        self._reader.start()

    def _take(self, records: list[KafkaRecord]) -> None:
        for record in records:
            self._inbox.put(record)

    def decide(self) -> list[Entry]:
        """Work off what was read; returns the entries not committed yet, the test's own among them."""
        while not self._inbox.empty():
            record = self._inbox.get()
            if record.topic == self._names.heartbeats:
                beat = parse_heartbeat(record.value)
                if isinstance(beat, Heartbeat) and self.registers:
                    self._heartbeat(beat.session, dict(beat.info))
            elif record.topic == self._names.broker_events:
                self._event(parse_broker_event(record.value))
            else:
                self.requests += 1
        return self.journal.entries[self._committed :]

    def commit(self, fresh: list[Entry]) -> None:
        """One version of the table, then the feed."""
        self._ledger.commit(fresh, "test", self._committed)
        self._committed += len(fresh)
        if self.publishes:
            rows = [entry.to_row() for entry in fresh]
            self.producer.send(self._names.journal_feed, {"v": 1, "instance": "test", "entries": rows})

    @property
    def committed(self) -> bool:
        """Whether the table has every entry."""
        return self._committed == len(self.journal.entries)

    def repeat_seq(self) -> None:
        """What the controller says each second."""
        self.producer.send(self._names.journal_feed, {"v": 1, "instance": "test", "seq": self.journal.state.seq})

    def close(self) -> None:
        self._reader.stop()
        self.producer.close()

    def _heartbeat(self, session: Session, info: dict[str, Any]) -> None:
        known = self.journal.state.brokers.get(session.broker)
        if known is not None:
            if (session.incarnation, session.number) <= (known.session.incarnation, known.session.number):
                return
            if known.session in self.journal.state.sessions:
                self.rules.ended(known.session)
        self.journal.add(Kind.REGISTERED, broker=session.broker, session=str(session), data={"info": info})

    def _event(self, event: BrokerEvent) -> None:
        self.events.append(event)
        state = self.journal.state
        if event.kind == "leaving" and not state.brokers[event.session.broker].leaving:
            self.journal.add(Kind.DRAIN, broker=event.session.broker, data={"leaving": True})
            others = [b.session for b in state.live_brokers() if b.session != event.session]
            for record in [r for r in state.bundles.values() if r.by == event.session and r.state is State.OWNED]:
                self.journal.own(State.TRANSFERRING, record.epoch + 1, record.by, others[0], record.bundle)
        elif event.kind == "goodbye" and state.alive(event.session):
            self.rules.ended(event.session)
        elif event.bundle is not None and event.epoch is not None:
            self.rules.answered(event.session, Answer(event.kind, event.bundle, event.epoch))


class CutTable(Follower):
    """A follower whose table can be made unreadable."""

    cut = False

    def catch_up(self) -> list[Entry]:
        if self.cut:
            raise OSError("cut")
        return super().catch_up()


class CutSender:
    """A producer whose records can be made to fail, as behind a cut cable."""

    def __init__(self, producer: JsonProducer) -> None:
        self.producer = producer
        self.cut = False

    def send(
        self, topic: str, value: Any, key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        if not self.cut:
            return self.producer.send(topic, value, key, timestamp_ms)
        failed: Future[tuple[int, int]] = Future()
        failed.set_exception(OSError("cut"))
        return failed


class Stage:
    """Builds agents and runs them until the test is done."""

    def __init__(self, bootstrap: str, names: TopicNames, root: Path) -> None:
        self.bootstrap, self.names, self.root = bootstrap, names, root
        self.controller = StandIn(bootstrap, names, root)
        self.fences = MemoryFences()
        self.senders: dict[str, CutSender] = {}
        self.tables: dict[str, CutTable] = {}
        self.runtimes: dict[str, MemoryRuntime] = {}
        self.runs: dict[str, asyncio.Task[Ending]] = {}
        self.pauses = False
        self._work: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Stage:
        self._work = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *error: object) -> None:
        for run in self.runs.values():
            run.cancel()
        await asyncio.gather(*self.runs.values(), return_exceptions=True)
        assert self._work is not None
        self._work.cancel()
        await asyncio.gather(self._work, return_exceptions=True)
        self.controller.close()
        for sender in self.senders.values():
            sender.producer.close()

    def agent(self, broker: str, nonce: str = "n1", told: AgentOptions = OPTIONS, **options: Any) -> Agent:
        """An agent, running from now on."""
        sender = self.senders[broker] = CutSender(JsonProducer(self.bootstrap, broker, delivery_timeout_ms=3_000))
        table = self.tables[broker] = CutTable(str(self.root))
        runtime = self.runtimes[broker] = MemoryRuntime(self.fences, f"{broker}-data")

        def reader(topics: list[str], on_batch: Any, on_failure: Any) -> TopicReader:
            return TopicReader(self.bootstrap, topics, on_batch, name=broker, on_failure=on_failure)

        connections = AgentConnections(sender, sender, reader, table, self.names)
        agent = Agent(broker, nonce, runtime, connections, told, lookup_url=f"http://{broker}", jitter=0.5, **options)
        self.runs[broker] = asyncio.create_task(agent.run())
        return agent

    async def until(self, holds: Callable[[], object], what: str, timeout_s: float = 90.0) -> None:
        """Wait for a condition; a run that ended with an error is raised instead of waited for."""
        for _ in range(int(timeout_s / 0.02)):
            if holds():
                return
            for run in self.runs.values():
                if run.done() and not run.cancelled() and run.exception():
                    raise AssertionError(f"an agent broke while waiting for {what}") from run.exception()
            await asyncio.sleep(0.02)
        raise AssertionError(f"{what} did not happen: {self.controller.journal.entries[-5:]}")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self.pauses:
                fresh = self.controller.decide()
                if fresh:
                    await loop.run_in_executor(None, self.controller.commit, fresh)
            await asyncio.sleep(0.02)
