"""The agent of a Pulsar cluster carries out the journal's orders: each once, and only under the lease of its source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from controller.agent.cluster import orders as ask
from controller.agent.cluster.executor import OrderExecutor
from controller.agent.cluster.orders import Boundary, Reply
from controller.domain.ids import RING_END, Bundle, Session
from controller.domain.observed import Order, OrderKind
from controller.domain.state import ClusterState

BUNDLE = Bundle("t/n", 0, RING_END)
MOVE = Order("o1", OrderKind.MOVE, BUNDLE, "a:1", "n", 5, target="b:1")
SPLIT = Order("o1", OrderKind.SPLIT, BUNDLE, "a:1", "n", 5, boundary=1 << 31)
SPLIT_OF_ROUND = Order("o1", OrderKind.SPLIT, BUNDLE, "a:1", "n", 5, boundary=BUNDLE.middle(), decision_id="d")


class Cluster:
    """Two brokers, and the agent that carries out one order; the bundle is moved as it is told to."""

    def __init__(self, order: Order) -> None:
        self.owner, self.lease_holds, self.lease_ends_at = "a:1", True, object
        self.asked: list[type] = []
        self.outcomes: list[str] = []
        self.told: list[dict[str, Any]] = []
        self.ring = (BUNDLE.lower, BUNDLE.upper)
        self.tasks: list[asyncio.Task[None]] = []
        state = ClusterState()
        state.observed.orders[str(BUNDLE)] = order
        session = Session("a:1", 1, "n", 1)
        self.agent = OrderExecutor(
            "n",
            cast(Any, self),
            cast(Any, SimpleNamespace(state=lambda: state, send=self._hear, tell_ring=self._tell_ring)),
            cast(Any, SimpleNamespace(
                session_of=lambda broker: session, any_session=lambda: session, may_act=lambda broker: self.lease_holds
            )),
            self._start,
            cast(Any, SimpleNamespace(spares=lambda order: False, note=lambda *args: None)),
            cast(Any, SimpleNamespace(
                orders_open=SimpleNamespace(set_function=lambda count: None), note_order=lambda outcome, ms: None
            )),
            boot_ms=lambda: 0,
            wall_ms=lambda: 0,
        )  # fmt: skip

    async def answer(self, call: object) -> Any:
        """As Pulsar does; the lease ends before the answer to `lease_ends_at`."""
        await asyncio.sleep(0)
        self.asked.append(type(call))
        self.lease_holds &= not isinstance(call, self.lease_ends_at) or self.lease_ends_at is object
        if isinstance(call, ask.Unload):
            self.owner = "b:1"
            return Reply(204, True)
        if isinstance(call, ask.Split):
            self.ring = (BUNDLE.lower, call.boundary, BUNDLE.upper)
            return Reply(204, True)
        if isinstance(call, ask.FindBoundary):
            return Boundary(77)
        if isinstance(call, ask.ReadRing):
            return self.ring
        if isinstance(call, ask.ListOwned):
            return frozenset({str(BUNDLE)} if call.broker == self.owner else ())
        return 5 if isinstance(call, ask.CountTopics) else None

    async def apply(self) -> None:
        """An entry of the journal was applied; return when nothing is under way."""
        self.agent.on_applied()
        await asyncio.wait_for(asyncio.gather(*self.tasks), 5)

    def _hear(self, *args: object, **fields: Any) -> None:
        self.outcomes.append(fields["data"]["outcome"])
        self.told.append(fields["data"])

    async def _tell_ring(self, namespace: str) -> None:
        """The agent tells what the ring is after a split."""

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]


def on_cluster(order: Order, scenario: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await scenario(Cluster(order))

    asyncio.run(run())


def test_an_order_whose_end_is_on_its_way_is_not_begun_again() -> None:
    """Other entries are applied before the one that ends the order. By then the bundle may have come back to its
    source, and a second unload would move it once more."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.apply()
        assert cluster.outcomes == ["moved"]
        cluster.owner = "a:1"  # its broker has handed it back
        await cluster.apply()
        assert (len(cluster.tasks), cluster.asked.count(ask.Unload)) == (1, 1), "the same order was carried out twice"

    on_cluster(MOVE, scenario)


def test_nothing_is_sent_once_the_lease_of_the_source_has_ended() -> None:
    """The journal has ended the order by then, and another agent may have one about the same bundle."""

    async def split(cluster: Cluster) -> None:
        cluster.lease_ends_at = ask.CountTopics  # it took that long
        await cluster.apply()
        assert cluster.asked == [ask.CountTopics, ask.ReadRing, ask.ListOwned]
        assert cluster.outcomes == []

    async def split_of_round(cluster: Cluster) -> None:
        cluster.lease_ends_at = ask.FindBoundary  # reading statistics of topics takes up to ten seconds
        await cluster.apply()
        assert cluster.asked == [ask.CountTopics, ask.FindBoundary, ask.ReadRing, ask.ListOwned]
        assert cluster.outcomes == []

    async def move(cluster: Cluster) -> None:
        cluster.lease_ends_at = ask.ListOwned
        await cluster.apply()
        assert ask.Unload not in cluster.asked
        assert cluster.outcomes == []

    on_cluster(SPLIT, split)
    on_cluster(SPLIT_OF_ROUND, split_of_round)
    on_cluster(MOVE, move)


def test_the_end_of_a_split_tells_where_it_cut() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.apply()
        (told,) = cluster.told
        assert (told["outcome"], told["boundary"]) == ("split", 77)

    on_cluster(SPLIT_OF_ROUND, scenario)
