"""The calls of an order on brokers that answer over HTTP: how far a request came, and what was found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from controller.agent.cluster import orders as ask
from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.observer import Observer
from controller.agent.cluster.orders import Reply, carry_out
from controller.brokers.pulsar.addresses import Directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.domain.ids import Bundle
from controller.domain.observed import Order, OrderKind, OrderOutcome
from tests.unit.brokers.pulsar.stand_in import CLUSTER, Broker, StandIn, hang, ingress_404, stand_in

BUNDLE = Bundle("t1/ns1", 0, 0x80000000)
_T = TypeVar("_T")


class Cluster:
    """Three brokers; the second leads, the first owns the bundle. `asked`: method, broker and query of changes."""

    def __init__(self, brokers: StandIn, modular: bool) -> None:
        self.brokers, self.modular = brokers, modular
        self.asked: list[tuple[str, str, str]] = []
        self.denied: list[str] = []
        self.ring = ["0x00000000", "0x80000000", "0xffffffff"]
        self.owner, self.leader = brokers.brokers[0], brokers.brokers[1]
        self.owner.held[str(BUNDLE)] = 5.0
        for broker in brokers.brokers:
            broker.answers |= {
                "/bundles": lambda broker, request: {"boundaries": self.ring},
                "/leaderBroker": lambda broker, request: {"brokerId": self.leader.id},
                "/persistent/t1/ns1": lambda broker, request: [f"persistent://t1/ns1/{n}" for n in range(9)],
                "/unload": self.unload,
                "/split": self.split,
            }

    def unload(self, broker: Broker, request: Request) -> Response:
        self.asked.append((request.method, broker.id, request.url.query))
        if broker is not self.owner:
            return RedirectResponse(f"{self.owner.url}{request.url.path}", 307)
        target = next(b for b in self.brokers.brokers if b is not self.owner and b is not self.leader)
        target.held[str(BUNDLE)] = self.owner.held.pop(str(BUNDLE))
        return Response(status_code=204)

    async def split(self, broker: Broker, request: Request) -> Response:
        self.asked.append((request.method, broker.id, f"{request.url.query} {await request.json()}"))
        self.ring.insert(1, f"0x{(await request.json())[0]:08x}")
        return Response(status_code=204)


def on_cluster(scenario: Callable[[Cluster, PulsarCalls], Awaitable[_T]], modular: bool = True, **settings: Any) -> _T:
    async def run() -> _T:
        async with stand_in(3, extensible=not modular) as brokers:
            cluster = Cluster(brokers, modular)
            async with PulsarAdmin(brokers.settings(**settings)) as admin:
                members = await Directory(admin, CLUSTER).refresh()
                calls = PulsarCalls(
                    admin, Observer(), exclude_namespaces(()), cluster=lambda: CLUSTER,
                    addresses=lambda: members.addresses, timeout_s=lambda broker: 1.0, modular=lambda: modular,
                    on_denied=cluster.denied.append,
                )  # fmt: skip
                return await scenario(cluster, calls)

    return asyncio.run(run())


def unload(target: str | None = "broker-3:8080") -> ask.Unload:
    return ask.Unload(BUNDLE, "broker-1:8080", target)


def test_the_modular_manager_takes_the_destination_at_its_leader() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        reply = await calls.answer(unload())
        assert (reply.status, reply.reached) == (204, True)
        assert cluster.asked == [
            ("PUT", "broker-2:8080", "destinationBroker=broker-3%3A8080"),
            ("PUT", "broker-1:8080", ""),
        ]

    on_cluster(scenario)


def test_the_extensible_manager_takes_it_at_the_owner() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        await calls.answer(unload())
        assert cluster.asked == [("PUT", "broker-1:8080", "destinationBroker=broker-3%3A8080")]

    on_cluster(scenario, modular=False)


def test_how_far_a_request_came() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> list[Reply]:
        found = []
        cluster.leader.answers["/unload"] = lambda b, r: RedirectResponse("http://127.0.0.1:9/x", 307)
        found.append(await calls.answer(unload()))
        cluster.leader.answers["/unload"] = cluster.unload
        cluster.owner.answers["/unload"] = hang
        found.append(await calls.answer(unload()))
        cluster.owner.answers["/unload"] = lambda b, r: JSONResponse({"reason": "no"}, 412)
        found.append(await calls.answer(unload()))
        await cluster.leader.server.stop()
        found.append(await calls.answer(unload()))
        return found

    strange, hung, refused, unreachable = on_cluster(scenario)
    assert (strange.reached, strange.redirected) == (False, True), "the leader has the destination, the owner nothing"
    assert (hung.status, hung.reached) == (0, True)
    assert (refused.status, refused.reached, refused.detail) == (412, True, "no")
    assert (unreachable.reached, unreachable.redirected) == (False, False)


def test_missing_rights_are_told() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> list[str]:
        cluster.owner.answers["/unload"] = lambda b, r: JSONResponse({"reason": "Unauthorized to validateX"}, 401)
        await calls.answer(unload(None))
        return cluster.denied

    (why,) = on_cluster(scenario)
    assert why.startswith("HTTP 401")


def test_an_order_from_its_first_request_to_its_end() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Any:
        order = Order("o", OrderKind.MOVE, BUNDLE, "broker-1:8080", "me", 1, "broker-3:8080")
        run, answer = carry_out(order, modular=True), None
        while True:
            try:
                answer = await calls.answer(run.send(answer))
            except StopIteration as stop:
                return stop.value

    ended = on_cluster(scenario)
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, "broker-3:8080")


def test_a_split_names_its_boundary_and_leaves_the_halves_where_they_are() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Any:
        reply = await calls.answer(ask.Split(BUNDLE, "broker-1:8080", 77))
        assert reply.status == 204
        assert cluster.asked == [
            ("PUT", "broker-1:8080", "unload=false&splitAlgorithmName=specified_positions_divide [77]")
        ]
        return await calls.answer(ask.ReadRing("t1/ns1"))

    assert on_cluster(scenario) == (0, 77, 0x80000000, 0xFFFFFFFF)


def test_what_cannot_be_read_is_unknown_and_what_is_deleted_is_empty() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        for broker in cluster.brokers.brokers:
            broker.answers["/bundles"] = lambda b, r: JSONResponse({"reason": "Namespace not found"}, 404)
        assert await calls.answer(ask.ReadRing("t1/ns1")) == ()
        for broker in cluster.brokers.brokers:
            broker.answers["/bundles"] = ingress_404
        assert await calls.answer(ask.ReadRing("t1/ns1")) is None, "a proxy's page says nothing of the namespace"
        for broker in cluster.brokers.brokers:
            broker.answers["/bundles"] = lambda b, r: JSONResponse({}, 500)
        assert await calls.answer(ask.ReadRing("t1/ns1")) is None
        assert await calls.answer(ask.ListOwned("broker-9:8080")) is None
        assert str(BUNDLE) in await calls.answer(ask.ListOwned("broker-1:8080"))

    on_cluster(scenario)
