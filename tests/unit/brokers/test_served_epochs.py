"""At which epoch a broker serves, while the store answers late or not at all and bundles go and come back."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from controller.brokers.reference.bundle import BundleTable, Phase, ServedBundle
from controller.brokers.reference.capacity import Capacity, Throttle
from controller.brokers.reference.runtime import ReferenceBroker
from controller.brokers.reference.store.client import Answer, StoreClient
from controller.brokers.reference.topic import Services
from controller.brokers.reference.topic_opener import TopicOpener
from controller.domain.errors import StoreError
from controller.domain.ids import Bundle
from tests.unit.brokers.test_client_requests import TOPIC, turns, whole

WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)


class LateStore:
    """Acquires and topics that are opened wait until a test answers them."""

    def __init__(self) -> None:
        self.acquires: list[tuple[int, asyncio.Future[Answer]]] = []
        self.tails: list[asyncio.Future[dict[str, Any]]] = []

    def send_acquire(self, bundle: Bundle, epoch: int, owner: str, *, tails: bool) -> asyncio.Future[Answer]:
        self.acquires.append((epoch, asyncio.get_running_loop().create_future()))
        return self.acquires[-1][1]

    def create_topic(self, topic: str) -> asyncio.Future[dict[str, Any]]:
        self.tails.append(asyncio.get_running_loop().create_future())
        return self.tails[-1]


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
            cast(StoreClient, store), throttle, "a.n1", lambda: 0, lambda topic, error: None, lambda: True
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
