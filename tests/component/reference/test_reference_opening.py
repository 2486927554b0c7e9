"""Clients that open a topic in the very moment its bundle is split, sent on or dropped: nobody is left behind.

Between "the bundle is served" and "the topic is open" lie a few turns of the event loop; each test lets the bundle
change after every number of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from controller.domain.ids import topic_hash
from tests.unit.brokers.reference_cluster import HIGH, LOW, WHOLE, Cluster, cluster, topic, until

Change = Callable[[Cluster], Awaitable[None]]
TURNS = range(12)
NAME = topic(1)


async def _waiting_client(here: Cluster) -> asyncio.Task[object]:
    """A consumer whose subscribe waits at `a` for a bundle that is on its way there; one message is stored."""
    await here.give(WHOLE, "b")
    producer = await here.producer(NAME, "p")
    await producer.send("k", b"first")
    await producer.flush()
    await producer.stop()
    await (await here.consumer(NAME, "s", "c", auto_ack=False)).stop()  # the subscription exists, nothing is read
    await here.brokers["a"].hold(WHOLE)
    await here.brokers["b"].release(WHOLE, here.directory.put(WHOLE, "a", here.brokers["a"].data_address))
    opening = asyncio.create_task(here.consumer(NAME, "s", "c"))
    await asyncio.sleep(0.05)
    assert not opening.done()
    return opening


async def _reads_what_comes(here: Cluster, opening: asyncio.Task[object]) -> None:
    await asyncio.wait_for(opening, 30)
    consumer = here.clients[2]
    producer = await here.producer(NAME, "p")
    await producer.send("k", b"second")
    await asyncio.wait_for(producer.flush(), 30)
    await until(lambda: consumer.seen.mark == 2, 30)  # type: ignore[union-attr]


async def _split(here: Cluster) -> None:
    children = {LOW: here.next_epoch(), HIGH: here.next_epoch()}
    for child in children:
        here.directory.put(child, "a", here.brokers["a"].data_address)
    await here.brokers["a"].split(WHOLE, children)


async def _split_and_send_on(here: Cluster) -> None:
    await _split(here)
    await here.transfer(LOW if LOW.contains(topic_hash(NAME)) else HIGH, "a", "b")


async def _send_on(here: Cluster) -> None:
    await here.transfer(WHOLE, "a", "b")


async def _drop_and_serve_again(here: Cluster) -> None:
    await here.brokers["a"].drop(WHOLE)
    await here.give(WHOLE, "a")


@pytest.mark.parametrize("turns", TURNS)
@pytest.mark.parametrize("change", [_split, _split_and_send_on, _send_on, _drop_and_serve_again])
def test_whoever_opens_a_topic_meanwhile_reads_what_comes(tmp_path: Path, change: Change, turns: int) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            opening = await _waiting_client(here)
            await here.brokers["a"].serve(WHOLE, here.next_epoch())
            for _ in range(turns):
                await asyncio.sleep(0)
            await change(here)
            await _reads_what_comes(here, opening)

    asyncio.run(scenario())
