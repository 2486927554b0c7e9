"""The dynamic settings of a cluster: read from every broker, written once, put back; nothing else is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from controller.brokers.pulsar.addresses import Directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.outcomes import CallFailed
from controller.brokers.pulsar.switches import NotWritten, Switch, Switchboard
from controller.domain.facts import MUST_BE_OFF
from tests.unit.brokers.pulsar.stand_in import CLUSTER, StandIn, ingress_404, stand_in, status

SHEDDING, SPLIT = MUST_BE_OFF.values()
_T = TypeVar("_T")


def on_board(scenario: Callable[[StandIn, Switchboard], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        async with stand_in(3) as cluster, PulsarAdmin(cluster.settings()) as admin:
            members = await Directory(admin, CLUSTER).refresh()
            return await scenario(cluster, Switchboard(admin, members.addresses))

    return asyncio.run(run())


def test_what_brokers_have_and_what_overrides_it() -> None:
    async def scenario(cluster: StandIn, board: Switchboard) -> None:
        cluster.overrides = {SPLIT: "false", "brokerClientAuthenticationParameters": "token:SECRET"}
        shedding, split = await board.read(MUST_BE_OFF.values())
        assert (shedding.values, shedding.override) == ({"true": tuple(sorted(cluster.by_id))}, None)
        assert (split.values, split.override) == ({"false": tuple(sorted(cluster.by_id))}, "false")
        assert "SECRET" not in repr((shedding, split))

    on_board(scenario)


def test_a_broker_that_tells_nothing_has_an_unknown_value() -> None:
    async def scenario(cluster: StandIn, board: Switchboard) -> list[Switch]:
        cluster.brokers[1].answers["/configuration/runtime"] = status(500, "it is busy")
        return await board.read([SHEDDING])

    (shedding,) = on_board(scenario)
    assert shedding.values == {"true": ("broker-1:8080", "broker-3:8080"), "not told": ("broker-2:8080",)}
    assert not shedding.follows("true")


def test_a_proxys_404_does_not_mean_that_there_are_no_overrides() -> None:
    """An adoption would note that there were none, and a release then remove those that there are."""

    async def scenario(cluster: StandIn, board: Switchboard) -> None:
        for broker in cluster.brokers:
            broker.answers["/configuration/values"] = ingress_404
        with pytest.raises(CallFailed, match="proxy"):
            await board.read([SHEDDING])

    on_board(scenario)


def test_an_override_is_written_and_removed() -> None:
    async def scenario(cluster: StandIn, board: Switchboard) -> None:
        await board.write(SHEDDING, "false")
        await board.write(SHEDDING, "false")
        (off,) = await board.read([SHEDDING])
        assert off.follows("false")
        assert off.override == "false"
        await board.write(SHEDDING, None)
        (back,) = await board.read([SHEDDING])
        assert back.override is None
        assert back.follows(None)
        assert cluster.changes == [("POST", SHEDDING, "false")] * 2 + [("DELETE", SHEDDING, "")]

    on_board(scenario)


def test_a_broker_that_keeps_the_value_does_not_follow() -> None:
    stays = Switch(SHEDDING, {"a:1": "false", "b:1": "false"}, None)
    assert not stays.follows(None)
    assert Switch(SHEDDING, {"a:1": "false", "b:1": "true"}, None).follows(None), "as broker.conf of each says"


def test_another_broker_is_asked_when_one_does_not_answer() -> None:
    async def scenario(cluster: StandIn, board: Switchboard) -> None:
        await cluster.brokers[0].server.stop()
        await board.write(SHEDDING, "false")
        assert cluster.overrides == {SHEDDING: "false"}

    on_board(scenario)


@pytest.mark.parametrize(("code", "said"), [(401, "super-user"), (412, "not dynamic")])
def test_a_refusal_is_told_with_the_setting(code: int, said: str) -> None:
    async def scenario(cluster: StandIn, board: Switchboard) -> None:
        for broker in cluster.brokers:
            broker.answers[f"/{SHEDDING}/false"] = status(code, "it is not dynamic")
        with pytest.raises(NotWritten, match=f"POST .*{SHEDDING}/false: HTTP {code}.*{said}"):
            await board.write(SHEDDING, "false")

    on_board(scenario)


def test_overrides_that_cannot_be_read_are_an_error() -> None:
    async def scenario(cluster: StandIn, board: Switchboard) -> None:
        for broker in cluster.brokers:
            broker.answers["/configuration/values"] = status(403, "Unauthorized")
        with pytest.raises(CallFailed, match="forbidden"):
            await board.read([SHEDDING])

    on_board(scenario)
