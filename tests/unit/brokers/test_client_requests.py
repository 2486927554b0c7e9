"""What a broker answers its clients while the store is slow and connections come and go.

The broker's side of a connection is the real one; the store answers when a test lets it, and clients are lists of the
frames that they were sent. The simulated deployment has found what these tests are about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from controller.brokers.reference.bundle import BundleTable, Phase, ServedBundle
from controller.brokers.reference.capacity import Capacity, Throttle
from controller.brokers.reference.connection_handler import ConnectionHandler
from controller.brokers.reference.store.client import Answer, StoreClient
from controller.brokers.reference.store.messages import Message, pack_messages
from controller.brokers.reference.store.protocol import FrameConnection, Header
from controller.brokers.reference.topic import Services
from controller.domain.ids import Bundle

TOPIC = "persistent://t/n/x"
STORED = 20  # messages


class SlowStore:
    """A store with one topic; appends and acknowledgements wait in `waiting` until a test answers them. Reads wait
    for ever."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[Answer]] = []

    async def create_topic(self, topic: str) -> dict[str, Any]:
        cursors = {"s": {"mark": 0, "ranges": [], "start": 0}}
        return {"next": STORED, "bytes": 0, "producers": {"p": STORED - 1}, "cursors": cursors}

    def ack(self, *request: object) -> asyncio.Future[Answer]:
        return self._wait()

    def send_append(self, *request: object) -> asyncio.Future[Answer]:
        return self._wait()

    def call(self, header: dict[str, Any], body: bytes = b"") -> asyncio.Future[Answer]:
        return asyncio.get_running_loop().create_future()

    def answer(self, **header: object) -> None:
        """Answer the oldest request."""
        self.waiting.pop(0).set_result((header, b""))

    def _wait(self) -> asyncio.Future[Answer]:
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]


class Client:
    """A connection, with the frames that were sent over it."""

    def __init__(self, handler: ConnectionHandler) -> None:
        self.heard: list[Header] = []
        self._end = cast(FrameConnection, self)
        self.ask = cast(Callable[..., None], partial(handler._on_frame, self._end))
        self.lose = partial(handler._on_lost, self._end)
        handler._on_made(self._end)

    def send(self, header: Header, body: bytes = b"") -> None:
        self.heard.append(header)

    def close(self) -> None:
        """Nobody listens here."""

    def ops(self) -> list[str]:
        return [header["op"] for header in self.heard]


async def turns(number: int = 10) -> None:
    """Let whatever is ready run."""
    for _ in range(number):
        await asyncio.sleep(0)


def whole() -> ServedBundle:
    return ServedBundle(Bundle("t/n", 0, 0xFFFFFFFF), Phase.SERVING, 1, acquired=True)


def with_broker(
    test: Callable[[SlowStore, Callable[[], Client]], Awaitable[None]], served: ServedBundle | None = None
) -> None:
    """Run the test on the connections of a broker that serves everything, as `served`."""

    async def run() -> None:
        loop, table, store = asyncio.get_running_loop(), BundleTable(), SlowStore()
        table.put(served or whole())
        throttle = Throttle(Capacity(), loop.time, loop.call_at)
        services = Services(
            cast(StoreClient, store), throttle, "a.n1", lambda: 0, lambda topic, error, epoch: None, lambda: True
        )
        handler = ConnectionHandler(table, services, hold_ms=1_000, on_fenced=lambda served: None)
        await handler.start(cast(Any, None), "127.0.0.1", 0)
        try:
            await test(store, lambda: Client(handler))
        finally:
            throttle.close()
            await handler.stop()

    asyncio.run(run())


def subscribe(client: Client, name: str = "c", subscription: str = "s") -> None:
    client.ask(
        {
            "op": "subscribe",
            "ref": 1,
            "topic": TOPIC,
            "name": name,
            "subscription": subscription,
            "type": "exclusive",
            "permits": 0,
        },
        b"",
    )


def open_producer(client: Client) -> None:
    client.ask({"op": "producer", "ref": 1, "topic": TOPIC, "name": "p"}, b"")


def publish(client: Client, sequence: int) -> None:
    client.ask({"op": "send", "ref": 1, "first": sequence, "n": 1}, pack_messages([Message("p", sequence, "", b"x")]))


def test_an_acknowledgement_that_adds_nothing_is_confirmed_once_the_one_that_covers_it_is_stored() -> None:
    async def test(store: SlowStore, connect: Callable[[], Client]) -> None:
        client = connect()
        subscribe(client)
        await turns()
        client.ask({"op": "ack", "ref": 1, "id": 1, "below": 11}, b"")
        client.ask({"op": "ack", "ref": 1, "id": 2, "below": 6}, b"")
        await turns()
        assert client.ops() == ["opened"]
        store.answer(mark=11)
        await turns()
        assert [(header["op"], header.get("id")) for header in client.heard[1:]] == [("acked", 1), ("acked", 2)]
        client.ask({"op": "ack", "ref": 1, "id": 3, "below": 2}, b"")
        await turns()
        assert client.heard[-1]["id"] == 3

    with_broker(test)


def test_a_release_waits_for_acknowledgements_that_the_store_has_not_answered() -> None:
    """The next owner reads the cursors once this broker has said `released`: an acknowledgement behind that would be
    missing there, and its messages delivered again."""
    served = whole()

    async def test(store: SlowStore, connect: Callable[[], Client]) -> None:
        client = connect()
        subscribe(client)
        await turns()
        client.ask({"op": "ack", "ref": 1, "id": 7, "ranges": [[0, STORED // 2]]}, b"")
        await turns()
        assert len(store.waiting) == 1, client.heard
        released = asyncio.ensure_future(served.topics[TOPIC].quiesce())
        await turns()
        assert not released.done(), "the store has not answered yet"
        store.answer(mark=STORED // 2)
        await asyncio.wait_for(released, 5)

    with_broker(test, served)


def test_a_producer_that_comes_back_waits_for_what_its_lost_connection_had_sent() -> None:
    """The store takes a second message of the same sequence for the first one, and would acknowledge a message that it
    does not have."""

    async def test(store: SlowStore, connect: Callable[[], Client]) -> None:
        before, after = connect(), connect()
        open_producer(before)
        await turns()
        publish(before, STORED)
        await turns()
        before.lose()
        open_producer(after)
        await turns()
        assert after.heard == []
        store.answer(offsets=[STORED], duplicates=[])
        await turns()
        assert [(header["op"], header["last"]) for header in after.heard] == [("opened", STORED)]

    with_broker(test)


def test_a_late_request_of_a_connection_that_is_gone_displaces_nobody() -> None:
    async def test(store: SlowStore, connect: Callable[[], Client]) -> None:
        before, after = connect(), connect()
        open_producer(after)
        await turns()
        open_producer(before)  # it hung on its way
        before.lose()
        await turns()
        publish(after, STORED)
        await turns()
        store.answer(offsets=[STORED], duplicates=[])
        await turns()
        assert after.ops() == ["opened", "sent"]

    with_broker(test)


def test_a_client_that_is_displaced_is_told_to_open_again() -> None:
    async def test(store: SlowStore, connect: Callable[[], Client]) -> None:
        for ask in (open_producer, subscribe):
            one, other = connect(), connect()
            ask(one)
            await turns()
            ask(other)
            await turns()
            assert one.heard[1:] == [{"op": "reopen", "refs": [1]}]
            assert other.ops() == ["opened"]
            one.lose()
            other.lose()

    with_broker(test)


def test_what_the_store_had_before_its_answer_was_lost_is_known_and_delivered() -> None:
    """The append is sent once more and answered as stored before; to the broker it is new."""

    async def test(store: SlowStore, connect: Callable[[], Client]) -> None:
        producer, consumer = connect(), connect()
        open_producer(producer)
        subscribe(consumer)
        await turns()
        consumer.ask({"op": "ack", "ref": 1, "id": 1, "below": STORED}, b"")
        consumer.ask({"op": "flow", "ref": 1, "permits": 10}, b"")
        publish(producer, STORED)
        await turns()
        store.answer(mark=STORED)
        store.answer(offsets=[STORED], duplicates=[0])
        await turns()
        assert [header["offsets"] for header in consumer.heard if header["op"] == "deliver"] == [[STORED]]
        producer.lose()
        again = connect()
        open_producer(again)
        await turns()
        assert [(header["op"], header["last"]) for header in again.heard] == [("opened", STORED)]

    with_broker(test)
