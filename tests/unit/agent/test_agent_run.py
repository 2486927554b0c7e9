"""An agent from its constructor to the end of its run: what it refuses, what it cleans up, what it says of the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controller.agent import agent as agent_module
from controller.agent import lifecycle
from controller.agent.agent import Agent
from controller.agent.connections import AgentConnections
from controller.agent.handover import driver
from controller.agent.lifecycle import AGAIN, BROKEN, OK, Ending
from controller.agent.options import AgentOptions
from controller.brokers.memory.fences import MemoryFences
from controller.brokers.memory.runtime import MemoryRuntime
from controller.brokers.runtime import Directory
from controller.bus.producer import to_json
from controller.domain.errors import BadRecord, ConfigError, InvariantBroken
from controller.domain.events import parse_heartbeat
from controller.domain.ids import Bundle
from tests.unit.agent.agent_world import WHOLE
from tests.unit.agent.session_stage import NAMES
from tests.unit.agent.test_agent_clocks import ME, Kafka, NoFeed, Stage, Tables

# ---------------------------------------------------------------- names


def agent_named(broker: str, nonce: str) -> Agent:
    kafka = Kafka()
    connections = AgentConnections(kafka, kafka, lambda topics, take, fail: NoFeed(), Tables(), NAMES)
    return Agent(broker, nonce, MemoryRuntime(MemoryFences()), connections, AgentOptions())


def is_taken(broker: str, nonce: str) -> bool:
    """Whether the controller takes a heartbeat of such an agent."""
    record = {"v": 1, "broker": broker, "incarnation": 1, "nonce": nonce, "session": 1, "applied_seq": 0}
    try:
        parse_heartbeat(to_json(record))
    except BadRecord:
        return False
    return True


@pytest.mark.parametrize("broker", ["", "c#1", "c 1", "c\n", "ç1", "c" * 256])
def test_a_broker_id_that_no_controller_takes_is_refused_and_named(broker: str) -> None:
    with pytest.raises(ConfigError, match=r"broker_id: '.*1 to 255 ASCII letters, digits and . _ - : \[ \]"):
        agent_named(broker, "n1")
    assert not is_taken(broker, "n1")


@pytest.mark.parametrize("nonce", ["", "not ok!", "n-1", "n" * 65, "ñ"])
def test_a_nonce_that_no_controller_takes_is_refused_and_named(nonce: str) -> None:
    with pytest.raises(ConfigError, match=r"nonce: '.*1 to 64 ASCII letters and digits"):
        agent_named("c1", nonce)
    assert not is_taken("c1", nonce)


@pytest.mark.parametrize("broker", ["c1", "[::1]:8080", "host-1.example:80", "c" * 255])
@pytest.mark.parametrize("nonce", ["n", "0aF" * 21])
def test_names_that_a_controller_takes_are_taken(broker: str, nonce: str) -> None:
    assert agent_named(broker, nonce).broker == broker
    assert is_taken(broker, nonce)


def test_what_troubles_a_runtime_is_listed_by_healthz() -> None:
    agent = agent_named("c1", "n1")
    own = agent.health()
    vars(agent)["_runtime"].troubles = lambda: ["the segment store is away"]
    assert agent.health() == [*own, "the segment store is away"]


# ---------------------------------------------------------------- the end of a run


class Faulty(MemoryRuntime):
    """Its methods do what the test sets: raise an error, or hang."""

    def __init__(self) -> None:
        super().__init__(MemoryFences())
        self.faults: dict[str, Exception | None] = {}  # by method; None: it hangs
        self.stopped = False

    async def start(self, directory: Directory) -> None:
        await self._meet("start")
        await super().start(directory)

    async def stop(self) -> None:
        self.stopped = True
        await self._meet("stop")

    async def drop(self, bundle: Bundle) -> None:
        await self._meet("drop")
        await super().drop(bundle)

    def serving(self) -> dict[Bundle, int]:
        if error := self.faults.get("serving"):
            raise error
        return super().serving()

    async def _meet(self, method: str) -> None:
        if method in self.faults:
            error = self.faults[method]
            if error is not None:
                raise error
            await asyncio.Event().wait()


class Watched(NoFeed):
    stopped = False

    def stop(self, timeout_s: float = 5.0) -> None:
        self.stopped = True


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Ending | BaseException, bool]]:
    """Runs an agent through a scenario: how its run ended, and whether it left anything behind."""
    monkeypatch.setattr(agent_module, "DRIVE_MS", 10)
    monkeypatch.setattr(driver, "DROP_LIMIT_MS", 20)
    monkeypatch.setattr(lifecycle, "STOP_LIMIT_S", 0.02)

    async def run(scenario: Callable[[Stage, Faulty], Awaitable[object]]) -> tuple[Ending | BaseException, bool]:
        runtime, reader = Faulty(), Watched()
        stage = Stage(runtime, reader)
        running = asyncio.create_task(stage.agent.run())
        await scenario(stage, runtime)
        (ended,) = await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(0)  # what was cancelled last ends
        left_behind = len(asyncio.all_tasks()) > 1 or not reader.stopped or not runtime.stopped
        return ended, left_behind

    return lambda scenario: asyncio.run(run(scenario))


Ends = Callable[[Callable[[Stage, Faulty], Awaitable[object]]], tuple[Ending | BaseException, bool]]


def test_what_serving_raises_ends_the_run_as_broken_and_leaves_nothing_behind(ends: Ends) -> None:
    async def scenario(stage: Stage, runtime: Faulty) -> None:
        await stage.register()
        runtime.faults["serving"] = ZeroDivisionError("division by zero")

    assert ends(scenario) == (Ending(BROKEN, "ZeroDivisionError: division by zero"), False)


def test_what_start_raises_is_raised_once_all_is_stopped(ends: Ends) -> None:
    async def scenario(stage: Stage, runtime: Faulty) -> None:
        runtime.faults = {"start": OSError("no port"), "stop": OSError("it has not started")}

    error, left_behind = ends(scenario)
    assert (str(error), type(error), left_behind) == ("no port", OSError, False)


def test_a_journal_that_contradicts_itself_ends_the_run_before_it_has_begun(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent read it again and again, and did nothing else."""

    def broken(self: Tables) -> object:
        raise InvariantBroken("I5: two owners")

    async def scenario(stage: Stage, runtime: Faulty) -> None:
        await asyncio.sleep(0.05)
        stage.agent.leave()  # so that the test ends

    monkeypatch.setattr(Tables, "bootstrap", broken)
    assert ends(scenario) == (Ending(BROKEN, "InvariantBroken: I5: two owners"), False)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (OSError("a file"), "left, but stopping the runtime failed: OSError: a file"),
        (None, "left, but the runtime has not stopped within 0.02 s"),
    ],
)
def test_a_runtime_that_does_not_stop_is_told_of_in_the_ending(ends: Ends, fault: Exception | None, text: str) -> None:
    async def scenario(stage: Stage, runtime: Faulty) -> None:
        await stage.register()
        runtime.faults["stop"] = fault
        stage.agent.leave()
        await stage.until(lambda: "leaving" in stage.kafka.kinds())
        stage.tables.journal.leave(ME)

    assert ends(scenario) == (Ending(AGAIN, text), False)


def test_a_drop_that_hangs_at_the_end_of_a_lease_ends_the_run_although_stop_hangs_too(ends: Ends) -> None:
    async def scenario(stage: Stage, runtime: Faulty) -> None:
        await stage.register()
        await stage.own()
        runtime.faults = {"drop": None, "stop": None}
        assert stage.agent.sessions is not None
        stage.agent.sessions.end("lease")

    ending, left_behind = ends(scenario)
    assert isinstance(ending, Ending)
    assert (ending.code, f"dropping {WHOLE} hangs" in ending.text, left_behind) == (AGAIN, True, False)


def test_an_agent_runs_once(ends: Ends) -> None:
    """Two runs at once shared their sessions, and one ended those of the other."""
    agents: list[Agent] = []

    async def scenario(stage: Stage, runtime: Faulty) -> None:
        agents.append(stage.agent)
        await stage.register()
        with pytest.raises(RuntimeError, match="make another one"):
            await stage.agent.run()
        assert stage.agent.may_serve()
        assert not runtime.stopped
        stage.agent.leave()
        await stage.until(lambda: "leaving" in stage.kafka.kinds())
        stage.tables.journal.leave(ME)

    assert ends(scenario) == (Ending(OK, "left"), False)
    with pytest.raises(RuntimeError, match="make another one"):
        asyncio.run(agents[0].run())
