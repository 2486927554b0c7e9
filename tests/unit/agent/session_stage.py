"""One agent's session with everything around it but Kafka: a clock by hand, and a log of what it did in which order.

The parts are the real ones. `Outbox` takes Kafka's place: it keeps what is sent until the test acknowledges it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from controller.agent.event_publisher import EventPublisher
from controller.agent.handover.driver import HandoverDriver
from controller.agent.metrics import AgentMetrics
from controller.agent.session.departure import Departure
from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.session.registration import Verdict
from controller.agent.session.session import Sessions
from controller.agent.signal import Signal
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.bus.topics import TopicNames
from controller.domain.entries import Entry
from controller.domain.ids import Session
from controller.domain.ownership import State
from tests.unit.agent.agent_world import WHOLE, Journal

NAMES = TopicNames("")
LEASE_MS = 6_000
LEAVE_MS = 30_000
A, B = Session("a:1", 1, "na", 1), Session("b:1", 1, "nb", 1)


class Sent(NamedTuple):
    """A record, and the future that its sender waits for."""

    topic: str
    value: Mapping[str, Any]
    future: Future[tuple[int, int]]


class Outbox:
    """A `Sender`. Everything but heartbeats is acknowledged at once; `log` gets the kind of each record."""

    def __init__(self, log: list[tuple[str, str, int]]) -> None:
        self.log = log
        self.sent: list[Sent] = []
        self.heartbeats: list[Sent] = []

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        record = Sent(topic, value, Future())
        if topic == NAMES.heartbeats:
            self.heartbeats.append(record)
            self.log.append(("sent", "heartbeat", value["session"]))
        else:
            self.sent.append(record)
            self.log.append(("sent", str(value["kind"]), value["session"]))
            record.future.set_result((0, 0))
        return record.future

    def kinds(self) -> list[str]:
        """The kinds of the broker events sent so far."""
        return [str(record.value["kind"]) for record in self.sent]


class SessionStage:
    """The sessions of broker `a:1`, whose journal the test writes. Make it within a running loop."""

    def __init__(self, runtime: MemoryRuntime | None = None) -> None:
        self.now_ms = 1_000_000
        self.runtime = runtime or MemoryRuntime(MemoryFences())
        self.log = self.runtime.log  # of the runtime's calls and the records sent, in order
        self.outbox = Outbox(self.log)
        self.journal = Journal()
        self.changes = Signal()
        self.lost: list[Verdict] = []
        self.stuck: list[str] = []
        self.hears = True  # whether the journal can be followed
        metrics = AgentMetrics()
        self.publisher = EventPublisher(
            A.broker,
            self.outbox,
            NAMES,
            sessions=lambda: self.sessions,
            state=lambda: self.journal.state,
            wall_ms=lambda: 0,
        )
        self.driver = HandoverDriver(
            self.runtime,
            say=self.publisher.answer,
            may_act=lambda: self.sessions.may_act(),
            where=lambda session: None,
            boot_ms=self.boot_ms,
            metrics=metrics,
        )
        self.sessions = Sessions(
            A,
            driver=self.driver,
            heartbeats=HeartbeatSender(self.outbox, NAMES, boot_ms=self.boot_ms, wall_ms=lambda: 0, metrics=metrics),
            state=lambda: self.journal.state,
            info={},
            lease_ms=LEASE_MS,
            refuses=self.runtime.refuses,
            halves=lambda bundle, boundary: {},
            hears=lambda since_ms: self.hears,
            deregister=self.publisher.deregister,
            on_registered=lambda: None,
            on_replaced=self.lost.append,
            on_stuck=self.stuck.append,
            boot_ms=self.boot_ms,
            metrics=metrics,
        )
        self.departure = Departure(
            A.broker,
            publisher=self.publisher,
            changes=self.changes,
            state=lambda: self.journal.state,
            idle=lambda: self.driver.core is None or self.driver.core.idle(),
            boot_ms=self.boot_ms,
            timeout_ms=LEAVE_MS,
        )

    def boot_ms(self) -> int:
        return self.now_ms

    async def read(self, *entries: Entry) -> None:
        """The agent reads the entries that were added to the journal; what follows from them is done."""
        self.sessions.on_applied(entries)
        self.changes.wake()
        await settle()

    async def acknowledge(self, heartbeat: int = -1) -> None:
        """Kafka has the heartbeat."""
        self.outbox.heartbeats[heartbeat].future.set_result((0, 0))
        await settle()

    async def register(self) -> None:
        """The session is registered, and b:1 as well."""
        self.sessions.send_heartbeat()
        await self.acknowledge()
        await self.read(self.journal.register(A), self.journal.register(B), self.journal.namespace())
        assert self.sessions.registered

    async def own(self) -> None:
        """The session is registered, owns the whole ring at epoch 1 and serves it."""
        await self.register()
        await self.read(self.journal.own(State.ASSIGNING, 1, to=A))
        await self.read(self.journal.own(State.OWNED, 1, by=A))
        assert self.runtime.serving() == {WHOLE: 1}
        self.log.clear()
        self.outbox.sent.clear()


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
