"""A whole agent of a Pulsar cluster: what it makes of brokers that refuse, fall silent or restart, and of others."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from controller.agent import records as wire
from controller.agent.lifecycle import LOST
from controller.domain.facts import DENIED, SUSPECT
from controller.domain.ids import Session
from controller.domain.state import METADATA
from tests.unit.agent.cluster.cluster_stage import POLL_MS, Site, on_site
from tests.unit.brokers.pulsar.stand_in import status

SECOND = "broker-2:8080"


def polls_of(site: Site, number: int) -> int:
    """How often a broker was asked what it owns."""
    return sum(path.endswith("/ownedNamespaces") for path, _ in site.cluster.brokers[number].asked)


async def observed(site: Site) -> None:
    """Every broker has a session, and what it owns is known."""
    await site.until(lambda: len(site.driver.state.observed.bundles) == len(site.cluster.brokers))


def sessions(site: Site) -> dict[str, Session]:
    """The living session of each broker."""
    return {session.broker: session for session in sorted(site.driver.state.sessions)}


def test_polls_that_are_refused_are_a_denial_and_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    """Else every broker would be suspect after three of them, and the breaker would speak of silent brokers."""
    caplog.set_level(logging.WARNING, "controller.agent.cluster")

    async def scenario(site: Site) -> None:
        async with site.agent("n1") as (agent, _):
            await observed(site)
            site.cluster.token = "another"
            await site.until(lambda: DENIED in site.facts)
            assert "unauthenticated (HTTP 401: Authentication required)" in site.facts[DENIED]["why"]
            before = polls_of(site, 1)
            await site.until(lambda: polls_of(site, 1) > before + 5)
            assert not agent.observer.suspects
            assert not site.driver.state.frozen
            assert [line for line in agent.health() if "refuses the credentials" in line]
            lines = [line for line in caplog.messages if "no orders are sent" in line]
            assert len(lines) == 1
            site.cluster.token = ""
            await site.until(lambda: DENIED not in site.facts)
            assert not [key for key in site.facts_told() if key.startswith(SUSPECT)]

    on_site(scenario)


def test_a_token_file_that_cannot_be_read_is_a_denial_too(tmp_path: Path) -> None:
    async def scenario(site: Site) -> None:
        token = tmp_path / "token"
        token.write_text("secret")
        site.cluster.token, site.access = "secret", {"token_file": str(token)}
        async with site.agent("n1") as (agent, _):
            await observed(site)
            token.unlink()
            await site.until(lambda: DENIED in site.facts)
            assert "no credentials" in site.facts[DENIED]["why"]
            assert str(token) in site.facts[DENIED]["why"]
            await asyncio.sleep(5 * POLL_MS / 1000)
            assert not agent.observer.suspects

    on_site(scenario)


def test_a_refused_poll_is_no_answer_either() -> None:
    """A suspect that refuses goes on being one."""

    async def scenario(site: Site) -> None:
        async with site.agent("n1") as (agent, _):
            await observed(site)
            second = site.cluster.brokers[1]
            second.answers["/ownedNamespaces"] = status(503)
            await site.until(lambda: f"{SUSPECT}{SECOND}" in site.facts)
            second.answers["/ownedNamespaces"] = status(403, "not a super-user")
            await site.until(lambda: DENIED in site.facts)
            before = polls_of(site, 1)
            await site.until(lambda: polls_of(site, 1) > before + 3)
            assert agent.observer.suspects == {SECOND}
            second.answers["/ownedNamespaces"] = status(503)
            await site.until(lambda: DENIED not in site.facts)  # one broker's last word does not stop all for good

    on_site(scenario)


def test_the_log_names_suspects_once_with_the_last_failure_and_once_when_they_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "controller.agent.cluster")

    def lines() -> list[str]:
        return [line for line in caplog.messages if "suspect" in line]

    async def scenario(site: Site) -> None:
        async with site.agent("n1"):
            await observed(site)
            second = site.cluster.brokers[1]
            second.answers["/ownedNamespaces"] = status(503, "metadata store is away")
            await site.until(lines)
            before = polls_of(site, 1)
            await site.until(lambda: polls_of(site, 1) > before + 3)
            (line,) = lines()
            assert line.startswith(f"{SECOND} is suspect and takes no part in orders: 3 polls in a row failed")
            assert "HTTP 503: metadata store is away" in line
            second.answers.clear()
            await site.until(lambda: len(lines()) == 2)
            assert lines()[1] == f"{SECOND} is suspect no more: it answers"

    on_site(scenario)


def test_of_the_claims_of_one_poll_the_one_that_was_asked_for_last_counts() -> None:
    async def scenario(site: Site) -> None:
        name = next(iter(site.cluster.brokers[0].held))
        for broker in site.cluster.brokers:
            broker.held = {name: 100.0}
        async with site.agent("n1") as (agent, _):
            await site.until(lambda: len(agent.observer.brokers) == len(site.cluster.brokers))
            assert agent.observer.owner_of(name) == site.cluster.listed[-1], "polls ask in the order of ids"

    on_site(scenario, brokers=6)


def test_a_broker_that_restarted_gets_a_new_session_and_the_others_keep_theirs() -> None:
    async def scenario(site: Site) -> None:
        async with site.agent("n1"):
            await observed(site)
            before, second = sessions(site), site.cluster.brokers[1]
            assert {session.number for session in before.values()} == {1}
            reported = second.load_report()
            second.answers["/load-report"] = lambda b, r: {**reported, "startTimestamp": 1_795_000_999_000}
            await site.until(lambda: sessions(site).get(SECOND, before[SECOND]).number == 2)
            assert sessions(site) == {**before, SECOND: before[SECOND]._replace(number=2)}

    on_site(scenario)


def test_a_second_agent_ends_with_code_3_and_names_the_holder_before_it_registers_anything() -> None:
    async def scenario(site: Site) -> None:
        info = {"authority": METADATA, "host": "host-of-n1", "pid": 77}
        holder = Session("broker-1:8080", 1, "n1", 1)
        site.heard = [json.dumps(wire.heartbeat(holder, 0, at_ms, info)).encode() for at_ms in (1, 2)]
        async with site.agent("n2", take_over=False) as (_, running):
            ending = await asyncio.wait_for(running, 30)
        assert ending.code == LOST == 3
        assert "another agent observes this cluster: " in ending.text
        assert "host-of-n1" in ending.text
        assert "nonce n1" in ending.text
        assert "--take-over" in ending.text
        assert site.sent == []

    on_site(scenario)


def test_an_agent_that_takes_over_gets_all_sessions_and_the_other_one_ends() -> None:
    async def scenario(site: Site) -> None:
        async with site.agent("n1") as (_, first):
            await observed(site)
            await site.until(lambda: len(site.driver.state.sessions) == 3)
            async with site.agent("n2", take_over=True) as (second, running):
                ending = await asyncio.wait_for(first, 30)
                assert ending.code == LOST
                await site.until(lambda: {session.nonce for session in site.driver.state.sessions} == {"n2"})
                await site.until(lambda: all(map(second.sessions.may_act, site.cluster.listed)))
                assert not running.done()

    on_site(scenario)
