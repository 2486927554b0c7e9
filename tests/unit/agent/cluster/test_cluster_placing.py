"""Placing under the modular load manager: the leader gives the destination to one lookup, any broker to the next."""

from __future__ import annotations

import asyncio
import threading

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from controller.agent.cluster import orders as ask
from controller.agent.cluster.calls import PulsarCalls
from tests.unit.agent.cluster.test_cluster_calls import BUNDLE, Cluster, on_cluster, unload
from tests.unit.brokers.pulsar.stand_in import Broker, stand_in


class Ownership:
    """Who owns the bundle, as `NamespaceService` finds it. `crowd`: as many clients look up the moment it is free."""

    def __init__(self, cluster: Cluster, crowd: int) -> None:
        self.cluster, self.crowd = cluster, crowd
        self.owner: Broker | None = cluster.owner
        self.unloading = False
        self.destination: Broker | None = None
        self.looked_up: list[tuple[str, str]] = []
        for broker in cluster.brokers.brokers:
            broker.answers |= {f"/t1/ns1/{number}": self.look_up for number in range(9)}
            broker.answers["/persistent/t1/ns1"] = lambda broker, request: [
                f"persistent://t1/ns1/{number % 9}" for number in range(max(9, crowd))
            ]
            broker.answers["/unload"] = self.unload

    async def unload(self, broker: Broker, request: Request) -> Response:
        wanted = request.query_params.get("destinationBroker")
        if wanted:
            self.destination = self.cluster.brokers.by_id[wanted]
        if broker is not self.cluster.owner:
            return RedirectResponse(f"{self.cluster.owner.url}{request.url.path}", 307)
        self.unloading = True
        await asyncio.sleep(0.1)
        self.owner = None
        for _ in range(self.crowd):
            self.choose()  # their redirects are on their way
        await asyncio.sleep(0.05)
        return Response(status_code=204)

    def choose(self) -> Broker:
        chosen, self.destination = self.destination or self.cluster.owner, None
        return chosen

    def look_up(self, broker: Broker, request: Request) -> Response:
        authoritative = request.query_params.get("authoritative") == "true"
        self.looked_up.append((broker.id, "authoritative" if authoritative else ""))
        if self.owner is None and authoritative:
            self.owner = broker
        elif self.owner is None:
            assert broker is self.cluster.leader
            chosen = self.choose()
            return RedirectResponse(f"{chosen.url}{request.url.path}?authoritative=true", 307)
        elif self.owner is self.cluster.owner and self.unloading:
            return JSONResponse({"reason": "is being unloaded"}, 503)
        return JSONResponse({"brokerUrl": "pulsar://x:1", "httpUrl": self.owner.url})


@pytest.mark.parametrize("crowd", [0, 1, 200])
def test_the_target_takes_the_bundle_however_many_clients_look_it_up(crowd: int) -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ownership:
        ownership = Ownership(cluster, crowd)
        assert (await unload(calls)).status == 204
        assert await calls.answer(ask.LookUp(BUNDLE)) is True, "it was seen to be placed"
        return ownership

    ownership = on_cluster(scenario)
    assert ownership.owner is not None
    assert ownership.owner.id == "broker-3:8080"
    assert ownership.destination is None, "the leader keeps no destination for the next one"
    assert {broker for broker, how in ownership.looked_up if how} == {"broker-3:8080"}


def test_without_a_target_the_leaders_choice_takes_it() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ownership:
        ownership = Ownership(cluster, 0)
        ownership.destination = cluster.leader
        await unload(calls, None)
        await calls.answer(ask.LookUp(BUNDLE))
        return ownership

    assert on_cluster(scenario).owner.id == "broker-2:8080"


def test_a_broker_that_is_not_listed_is_not_asked() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ownership:
        ownership = Ownership(cluster, 0)
        async with stand_in(1) as strangers:
            ownership.destination = strangers.brokers[0]
            await unload(calls, None)
            await calls.answer(ask.LookUp(BUNDLE))
            assert strangers.brokers[0].asked == [], "it would see the credentials"
        return ownership

    assert on_cluster(scenario).owner is None


def test_a_refused_unload_is_looked_up_no_more() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ownership:
        ownership = Ownership(cluster, 0)
        cluster.owner.answers["/unload"] = lambda broker, request: JSONResponse({"reason": "no"}, 412)
        assert (await unload(calls)).status == 412
        await wait_until_no_lookups()
        return ownership

    assert on_cluster(scenario).owner.id == "broker-1:8080"


def test_lookups_end_although_the_order_never_waits_for_them() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        Ownership(cluster, 0)
        cluster.owner.answers["/unload"] = lambda broker, request: Response(status_code=204)
        assert (await unload(calls)).status == 204
        await wait_until_no_lookups()
        assert await calls.answer(ask.LookUp(BUNDLE)) is False, "nobody gave it up"

    on_cluster(scenario)


async def wait_until_no_lookups() -> None:
    while any(thread.name == "placing" for thread in threading.enumerate()):
        await asyncio.sleep(0.01)
