"""At which epoch a broker serves, while the store answers late, not at all, or what was sent again, and bundles go and
come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.brokers.reference import runtime
from controller.brokers.reference.bundle import BundleTable, Phase, ServedBundle
from controller.brokers.reference.capacity import Capacity, Throttle
from controller.brokers.reference.runtime import ReferenceBroker
from controller.brokers.reference.store.client import Answer, StoreClient
from controller.brokers.reference.topic import Services
from controller.brokers.reference.topic_opener import TopicOpener
from controller.domain.errors import Fenced, StoreError
from controller.domain.ids import Bundle
from tests.unit.brokers.test_client_requests import (
    TOPIC,
    Client,
    open_producer,
    publish,
    subscribe,
    turns,
    whole,
)

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)


class LateStore:
    """Acquires, topics that are opened and what needs a fence wait until a test answers them."""

    def __init__(self) -> None:
        self.acquires: list[tuple[int, asyncio.Future[Answer]]] = []
        self.tails: list[asyncio.Future[dict[str, Any]]] = []
        self.fenced: list[tuple[str, int, asyncio.Future[Any]]] = []  # operation, epoch

    async def start(self) -> None:
        """It is there."""

    async def stop(self) -> None:
        """Nothing is left behind."""

    def send_acquire(self, bundle: Bundle, epoch: int, owner: str, *, tails: bool) -> asyncio.Future[Answer]:
        self.acquires.append((epoch, asyncio.get_running_loop().create_future()))
        return self.acquires[-1][1]

    async def acquire(self, bundle: Bundle, epoch: int, owner: str) -> dict[str, dict[str, Any]]:
        topics: dict[str, dict[str, Any]] = (await self.send_acquire(bundle, epoch, owner, tails=True))[0]["topics"]
        return topics

    def create_topic(self, topic: str) -> asyncio.Future[dict[str, Any]]:
        self.tails.append(asyncio.get_running_loop().create_future())
        return self.tails[-1]

    def send_append(self, topic: str, epoch: int, owner: str, body: bytes) -> asyncio.Future[Any]:
        return self._wait("append", epoch)

    def ack(self, topic: str, subscription: str, epoch: int, *request: object) -> asyncio.Future[Any]:
        return self._wait("ack", epoch)

    def subscribe(self, topic: str, subscription: str, epoch: int, owner: str, *, latest: bool) -> asyncio.Future[Any]:
        return self._wait("subscribe", epoch)

    def refuse(self) -> None:
        """Answer the oldest that needs a fence as the store does below the fence in force."""
        self.fenced.pop(0)[2].set_exception(Fenced("a.n1 at epoch 1 is fenced: a.n1 holds epoch 2"))

    def _wait(self, operation: str, epoch: int) -> asyncio.Future[Any]:
        self.fenced.append((operation, epoch, asyncio.get_running_loop().create_future()))
        return self.fenced[-1][2]


def with_broker(
    monkeypatch: pytest.MonkeyPatch,
    test: Callable[[ReferenceBroker, LateStore, Client, list[int]], Awaitable[None]],
) -> None:
    """Run the test on a broker that serves everything at epoch 1, with a client; the list: epochs that were fenced."""

    async def run() -> None:
        store, fenced = LateStore(), list[int]()
        monkeypatch.setattr(runtime, "StoreClient", lambda address: store)
        broker = ReferenceBroker(
            "a.n1", "127.0.0.1:1", may_serve=lambda: True, on_fenced=lambda bundle, epoch: fenced.append(epoch)
        )
        await broker.start(cast(Any, SimpleNamespace(owner_of=lambda topic: None)))
        served = whole()
        served.tails = {TOPIC: tail(20, mark=0)}
        broker._table.put(served)
        try:
            await test(broker, store, Client(broker._clients), fenced)
        finally:
            await broker.stop()

    asyncio.run(run())


def tail(messages: int, mark: int) -> dict[str, Any]:
    cursors = {"s": {"mark": mark, "ranges": [], "start": 0}}
    return {"next": messages, "bytes": 0, "producers": {"p": messages - 1}, "cursors": cursors}


def test_an_epoch_whose_acquire_had_no_answer_is_acquired_again() -> None:
    """The bundle is served at the new epoch already, but its fence may be the old one: nothing could be stored."""

    async def run() -> None:
        broker, store = ReferenceBroker("a.n1", "127.0.0.1:1", may_serve=lambda: True), LateStore()
        broker._store = cast(StoreClient, store)
        broker._table.put(whole())
        first = asyncio.ensure_future(broker.serve(WHOLE, 2))
        await turns()
        store.acquires[0][1].set_exception(StoreError("the store did not answer: outcome unknown"))
        with pytest.raises(StoreError):
            await first
        again = asyncio.ensure_future(broker.serve(WHOLE, 2))
        await turns()
        assert [epoch for epoch, _ in store.acquires] == [2, 2], "it was taken for served, and the fence never raised"
        store.acquires[1][1].set_result(({}, b""))
        await again
        await broker.serve(WHOLE, 2)
        assert len(store.acquires) == 2

    asyncio.run(run())


def test_a_topic_is_opened_with_the_tail_of_the_epoch_at_which_it_is_served() -> None:
    """Another broker has stored messages and acknowledgements in between: with the older tail its consumers would get
    again what they have acknowledged there."""

    async def run() -> None:
        loop, table, store = asyncio.get_running_loop(), BundleTable(), LateStore()
        throttle = Throttle(Capacity(), loop.time, loop.call_at)
        services = Services(
            cast(StoreClient, store), throttle, "a.n1", lambda: 0, lambda topic, error, epoch: None, lambda: True
        )
        opener = TopicOpener(table, services, cast(Any, None), lambda: "", hold_ms=1_000)
        before = whole()
        table.put(before)
        opening = asyncio.ensure_future(opener.open(before, TOPIC))
        await turns()
        table.remove(WHOLE)
        table.put(ServedBundle(WHOLE, Phase.SERVING, 3, acquired=True, tails={TOPIC: tail(9, mark=7)}))
        store.tails[0].set_result(tail(4, mark=0))
        opened = await asyncio.wait_for(opening, 5)
        assert (opened.next_offset, opened.cursors["s"].mark, opened.served.epoch) == (9, 7, 3)
        throttle.close()

    asyncio.run(run())


async def adopt(broker: ReferenceBroker, store: LateStore, epoch: int) -> None:
    """Serve the bundle at a new epoch."""
    adopting = asyncio.ensure_future(broker.serve(WHOLE, epoch))
    await turns()
    store.acquires.pop()[1].set_result(({}, b""))
    await adopting


def acknowledge(client: Client) -> None:
    client.ask({"op": "ack", "ref": 1, "id": 1, "below": 4}, b"")


@pytest.mark.parametrize("operation", ["append", "ack"])
@pytest.mark.parametrize("split", [False, True])
def test_what_is_refused_at_an_epoch_before_drops_no_bundle(
    monkeypatch: pytest.MonkeyPatch, operation: str, split: bool
) -> None:
    """The store carried it out, then an acquire of this very broker; it died before it answered, and all was sent
    again. What became of the operation only the topic's tail tells, so the topic is opened again."""

    async def test(broker: ReferenceBroker, store: LateStore, client: Client, fenced: list[int]) -> None:
        (open_producer if operation == "append" else subscribe)(client)
        await turns()
        (publish(client, 20) if operation == "append" else acknowledge(client))
        await turns()
        if split:
            low, high = WHOLE.split_at(0x80000000)
            splitting = asyncio.ensure_future(broker.split(WHOLE, {low: 2, high: 3}))
            await turns()
            for _, acquire in store.acquires:
                acquire.set_result(({}, b""))
            await splitting
        else:
            await adopt(broker, store, 2)
        assert [(what, epoch) for what, epoch, _ in store.fenced] == [(operation, 1)]
        before = broker.serving()
        store.refuse()
        await turns()
        assert (broker.serving(), fenced) == (before, [])
        assert client.ops() == ["opened", "reopen"]
        (open_producer if operation == "append" else subscribe)(client)
        await turns()
        store.tails[0].set_result(tail(21, mark=4))
        await turns()
        opened = client.heard[-1]
        assert opened.get("last", 20) == 20, "the message was stored, and is not sent again"
        assert opened.get("mark", 4) == 4

    with_broker(monkeypatch, test)


@pytest.mark.parametrize("adopted", [False, True])
def test_a_subscription_that_is_refused_at_an_epoch_before_is_made_at_the_one_served_now(
    monkeypatch: pytest.MonkeyPatch, adopted: bool
) -> None:
    async def test(broker: ReferenceBroker, store: LateStore, client: Client, fenced: list[int]) -> None:
        subscribe(client, subscription="new")
        await turns()
        if adopted:
            await adopt(broker, store, 2)
        store.refuse()
        await turns()
        if not adopted:
            assert (broker.serving(), fenced, client.ops()) == ({}, [1], ["not_owner"])
            return
        assert (broker.serving(), fenced) == ({WHOLE: 2}, [])
        assert [(what, epoch) for what, epoch, _ in store.fenced] == [("subscribe", 2)]
        store.fenced[0][2].set_result({"mark": 0, "ranges": [], "start": 0})
        await turns()
        assert client.ops() == ["opened"]

    with_broker(monkeypatch, test)


def test_what_is_refused_at_the_epoch_served_now_drops_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(broker: ReferenceBroker, store: LateStore, client: Client, fenced: list[int]) -> None:
        open_producer(client)
        await turns()
        await adopt(broker, store, 2)
        publish(client, 20)
        await turns()
        assert [(what, epoch) for what, epoch, _ in store.fenced] == [("append", 2)]
        store.refuse()
        await turns()
        assert (broker.serving(), fenced, client.ops()) == ({}, [2], ["opened", "moved"])

    with_broker(monkeypatch, test)


def test_clients_of_a_release_that_was_cancelled_are_told_when_the_bundle_is_served_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The journal has given it back meanwhile. What was open stayed so in a remainder that nobody knew any more: such a
    producer waited for ever (seed 4744 of the simulation)."""

    async def test(broker: ReferenceBroker, store: LateStore, client: Client, fenced: list[int]) -> None:
        open_producer(client)
        await turns()
        publish(client, 20)
        releasing = asyncio.ensure_future(broker.release(WHOLE, None))
        await turns()
        releasing.cancel()  # it waits for the append
        await turns()
        assert client.ops() == ["opened"]
        serving = asyncio.ensure_future(broker.serve(WHOLE, 3))
        await turns()
        assert client.ops() == ["opened", "moved"]
        store.acquires.pop()[1].set_result(({"topics": {}}, b""))
        await serving
        assert broker.serving() == {WHOLE: 3}

    with_broker(monkeypatch, test)
