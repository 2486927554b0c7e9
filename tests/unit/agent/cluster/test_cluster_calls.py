"""The calls of an order on brokers that answer over HTTP: how far a request came, and what was found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from controller.agent.cluster import orders as ask
from controller.agent.cluster.calls import PulsarCalls
from controller.agent.cluster.observer import Listing, Observer
from controller.agent.cluster.orders import Ended, Reply
from controller.brokers.pulsar.addresses import Directory
from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.observe import exclude_namespaces
from controller.brokers.pulsar.poll import ClusterPoll
from controller.brokers.pulsar.topics import TopicReader
from controller.domain.ids import Bundle, topic_hash
from controller.domain.observed import Order, OrderKind, OrderOutcome
from tests.unit.agent.cluster.carrying import carry
from tests.unit.brokers.pulsar.stand_in import CLUSTER, Broker, StandIn, hang, ingress_404, stand_in

BUNDLE = Bundle("t1/ns1", 0, 0x80000000)
_T = TypeVar("_T")


class Cluster:
    """Three brokers; the second leads, the first owns the bundle. `asked`: method, broker and query of changes."""

    def __init__(self, brokers: StandIn, modular: bool) -> None:
        self.brokers, self.modular = brokers, modular
        self.asked: list[tuple[str, str, str]] = []
        self.denied: list[str] = []
        self.addresses: Mapping[str, str] = {}
        self.observer = Observer()
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

    def name_leader(self, document: Any) -> None:
        """What brokers answer to who leads."""
        for broker in self.brokers.brokers:
            broker.answers["/leaderBroker"] = lambda broker, request: document

    def unload(self, broker: Broker, request: Request) -> Response:
        self.asked.append((request.method, broker.id, request.url.query))
        if broker is not self.owner:
            return RedirectResponse(f"{self.owner.url}{request.url.path}", 307)
        target = self.brokers.brokers[2]
        target.held[str(BUNDLE)] = self.owner.held.pop(str(BUNDLE))
        return Response(status_code=204)

    async def split(self, broker: Broker, request: Request) -> Response:
        self.asked.append((request.method, broker.id, f"{request.url.query} {await request.json()}"))
        self.ring.insert(1, f"0x{(await request.json())[0]:08x}")
        return Response(status_code=204)


def on_cluster(
    scenario: Callable[[Cluster, PulsarCalls], Awaitable[_T]], modular: bool = True, brokers: int = 3, **settings: Any
) -> _T:
    async def run() -> _T:
        async with stand_in(brokers, extensible=not modular) as listed:
            cluster = Cluster(listed, modular)
            async with PulsarAdmin(listed.settings(**settings)) as admin, TopicReader(admin) as topics:
                poll = ClusterPoll(admin, topics)
                poll.members = await Directory(admin, CLUSTER).refresh()
                cluster.addresses = poll.members.addresses
                calls = PulsarCalls(
                    admin, cluster.observer, exclude_namespaces(()), cluster=lambda: CLUSTER,
                    addresses=lambda: cluster.addresses, timeout_s=lambda broker: 1.0, on_denied=cluster.denied.append,
                    find_stats=poll.find_stats,
                )  # fmt: skip
                return await scenario(cluster, calls)

    return asyncio.run(run())


async def unload(calls: PulsarCalls, target: str | None = "broker-3:8080", modular: bool = True) -> Reply:
    prepared = await calls.answer(ask.Prepare(BUNDLE)) if modular else None
    reply: Reply = await calls.answer(ask.Unload(BUNDLE, "broker-1:8080", target, prepared))
    return reply


async def carry_out_split(calls: PulsarCalls, **cause: str) -> Ended:
    """An order whose boundary is the middle of the range."""
    order = Order("o", OrderKind.SPLIT, BUNDLE, "broker-1:8080", "me", 1, None, BUNDLE.middle(), **cause)
    return await carry(order, calls, modular=True)


async def carry_out_move(
    calls: PulsarCalls, before_the_request: Callable[[], None] = lambda: None, modular: bool = True
) -> Ended:
    """`before_the_request`: what happens between the last look at the owner and the first request."""
    order = Order("o", OrderKind.MOVE, BUNDLE, "broker-1:8080", "me", 1, "broker-3:8080")
    return await carry(order, calls, modular, before_the_request)


def test_the_modular_manager_takes_the_destination_at_its_leader() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        reply = await unload(calls)
        assert (reply.status, reply.reached) == (204, True)
        assert cluster.asked == [
            ("PUT", "broker-2:8080", "destinationBroker=broker-3%3A8080"),
            ("PUT", "broker-1:8080", ""),
        ]

    on_cluster(scenario)


def test_the_extensible_manager_takes_it_at_the_owner() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        await unload(calls, modular=False)
        assert cluster.asked == [("PUT", "broker-1:8080", "destinationBroker=broker-3%3A8080")]

    on_cluster(scenario, modular=False)


@pytest.mark.parametrize("of_url", [lambda leader: leader.url, lambda leader: f"http://{leader.id}/"])
def test_a_leader_may_be_named_by_its_address_alone(of_url: Callable[[Broker], str]) -> None:
    """As Pulsar 3.0.0 to 3.0.2 and 3.1.0 to 3.1.2 do: by the address that is in use, or another one of the broker."""

    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        cluster.name_leader({"serviceUrl": of_url(cluster.leader)})
        assert (await unload(calls)).status == 204
        assert [broker for _, broker, _ in cluster.asked] == ["broker-2:8080", "broker-1:8080"]

    on_cluster(scenario)


@pytest.mark.parametrize("named", [{"serviceUrl": "http://elsewhere:8080"}, {"brokerId": "gone:8080"}, {}, [], None])
def test_without_a_leader_only_a_plain_unload_goes(named: Any) -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> None:
        cluster.name_leader(named)
        reply = await unload(calls)
        assert (reply.reached, reply.redirected, reply.detail) == (False, False, "the leader is not known")
        assert cluster.asked == []
        assert (await unload(calls, None)).status == 204
        assert cluster.asked == [("PUT", "broker-1:8080", "")]
        assert await calls.answer(ask.LookUp(BUNDLE)) is False, "nobody knows where to look it up"

    on_cluster(scenario)


def test_how_far_a_request_came() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> list[Reply]:
        found = []
        cluster.leader.answers["/unload"] = lambda b, r: RedirectResponse("http://127.0.0.1:9/x", 307)
        found.append(await unload(calls))
        cluster.leader.answers["/unload"] = cluster.unload
        cluster.owner.answers["/unload"] = hang
        found.append(await unload(calls))
        cluster.owner.answers["/unload"] = lambda b, r: JSONResponse({"reason": "no"}, 412)
        found.append(await unload(calls))
        cluster.leader.answers["/unload"] = hang
        found.append(await unload(calls))
        await cluster.leader.server.stop()
        found.append(await unload(calls))
        return found

    strange, hung, refused, silent, unreachable = on_cluster(scenario)
    assert (strange.reached, strange.redirected) == (False, True), "the leader has the destination, the owner nothing"
    assert (hung.status, hung.reached) == (0, True)
    assert (refused.status, refused.reached, refused.detail) == (412, True, "no")
    assert (silent.status, silent.reached, silent.redirected) == (0, True, True), "it may own the bundle by now"
    assert (unreachable.reached, unreachable.redirected) == (False, False)


def test_a_redirect_to_no_address_is_a_reply_and_no_error() -> None:
    """The unload has been sent: an error in its place would end the agent."""

    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Reply:
        cluster.leader.answers["/unload"] = lambda b, r: Response(
            status_code=307, headers={"Location": "http://[bad/x"}
        )
        return await unload(calls)

    reply = on_cluster(scenario)
    assert (reply.status, reply.reached, reply.redirected) == (0, False, True)
    assert "no web address" in reply.detail


def test_missing_rights_are_told() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> list[str]:
        cluster.owner.answers["/unload"] = lambda b, r: JSONResponse({"reason": "Unauthorized to validateX"}, 401)
        await unload(calls, None)
        return cluster.denied

    (why,) = on_cluster(scenario)
    assert why.startswith("HTTP 401")


def test_an_order_from_its_first_request_to_its_end() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ended:
        return await carry_out_move(calls)

    ended = on_cluster(scenario)
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, "broker-3:8080")


def test_a_bundle_that_left_its_source_meanwhile_is_unloaded_once() -> None:
    """The leader redirects to whoever owns the bundle by then. Another request would disconnect all clients again."""

    async def scenario(cluster: Cluster, calls: PulsarCalls) -> tuple[Ended, list[tuple[str, str, str]]]:
        def leave() -> None:
            fourth = cluster.brokers.brokers[3]
            fourth.held[str(BUNDLE)] = cluster.owner.held.pop(str(BUNDLE))
            cluster.owner = fourth

        return await carry_out_move(calls, leave), cluster.asked

    ended, asked = on_cluster(scenario, brokers=4)
    assert [broker for _, broker, _ in asked] == ["broker-2:8080", "broker-4:8080"]
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, "broker-3:8080")


@pytest.mark.parametrize("modular", [True, False])
def test_a_list_from_before_the_request_names_no_owner(modular: bool) -> None:
    """The bundle has just come from a broker that was not polled since, and is on its way to the next one."""

    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ended:
        async def arrive_late(broker: Broker, request: Request) -> Response:
            moved = cluster.owner.held.pop(str(BUNDLE))
            later = asyncio.get_running_loop().call_later
            later(0.5, cluster.brokers.brokers[2].held.__setitem__, str(BUNDLE), moved)
            return Response(status_code=204)

        cluster.observer.note(Listing("broker-2:8080", 1, 1, frozenset({str(BUNDLE)})))
        for broker in cluster.brokers.brokers:
            broker.answers["/unload"] = arrive_late
        return await carry_out_move(calls, modular=modular)

    ended = on_cluster(scenario, modular)
    assert (ended.outcome, ended.owner) == (OrderOutcome.MOVED, "broker-3:8080")


def test_a_broker_that_leaves_while_an_order_is_prepared_ends_that_order_alone() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> list[Reply]:
        prepared = await calls.answer(ask.Prepare(BUNDLE))
        gone = dict(cluster.addresses)
        found = []
        for broker in ("broker-2:8080", "broker-1:8080"):
            cluster.addresses = {name: address for name, address in gone.items() if name != broker}
            found.append(await calls.answer(ask.Unload(BUNDLE, "broker-1:8080", "broker-3:8080", prepared)))
        return found

    leaderless, sourceless = on_cluster(scenario)
    assert (leaderless.reached, leaderless.detail) == (False, "the leader is not known")
    assert (sourceless.reached, sourceless.detail) == (False, "the address of broker-1:8080 is not known")


def test_an_unload_waits_for_no_other_one() -> None:
    """What allowed it, the lease and the owner, was looked at just before. The controller limits orders."""

    async def scenario(cluster: Cluster, calls: PulsarCalls) -> int:
        under_way, all_there = [0], asyncio.Event()

        async def close_slowly(broker: Broker, request: Request) -> Response:
            under_way[0] += 1
            if under_way[0] == 8:
                all_there.set()
            await asyncio.wait_for(all_there.wait(), 0.9)
            return Response(status_code=204)

        cluster.leader.answers |= {"/unload": close_slowly}
        for broker in cluster.brokers.brokers:
            broker.answers["/persistent/t1/ns1"] = lambda b, r: []  # nothing to look up
        await asyncio.gather(*(unload(calls) for _ in range(8)))
        return under_way[0]

    assert on_cluster(scenario) == 8


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


TOPICS = sorted((f"persistent://t1/ns1/{number}" for number in range(40)), key=topic_hash)
INSIDE = [topic for topic in TOPICS if BUNDLE.contains(topic_hash(topic))][:5]
BY_LOAD = topic_hash(INSIDE[1])  # the topic below is as busy as the other four


def tell_topics(cluster: Cluster, rates: Sequence[float] = (40.0, 10.0, 10.0, 10.0, 10.0)) -> None:
    """The owner's topics, lowest hash first."""
    topics = {name: {"msgRateIn": rate} for name, rate in zip(INSIDE, rates, strict=False)}
    document = {"t1/ns1": {"0x00000000_0x80000000": {"persistent": topics}}} if topics else {}
    cluster.owner.answers["/broker-stats/topics"] = lambda broker, request: document


@pytest.mark.parametrize("modular", [True, False])
def test_a_round_s_split_cuts_by_the_topics_of_its_owner(modular: bool) -> None:
    """Read once, just then, of the owner alone: nothing else has told them before."""

    async def scenario(cluster: Cluster, calls: PulsarCalls) -> tuple[Ended, list[str]]:
        tell_topics(cluster)
        ended = await carry_out_split(calls, decision_id="d")
        assert cluster.ring[1] == f"0x{BY_LOAD:08x}"
        asked = [(broker.id, path) for broker in cluster.brokers.brokers for path, _ in broker.asked]
        return ended, [broker for broker, path in asked if path.endswith("/broker-stats/topics")]

    ended, asked = on_cluster(scenario, modular)
    assert BUNDLE.middle() != BY_LOAD
    assert (ended.outcome, ended.boundary, ended.detail) == (OrderOutcome.SPLIT, BY_LOAD, "")
    assert asked == ["broker-1:8080"]


def test_an_operator_s_split_reads_no_topics() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ended:
        tell_topics(cluster)
        ended = await carry_out_split(calls, command_id="c")
        assert not [path for path, _ in cluster.owner.asked if path.endswith("/topics")]
        return ended

    ended = on_cluster(scenario)
    assert (ended.outcome, ended.boundary) == (OrderOutcome.SPLIT, BUNDLE.middle())


@pytest.mark.parametrize(
    ("rates", "why"),
    [((), "its owner has none of its topics"), ((3.0,), "no boundary parts its topics"), (None, "HTTP 500")],
)
def test_a_split_whose_load_is_not_known_is_in_the_middle(rates: Sequence[float] | None, why: str) -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Ended:
        tell_topics(cluster, rates or ())
        if rates is None:
            cluster.owner.answers["/broker-stats/topics"] = lambda b, r: JSONResponse({"reason": "no"}, 500)
        return await carry_out_split(calls, decision_id="d")

    ended = on_cluster(scenario)
    assert (ended.outcome, ended.boundary) == (OrderOutcome.SPLIT, BUNDLE.middle())
    assert ended.detail.startswith("at the proposed boundary: ")
    assert why in ended.detail


def test_an_owner_whose_address_is_not_known_tells_no_topics() -> None:
    async def scenario(cluster: Cluster, calls: PulsarCalls) -> Any:
        return await calls.answer(ask.FindBoundary(BUNDLE, "broker-9:8080"))

    found = on_cluster(scenario)
    assert (found.at, "its address is not known" in found.why) == (None, True)
