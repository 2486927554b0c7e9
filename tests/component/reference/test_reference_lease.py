"""A broker whose lease has expired, but whose agent has not dropped the bundles yet: it says nothing to clients.

So it is for a moment after a pause: the frames that came meanwhile are handled before anything else. What it has
stored keeps its place; clients send the rest again to the next owner, and the store knows repeated messages.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller.brokers.reference.capacity import Capacity
from controller.brokers.reference.client.consumer import Consumer, Ranges
from controller.brokers.reference.wire import Numbered, SubscriptionType
from tests.unit.brokers.reference_cluster import WHOLE, Cluster, cluster, topic, until

LOOK_AGAIN_S = 0.3  # a delivery or answer on loopback takes a hundredth of that


class Lease:
    """Lives until the test says otherwise; the broker asks it."""

    alive = True

    def __call__(self) -> bool:
        return self.alive


async def _leased(here: Cluster, capacity: Capacity | None = None) -> Lease:
    lease = Lease()
    await here.add_broker("a", capacity, may_serve=lease)
    await here.add_broker("b")
    await here.give(WHOLE, "a")
    return lease


def test_nothing_is_stored_or_acknowledged_for_producers_once_the_lease_has_expired(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path, brokers=0) as here:
            lease = await _leased(here)
            producer = await here.producer(topic(1), "p")
            await producer.send("k", b"before")
            await producer.flush()
            lease.alive = False
            await producer.send("k", b"after")
            await asyncio.sleep(LOOK_AGAIN_S)
            assert producer.pending == 1
            assert here.engine.stats()[topic(1)]["messages"] == 1
            await here.brokers["a"].drop(WHOLE)
            await here.give(WHOLE, "b")
            await producer.flush()
            assert here.engine.stats()[topic(1)]["messages"] == 2

    asyncio.run(scenario())


def test_nothing_is_delivered_or_confirmed_to_consumers_once_the_lease_has_expired(tmp_path: Path) -> None:
    async def scenario() -> None:
        got: list[int] = []
        confirmed: list[Ranges] = []

        def delivered(consumer: Consumer, messages: list[Numbered], at_ms: int) -> None:
            got.extend(offset for offset, _ in messages)

        async with cluster(tmp_path, brokers=0) as here:
            lease = await _leased(here, Capacity(msg_per_s=40, burst_ms=0))
            producer = await here.producer(topic(1), "p")
            for _ in range(20):
                await producer.send("k", b"x")
                await producer.flush()
            reader = await here.consumer(
                topic(1),
                "s",
                "c",
                kind=SubscriptionType.SHARED,  # delivered in batches of 16: the second one waits for its turn
                on_delivered=delivered,
                on_confirmed=lambda consumer, ranges, at_ms: confirmed.append(ranges),
                auto_ack=False,
            )
            await until(lambda: got)
            before = len(got)
            lease.alive = False
            reader.ack([(0, 1)])
            late = asyncio.create_task(here.consumer(topic(1), "other", "d", on_delivered=delivered))
            await asyncio.sleep(2 * LOOK_AGAIN_S)
            assert (len(got), confirmed) == (before, [])
            await here.brokers["a"].drop(WHOLE)
            await here.give(WHOLE, "b")
            await late
            await until(lambda: len(set(got)) == 20 and confirmed)

    asyncio.run(scenario())


def test_a_message_that_was_stored_as_the_lease_expired_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner may have acquired the bundle between the store's answer and this one."""

    async def scenario() -> None:
        async with cluster(tmp_path, brokers=0) as here:
            lease = await _leased(here)
            producer = await here.producer(topic(1), "p")
            append = here.engine.append

            def append_slowly(*request: Any) -> Any:
                lease.alive = False
                return append(*request)

            monkeypatch.setattr(here.engine, "append", append_slowly)
            await producer.send("k", b"x")
            await until(lambda: not lease.alive)
            await asyncio.sleep(LOOK_AGAIN_S)
            assert (producer.pending, here.engine.stats()[topic(1)]["messages"]) == (1, 1)
            await here.brokers["a"].drop(WHOLE)
            await here.give(WHOLE, "b")
            await producer.flush()
            assert here.engine.stats()[topic(1)]["messages"] == 1, "the store knows it"

    asyncio.run(scenario())


def test_an_acknowledgement_that_was_stored_as_the_lease_expired_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        got: list[int] = []
        confirmed: list[Ranges] = []
        async with cluster(tmp_path, brokers=0) as here:
            lease = await _leased(here)
            producer = await here.producer(topic(1), "p")
            await producer.send("k", b"x")
            await producer.flush()
            reader = await here.consumer(
                topic(1),
                "s",
                "c",
                on_delivered=lambda consumer, messages, at_ms: got.extend(offset for offset, _ in messages),
                on_confirmed=lambda consumer, ranges, at_ms: confirmed.append(ranges),
                auto_ack=False,
            )
            await until(lambda: got)
            acknowledge = here.engine.acknowledge

            def acknowledge_slowly(*request: Any) -> Any:
                lease.alive = False
                return acknowledge(*request)

            monkeypatch.setattr(here.engine, "acknowledge", acknowledge_slowly)
            reader.ack([(0, 1)])
            await until(lambda: not lease.alive)
            await asyncio.sleep(LOOK_AGAIN_S)
            assert confirmed == []
            await here.brokers["a"].drop(WHOLE)
            await here.give(WHOLE, "b")
            await until(lambda: confirmed)
            assert got == [0], "what is acknowledged is not delivered again"

    asyncio.run(scenario())


def test_a_producer_that_comes_after_the_lease_is_sent_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path, brokers=0) as here:
            lease = await _leased(here)
            lease.alive = False
            late = asyncio.create_task(here.producer(topic(1), "p"))
            await asyncio.sleep(LOOK_AGAIN_S)
            assert not late.done()
            await here.brokers["a"].drop(WHOLE)
            await here.give(WHOLE, "b")
            await late

    asyncio.run(scenario())
