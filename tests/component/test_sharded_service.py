"""docs/examples/counters: two processes of the example service, its shards moved, split and lost under it.

Agents, services, store and HTTP are the real ones; `Controller` stands for Kafka and the controller job. With a real
Kafka and a real controller: tests/e2e/test_sharded_service.py.
"""

from __future__ import annotations

import asyncio
import importlib.util
import runpy
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from controller.agent.connections import AgentConnections
from controller.agent.handover.actions import Answer
from controller.bus.producer import to_json
from controller.bus.topics import TopicNames
from controller.cli.run import agent_wiring
from controller.domain.entries import Kind
from controller.domain.errors import Fenced
from controller.domain.events import Heartbeat, parse_assign_request, parse_broker_event, parse_heartbeat
from controller.domain.ids import RING_END, Bundle, Session, topic_hash
from controller.domain.ownership import State
from controller.domain.ring import initial_bundles, locate
from controller.process.paths import ROOT
from tests.unit.agent.agent_world import Journal, MiniController
from tests.unit.agent.test_agent_clocks import NoFeed, Tables

FILE = ROOT / "docs" / "examples" / "counters" / "ballast_counters.py"
NAMES = TopicNames("")
NAMESPACE = "app/counters"
BUNDLES = initial_bundles(NAMESPACE, 2)
PATIENCE_S = 60.0


def load_example() -> ModuleType:
    """The example as a module of its own."""
    spec = importlib.util.spec_from_file_location("ballast_counters", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Controller:
    """Takes what agents send, and answers by entries of the journal that they follow."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.rules = MiniController(self.journal)
        self.reports: list[Mapping[str, Any]] = []

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        if topic == NAMES.heartbeats:
            self._register(parse_heartbeat(to_json(value)))
        elif topic == NAMES.broker_events:
            event = parse_broker_event(to_json(value))
            if event.bundle is not None and event.epoch is not None:
                self.rules.answered(event.session, Answer(event.kind, event.bundle, event.epoch))
        elif topic == NAMES.assign_requests:
            self.assign(parse_assign_request(to_json(value)).bundle)
        else:
            self.reports.append(value)
        done: Future[tuple[int, int]] = Future()
        done.set_result((0, 0))
        return done

    def assign(self, bundle: Bundle) -> None:
        """Give a bundle without an owner to the living broker that owns the fewest."""
        record = self.journal.record(bundle)
        if record.state is State.FREE:
            owners = [one.by or one.to for one in self.journal.state.bundles.values()]
            living = [broker.session for broker in self.journal.state.live_brokers()]
            to = min(living, key=lambda session: (owners.count(session), str(session)))
            self.journal.own(State.ASSIGNING, record.epoch + 1, to=to, bundle=bundle)

    def session(self, name: str) -> Session | None:
        return self.journal.state.session_of(name)

    def _register(self, beat: object) -> None:
        assert isinstance(beat, Heartbeat)
        if self.session(beat.session.broker) is None:
            broker, info = beat.session.broker, dict(beat.info)
            self.journal.add(Kind.REGISTERED, broker=broker, session=str(beat.session), data={"info": info})


class Site:
    """Services c1 and c2 on one store, and a client."""

    def __init__(self, module: ModuleType, folder: Path) -> None:
        self.controller, self.module, self.folder = Controller(), module, folder
        self.runs: dict[str, asyncio.Task[int]] = {}
        self.kept: dict[str, str] = {}  # by key: where it was counted last
        self.client = httpx.AsyncClient(timeout=PATIENCE_S)
        self.conf = folder / "ballast.yaml"
        self.conf.write_text("http:\n  agent_port: 0\nagent:\n  report_interval_ms: 1000\n  journal_poll_ms: 100\n")

    async def start(self, name: str) -> None:
        run = self.module.run(name, self.conf, self.folder / "counters.sqlite")
        self.runs[name] = asyncio.create_task(run)
        await self.until(lambda: self.controller.session(name) is not None)

    async def count(self, key: str) -> int:
        """As the guide's client does it: ask where it asked last, and look up again after 421 or no answer.

        Asking again hides nothing: a request that was counted without an answer makes the value one too high.
        """
        found: list[int] = []

        async def counted() -> bool:
            where = self.kept.pop(key, None) or await self.look_up(key)
            value = None if where is None else await self.ask(where, key)
            if where is not None and value is not None:
                self.kept[key] = where
                found.append(value)
            return bool(found)

        await self.until(counted)
        return found[0]

    async def ask(self, where: str, key: str) -> int | None:
        """The new value; None from a process that does not serve the key, or that ends before it answers."""
        try:
            answer = await self.client.post(f"http://{where}/count", params={"key": key})
        except httpx.TransportError:
            return None
        assert answer.status_code in (200, 421), answer.text
        return int(answer.json()["value"]) if answer.status_code == 200 else None

    async def look_up(self, key: str) -> str | None:
        """The address of the owner, as one of the processes tells it."""
        state = self.controller.journal.state
        url = next(broker.info["lookup_url"] for broker in state.live_brokers())
        answer = await self.client.get(f"{url}/lookup", params={"topic": f"persistent://{NAMESPACE}/{key}"})
        assert answer.status_code in (200, 404, 503), answer.text
        return str(answer.json()["address"]) if answer.status_code == 200 else None

    async def until(self, holds: Callable[[], Any]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            found = holds()
            if await found if isinstance(found, Awaitable) else found:
                return
            for run in self.runs.values():
                assert not run.done() or run.cancelled(), run.result()
            assert asyncio.get_running_loop().time() < end, self.controller.journal.entries[-3:]
            await asyncio.sleep(0.02)

    def owner(self, bundle: Bundle) -> Session:
        record = self.controller.journal.record(bundle)
        assert record.state is State.OWNED
        assert record.by is not None
        return record.by

    async def settled(self, bundle: Bundle) -> None:
        await self.until(lambda: self.controller.journal.record(bundle).state is State.OWNED)


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Site], Awaitable[None]]], None]:
    """Runs a scenario with both services up and the namespace created."""
    module = load_example()
    monkeypatch.setattr(module, "leave_on_signals", lambda agent: None)  # the signals are pytest's

    async def scene(scenario: Callable[[Site], Awaitable[None]]) -> None:
        site = Site(module, tmp_path)

        @asynccontextmanager
        async def connections(settings: Any, broker: str, lease_ms: int) -> AsyncIterator[AgentConnections]:
            tables = Tables()
            tables.journal = site.controller.journal
            sender: Any = site.controller
            yield AgentConnections(sender, sender, lambda topics, take, fail: NoFeed(), tables, NAMES)

        monkeypatch.setattr(module, "agent_connections", connections)
        try:
            await site.start("c1")
            await site.start("c2")
            names = [str(bundle) for bundle in BUNDLES]
            site.controller.journal.add(Kind.NAMESPACE_CREATED, data={"namespace": NAMESPACE, "bundles": names})
            await scenario(site)
        finally:
            for run in site.runs.values():
                run.cancel()
            await asyncio.gather(*site.runs.values(), return_exceptions=True)
            await site.client.aclose()

    return lambda scenario: asyncio.run(scene(scenario))


def keys_in(bundle: Bundle, number: int) -> list[str]:
    found = (f"k{at}" for at in range(10_000) if bundle.contains(topic_hash(f"persistent://{NAMESPACE}/k{at}")))
    return [next(found) for _ in range(number)]


def test_a_key_goes_on_counting_wherever_its_shard_goes(play: Callable[..., None]) -> None:
    async def scenario(site: Site) -> None:
        journal, (shard, other) = site.controller.journal, BUNDLES
        (key,), (elsewhere,) = keys_in(shard, 1), keys_in(other, 1)
        assert [await site.count(key) for _ in range(3)] == [1, 2, 3]
        assert await site.count(elsewhere) == 1
        old, new = site.owner(shard), site.owner(other)
        assert {old.broker, new.broker} == {"c1", "c2"}
        was = await site.look_up(key)

        journal.own(State.TRANSFERRING, 2, old, new, shard)  # a move, as a round begins it
        await site.settled(shard)
        assert site.owner(shard) == new
        assert await site.count(key) == 4
        answer = await site.client.post(f"http://{was}/count", params={"key": key})
        assert answer.status_code == 421, "the former owner counts nothing"

        middle = shard.middle()
        journal.own(State.SPLITTING, 3, new, bundle=shard, boundary=middle)
        halves = shard.split_at(middle)
        await site.until(lambda: all(str(half) in journal.state.bundles for half in halves))
        half = locate(halves, topic_hash(f"persistent://{NAMESPACE}/{key}"))
        assert await site.count(key) == 5

        site.runs[new.broker].cancel()  # the process dies, and its lease ends; the client still has its address
        site.controller.rules.ended(new)
        assert await site.count(key) == 6
        assert site.owner(half) == old
        assert await site.count(elsewhere) == 2

    play(scenario)


def test_the_load_of_shards_is_what_was_asked_of_them(play: Callable[..., None]) -> None:
    async def scenario(site: Site) -> None:
        shard = BUNDLES[0]
        (key,) = keys_in(shard, 1)
        for _ in range(20):
            await site.count(key)
        owner = site.owner(shard).broker

        def reported() -> bool:
            mine = [report for report in site.controller.reports if report["broker"] == owner]
            return any(report["resources"]["cpu"]["usage"] > 0 for report in mine)

        await site.until(reported)

    play(scenario)


def test_the_store_refuses_a_former_owner_and_nobody_else(tmp_path: Path) -> None:
    module = load_example()
    store, whole = module.Store(tmp_path / "counters.sqlite"), Bundle(NAMESPACE, 0, RING_END)
    lower, upper = whole.split_at(1_000)
    store.fence(whole, 1)
    assert [store.count("a", 999, 1), store.count("a", 999, 1)] == [1, 2]
    store.fence(lower, 2)
    with pytest.raises(Fenced):
        store.count("a", 999, 1)
    assert store.count("b", 1_000, 1) == 1, "the other half has no new owner"
    assert store.count("a", 999, 2) == 3, "what was refused was not written"
    with pytest.raises(Fenced):
        store.fence(whole, 1)
    store.fence(upper, 5)
    with pytest.raises(Fenced):
        store.count("z", RING_END, 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "usage: python ballast_counters.py c1 "),
        (["c1"], "usage: python ballast_counters.py c1 "),
        (["c1", "none.yaml", "counters.sqlite"], "ballast_counters.py: .*none.yaml"),
        (["c1", "ballast.yaml", "none/counters.sqlite"], "ballast_counters.py: unable to open database file"),
        (["c#1", "ballast.yaml", "counters.sqlite"], "ballast_counters.py: broker_id: 'c#1'"),
    ],
)
def test_what_is_wrong_with_a_start_is_said_in_one_line(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def connections(settings: Any, broker: str, lease_ms: int) -> AsyncIterator[AgentConnections]:
        sender: Any = Controller()
        yield AgentConnections(sender, sender, lambda topics, take, fail: NoFeed(), Tables(), NAMES)

    (tmp_path / "ballast.yaml").write_text("http:\n  agent_port: 0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(agent_wiring, "agent_connections", connections)
    monkeypatch.setattr(sys, "argv", [str(FILE), *words])
    with pytest.raises(SystemExit, match=f"^{said}") as ended:
        runpy.run_path(str(FILE), run_name="__main__")
    assert "\n" not in str(ended.value)


def test_the_example_is_short() -> None:
    assert len(FILE.read_text().splitlines()) <= 150
