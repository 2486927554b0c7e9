"""Two agents on a real Kafka: hand-over, lease expiry, lost nonce, leave, catching up, standing still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.agent.agent import Agent
from controller.agent.lifecycle import AGAIN, LOST, OK
from controller.bus.topics import TopicNames
from controller.domain.entries import Kind
from controller.domain.ids import Session
from controller.domain.ownership import State
from controller.process.http import HttpServer, make_app
from controller.testbed.kafka import EmbeddedKafka
from tests.e2e.agent_stage import OPTIONS, Stage
from tests.unit.agent.agent_world import NAMESPACE, WHOLE

pytestmark = pytest.mark.kafka
TOPIC = f"persistent://{NAMESPACE}/orders"

Scenario = Callable[[Stage], Coroutine[Any, Any, None]]


@pytest.fixture
def play(kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path) -> Callable[[Scenario], None]:
    """Runs a scenario on a stage of its own."""

    async def run(scenario: Scenario) -> None:
        async with Stage(kafka.bootstrap, topics, tmp_path / "tables") as stage:
            await scenario(stage)

    return lambda scenario: asyncio.run(run(scenario))


async def _registered(stage: Stage, *brokers: str) -> list[Session]:
    state = stage.controller.journal.state
    await stage.until(lambda: all(state.session_of(b) for b in brokers), f"registration of {brokers}")
    return [state.brokers[b].session for b in brokers]


async def _a_owns(stage: Stage) -> tuple[Agent, Agent]:
    """Agents a and b; a owns the only bundle at epoch 1."""
    a, b = stage.agent("a"), stage.agent("b")
    session, _ = await _registered(stage, "a", "b")
    journal = stage.controller.journal
    journal.namespace()
    journal.own(State.ASSIGNING, 1, to=session)
    await stage.until(lambda: journal.record().state is State.OWNED, "the assignment")
    await stage.until(lambda: b.watcher.state.seq == journal.state.seq, "b's reading")
    assert stage.runtimes["a"].serving() == {WHOLE: 1}
    return a, b


async def _get(agent: Agent, path: str) -> httpx.Response:
    app = make_app(agent.metrics.registry, agent.health, agent.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as client:
        return await client.get(path)


@pytest.mark.covers("ownership-transfer", "any-broker-answers", "ownership-replicated")
def test_bundle_moves_from_one_agent_to_the_other(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a, b = await _a_owns(stage)
        journal = stage.controller.journal
        old, new = (journal.state.brokers[x].session for x in "ab")
        journal.own(State.TRANSFERRING, 2, old, new)
        await stage.until(lambda: journal.record().state is State.OWNED, "the transfer")
        assert journal.record().by == new
        assert stage.runtimes["a"].serving() == {}
        assert stage.runtimes["b"].serving() == {WHOLE: 2}
        assert [entry[0] for entry in stage.runtimes["b"].log] == ["hold", "serve"]
        for agent in (a, b):  # each agent answers for every topic
            answer = await _get(agent, f"/lookup?topic={TOPIC}&at_least={journal.state.seq}")
            assert answer.status_code == 200
            assert answer.json() == {
                "broker": "b", "address": "b-data", "lookup_url": "http://b",
                "bundle": str(WHOLE), "epoch": 2, "seq": journal.state.seq,
            }  # fmt: skip
        said = [e.kind for e in stage.controller.events if e.epoch == 2]
        assert list(dict.fromkeys(said)) == ["accepted", "released", "serving"]  # each of them may be repeated

    play(scenario)


def test_cut_off_agent_drops_everything_and_comes_back_with_the_next_session(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a, _ = await _a_owns(stage)
        journal = stage.controller.journal
        old = journal.state.brokers["a"].session
        stage.senders["a"].cut = True
        await stage.until(lambda: stage.runtimes["a"].serving() == {}, "the lease expiry")
        assert not a.sessions.may_act()
        refused = await _get(a, f"/lookup?topic={TOPIC}")
        assert (refused.status_code, refused.json()["error"]) == (503, "cut_off"), "its view may be old: ask another"
        await stage.until(lambda: a.metrics.served_bundles._value.get() == 0, "the metric, without a next session")
        stage.senders["a"].cut = False
        state = journal.state
        await stage.until(lambda: state.session_of("a") not in (None, old), "the next session")
        assert state.brokers["a"].session.process == old.process
        assert state.brokers["a"].session.number > old.number
        assert journal.record().state is State.FREE
        assert stage.runtimes["a"].serving() == {}

    play(scenario)


def test_process_whose_nonce_came_second_starts_again(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        stage.controller.registers = False
        agent = stage.agent("a", nonce="mine")
        await stage.until(lambda: agent.sessions is not None, "the start")
        stage.controller.journal.register(Session("a", 1, "theirs", 1))
        ending = await asyncio.wait_for(stage.runs["a"], 90)
        assert ending.code == AGAIN, "the other one may be dead; the next start hears"
        assert "theirs" in ending.text
        assert stage.controller.events == []  # nothing but heartbeats was said

    play(scenario)


def test_newer_process_replaces_the_older_one(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        await _a_owns(stage)
        older = stage.runs["a"]
        stage.controller.journal.register(Session("a", 2, "newer", 1))
        assert (await asyncio.wait_for(older, 90)).code == LOST
        assert stage.runtimes["a"].serving() == {}

    play(scenario)


def test_a_second_process_is_refused_unless_it_is_told_to_take_over(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(stage: Stage) -> None:
        process = {"host": "h1", "pid": 4711, "started_ms": 1_700_000_000_000}
        stage.agent("a", process=process)
        (session,) = await _registered(stage, "a")
        first = stage.runs["a"]
        begun: list[str] = []
        refused = stage.agent("a", nonce="n2", on_begin=lambda: begun.append("n2"))
        ending = await asyncio.wait_for(stage.runs["a"], 90)
        assert (ending.code, refused.sessions, begun) == (LOST, None, []), "it has not said a word"
        assert f"pid 4711 on h1 since 2023-11-14 22:13:20 UTC, session {session}" in ending.text
        assert "--take-over" in ending.text
        assert not first.done()
        stage.agent("a", nonce="n3", told=replace(OPTIONS, take_over=True), on_begin=lambda: begun.append("n3"))
        assert (await asyncio.wait_for(first, 90)).code == LOST
        state = stage.controller.journal.state
        await stage.until(lambda: state.session_of("a") == Session("a", 2, "n3", 1), "the newer one's registration")
        assert begun == ["n3"]

    play(scenario)


def test_after_a_kill_the_next_process_waits_for_silence_or_the_sessions_end(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        told = replace(OPTIONS, lease_ms=2_000)
        journal = stage.controller.journal
        stage.agent("a", told=told)
        (session,) = await _registered(stage, "a")
        stage.runs["a"].cancel()  # it says no goodbye
        await asyncio.gather(stage.runs["a"], return_exceptions=True)
        stage.agent("a", nonce="n2", told=told)
        await stage.until(lambda: journal.state.session_of("a") == Session("a", 2, "n2", 1), "a lease of silence")
        stage.runs["a"].cancel()
        await asyncio.gather(stage.runs["a"], return_exceptions=True)
        patient = replace(OPTIONS, lease_ms=600_000)
        third = stage.agent("a", nonce="n3", told=patient)
        await stage.until(lambda: third.watcher.ready, "the journal's reading")
        stage.controller.rules.ended(journal.state.brokers["a"].session)
        await stage.until(lambda: journal.state.session_of("a") == Session("a", 3, "n3", 1), "no more listening")
        assert session.incarnation == 1

    play(scenario)


def test_leaving_agent_hands_over_then_says_goodbye(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a, _ = await _a_owns(stage)
        journal = stage.controller.journal
        old = journal.state.brokers["a"].session
        a.leave()
        assert (await asyncio.wait_for(stage.runs["a"], 90)).code == OK
        await stage.until(lambda: not journal.state.alive(old), "the goodbye")
        assert stage.runtimes["a"].serving() == {}
        assert stage.runtimes["b"].serving() == {WHOLE: 2}
        last = [e.kind for e in stage.controller.events if e.session == old and e.kind != "inventory"]
        assert last[-1] == "goodbye"
        assert last.index("released") < last.index("goodbye")

    play(scenario)


def test_agent_reads_the_table_when_the_feed_brings_nothing(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        stage.controller.publishes = False
        await _a_owns(stage)

    play(scenario)


def test_gap_in_the_feed_is_filled_from_the_table(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        _, b = await _a_owns(stage)
        journal, controller = stage.controller.journal, stage.controller
        controller.publishes = False
        journal.add(Kind.MODE, data={"mode": "live"})
        await stage.until(lambda: controller.committed, "the commit that is not published")
        controller.publishes = True
        journal.add(Kind.MODE, data={"mode": "paused"})
        await stage.until(lambda: b.watcher.state.mode == "paused", "the entries on both sides of the gap")
        assert b.watcher.state.seq == journal.state.seq

    play(scenario)


@pytest.mark.covers("any-broker-answers")
def test_agent_serves_on_while_controller_and_feed_are_silent(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a, _ = await _a_owns(stage)
        session = a.sessions.current
        stage.pauses = True
        await asyncio.sleep(2.5 * OPTIONS.lease_ms / 1000)
        assert a.sessions.current == session
        assert a.sessions.may_act()
        assert stage.runtimes["a"].serving() == {WHOLE: 1}
        assert (await _get(a, f"/lookup?topic={TOPIC}")).json()["broker"] == "a"

    play(scenario)


@pytest.mark.thorough
def test_known_seq_that_does_not_come_ends_the_session_and_the_next_begins_once_it_came(
    play: Callable[[Scenario], None],
) -> None:
    async def scenario(stage: Stage) -> None:
        a, b = await _a_owns(stage)
        journal = stage.controller.journal
        session, other = a.sessions.current, b.sessions.current
        stage.controller.publishes = False
        for table in stage.tables.values():
            table.cut = True
        journal.add(Kind.MODE, data={"mode": "live"})
        await stage.until(lambda: stage.controller.committed, "an entry that they cannot read")
        stage.controller.repeat_seq()
        state = journal.state
        await stage.until(lambda: not (state.alive(session) or state.alive(other)), "both goodbyes")
        assert stage.runtimes["a"].serving() == {}
        assert not a.may_serve()
        await asyncio.sleep(2 * OPTIONS.heartbeat_ms / 1000)
        assert journal.state.session_of("a") is None, "no session is begun that could not hear of its bundles"
        assert journal.state.session_of("b") is None, "the other one neither"
        for table in stage.tables.values():
            table.cut = False
        await stage.until(lambda: journal.state.session_of("a") and journal.state.session_of("b"), "the next sessions")
        assert journal.state.session_of("a") == session._replace(number=session.number + 1)
        assert b.watcher.state.mode == "live"

    play(scenario)


@pytest.mark.covers("metrics")
def test_lookups(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a, _ = await _a_owns(stage)
        journal = stage.controller.journal
        assert (await _get(a, "/lookup?topic=orders")).status_code == 400
        assert (await _get(a, "/lookup?topic=persistent://no/where/x")).status_code == 404
        for least in ("soon", "%C2%B2", "9" * 5_000):
            assert (await _get(a, f"/lookup?topic={TOPIC}&at_least={least}")).status_code == 400
        behind = await _get(a, f"/lookup?topic={TOPIC}&at_least={journal.state.seq + 1_000}")
        assert (behind.status_code, behind.headers["Retry-After"]) == (503, "1")
        brokers = (await _get(a, "/brokers")).json()["brokers"]
        assert [b["broker"] for b in brokers] == ["a", "b"]
        assert (await _get(a, "/healthz")).json() == {"ok": True, "troubles": []}
        assert "ballast_agent_served_bundles 1.0" in (await _get(a, "/metrics")).text

    play(scenario)


@pytest.mark.covers("initial-assignment", "assignment-decided-locally")
def test_lookup_of_an_unowned_bundle_asks_for_it_and_waits(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a = stage.agent("a")
        (session,) = await _registered(stage, "a")
        journal = stage.controller.journal
        journal.namespace()
        await stage.until(lambda: NAMESPACE in a.watcher.state.namespaces, "the namespace")
        asked = asyncio.create_task(_get(a, f"/lookup?topic={TOPIC}"))
        await stage.until(lambda: stage.controller.requests > 0, "the assign request")
        journal.own(State.ASSIGNING, 1, to=session)
        answer = await asked
        assert (answer.status_code, answer.json()["broker"]) == (200, "a")
        await stage.until(lambda: journal.record().state is State.OWNED, "the assignment")
        journal.own(State.FREE, 1)
        await stage.until(lambda: stage.runtimes["a"].serving() == {}, "the drop")
        refused = await _get(a, f"/lookup?topic={TOPIC}")
        assert (refused.status_code, refused.json()["error"]) == (503, "unowned")

    play(scenario)


def test_agents_answer_over_a_socket(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a, _ = await _a_owns(stage)
        http = HttpServer("127.0.0.1")
        http.start(make_app(a.metrics.registry, a.health, a.routes()))
        try:
            async with httpx.AsyncClient(base_url=http.url, trust_env=False) as client:
                answers = await asyncio.gather(*(client.get("/lookup", params={"topic": TOPIC}) for _ in range(50)))
            assert {answer.json()["broker"] for answer in answers} == {"a"}
        finally:
            await http.stop()

    play(scenario)


@pytest.mark.covers("report-continuously", "report-transport")
def test_load_reports_and_inventories_arrive(play: Callable[[Scenario], None]) -> None:
    async def scenario(stage: Stage) -> None:
        a, _ = await _a_owns(stage)
        await stage.until(lambda: a.metrics.reports._value.get() >= 2, "two acknowledged reports")
        session = a.sessions.current
        found = [e for e in stage.controller.events if e.kind == "inventory" and e.session == session]
        assert found[0].serving == {}
        await stage.until(
            lambda: any(e.serving == {str(WHOLE): 1} for e in stage.controller.events if e.session == session),
            "an inventory with the bundle",
        )

    play(scenario)
