"""An agent with the clocks that it has by default, on a machine whose clocks are set and which sleeps."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from controller.agent import agent as agent_module
from controller.agent.agent import Agent
from controller.agent.cluster.agent import ClusterAgent
from controller.agent.connections import AgentConnections
from controller.agent.options import AgentOptions
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.domain.entries import Entry, Kind
from controller.domain.ids import Session
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.process import clock
from tests.unit.agent.agent_world import NAMESPACE, WHOLE, Journal
from tests.unit.agent.session_stage import NAMES, Outbox
from tests.unit.machine import Machine

LEASE_MS = 6_000
ME, B = Session("a:1", 1, "na", 1), Session("b:1", 1, "nb", 1)
PATIENCE_S = 60.0


class Tables:
    """The journal's table, in memory: what `controller.ledger.follower.Follower` does for an agent."""

    place = "memory"

    def __init__(self) -> None:
        self.journal = Journal()
        self.state = ClusterState()
        self._read = 0

    def bootstrap(self) -> object:
        return self.catch_up()

    def offer(self, entries: Iterable[Entry]) -> object:
        return None

    def hear(self, seq: int) -> None: ...

    def catch_up(self) -> Sequence[Entry]:
        new = self.journal.entries[self._read :]
        self._read += len(new)
        self.state = self.journal.state.copy()
        return new


class NoFeed:
    """A reader that never reads anything; the agent follows the table."""

    def start(self, timeout_ms: int = 30_000) -> None: ...

    def stop(self, timeout_s: float = 5.0) -> None: ...


class Kafka(Outbox):
    """Acknowledges everything, heartbeats too, unless it is `away`."""

    def __init__(self) -> None:
        super().__init__([])
        self.away = False

    def send(self, *record: Any, **more: Any) -> Any:
        future = super().send(*record, **more)
        if not self.away and not future.done():
            future.set_result((0, 0))
        return future


class Stage:
    """Broker a:1 and its agent."""

    def __init__(self, runtime: MemoryRuntime | None = None, feed: NoFeed | None = None) -> None:
        self.kafka, self.tables = Kafka(), Tables()
        self.runtime = runtime or MemoryRuntime(MemoryFences())
        options = AgentOptions(lease_ms=LEASE_MS, heartbeat_ms=20, journal_poll_ms=20, report_interval_ms=600_000)
        reader: Any = lambda topics, take, fail: feed or NoFeed()  # noqa: E731
        connections = AgentConnections(self.kafka, self.kafka, reader, self.tables, NAMES)
        self.agent = Agent("a:1", "na", self.runtime, connections, options, jitter=0.0)

    async def register(self) -> None:
        await self.until(lambda: self.kafka.heartbeats)
        self.tables.journal.register(ME)
        self.tables.journal.add(Kind.REGISTERED, broker="b:1", session=str(B), data={"info": {"data_address": "b:10"}})
        self.tables.journal.namespace()
        await self.until(self.agent.may_serve)

    async def own(self) -> None:
        self.tables.journal.own(State.ASSIGNING, 1, to=ME)
        await self.until(lambda: self.runtime.serving() == {WHOLE: 1})
        self.tables.journal.own(State.OWNED, 1, by=ME)
        await self.follow()

    async def follow(self) -> None:
        """The agent has read the journal to its end."""
        await self.until(lambda: self.agent.watcher.state.seq == self.tables.journal.state.seq)

    async def look_up(self) -> int:
        """The status of a lookup that is sent to the agent."""
        query = f"topic=persistent://{NAMESPACE}/t".encode()
        request = Request({"type": "http", "method": "GET", "path": "/lookup", "query_string": query})
        (lookup,) = (route for route in self.agent.routes() if route.path == "/lookup")
        response: Response = await lookup.endpoint(request)
        return response.status_code

    async def until(self, holds: Callable[[], object]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while not holds():
            assert asyncio.get_running_loop().time() < end, "it never came true"
            await asyncio.sleep(0.005)


def play(scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        stage = Stage()
        running = asyncio.create_task(stage.agent.run())
        try:
            await stage.register()
            await scenario(stage)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.covers("ownership-ends-with-session")
def test_an_agent_that_slept_for_a_lease_may_serve_nothing_from_the_moment_it_wakes(machine: Machine) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.own()
        machine.suspend(LEASE_MS)
        assert not stage.agent.may_serve()
        assert stage.runtime.serving() == {WHOLE: 1}, "it has not run yet"
        await stage.until(lambda: stage.runtime.serving() == {})
        await stage.until(lambda: stage.kafka.heartbeats[-1].value["session"] == 2)

    play(scenario)


@pytest.mark.parametrize("by_ms", [30_000, -30_000])
def test_the_wall_clock_may_be_set_under_an_agent(machine: Machine, by_ms: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.own()
        machine.set_wall(by_ms)
        assert stage.agent.may_serve()
        before = len(stage.kafka.heartbeats)
        await stage.until(lambda: len(stage.kafka.heartbeats) > before + 10)
        assert stage.agent.may_serve()
        assert stage.runtime.serving() == {WHOLE: 1}

    play(scenario)


def test_a_wall_clock_that_was_set_back_makes_no_lease_longer(machine: Machine) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.own()
        stage.kafka.away = True
        machine.set_wall(-3_600_000)
        machine.run(LEASE_MS)
        assert not stage.agent.may_serve()
        await stage.until(lambda: stage.runtime.serving() == {})

    play(scenario)


def test_between_the_end_of_its_lease_and_the_next_check_an_agent_takes_nothing_and_names_nobody(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "CHECK_MS", 600_000)

    async def scenario(stage: Stage) -> None:
        stage.tables.journal.own(State.ASSIGNING, 1, to=B)
        stage.tables.journal.own(State.OWNED, 1, by=B)
        await stage.follow()
        assert await stage.look_up() == 200
        said = stage.kafka.kinds()
        machine.suspend(LEASE_MS)
        stage.tables.journal.own(State.TRANSFERRING, 2, B, ME)
        stage.tables.journal.own(State.RELEASING, 2, B, ME, released=True)
        await stage.follow()
        assert (stage.runtime.serving(), stage.kafka.kinds()) == ({}, said)
        assert await stage.look_up() == 503

    play(scenario)


@pytest.mark.parametrize("made", [Agent, ClusterAgent])
def test_agents_run_on_the_boot_clock_unless_they_are_given_another(made: type) -> None:
    parameters = inspect.signature(made).parameters
    assert (parameters["boot_ms"].default, parameters["wall_ms"].default) == (clock.boot_ms, clock.wall_ms)


def test_who_was_asked_to_leave_refuses_what_was_granted_before_the_journal_knew() -> None:
    """It would only have to be handed over once more."""

    async def scenario(stage: Stage) -> None:
        stage.agent.leave()
        stage.tables.journal.own(State.ASSIGNING, 1, to=ME)
        await stage.follow()
        await stage.until(lambda: "rejected" in stage.kafka.kinds() or stage.runtime.serving())
        assert stage.runtime.serving() == {}
        (said,) = [r.value for r in stage.kafka.sent if r.value.get("kind") == "rejected"][:1]
        assert said["reason"] == "leaving"

    play(scenario)
