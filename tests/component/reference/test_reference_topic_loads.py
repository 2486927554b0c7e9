"""What a reference broker knows of its topics' loads, and how splits are cut by it: real clients, real store."""

from __future__ import annotations

import asyncio
from pathlib import Path

from controller.agent.reports.split_proposals import SplitWatch
from controller.brokers.reference.client.producer import Producer
from controller.brokers.reference.runtime import ReferenceBroker
from controller.domain.decision import Reason
from controller.domain.ids import topic_hash
from tests.unit.brokers.reference_cluster import HIGH, LOW, WHOLE, Cluster, cluster, topic, until

TOPICS = [topic(i) for i in range(6)]
HOT = min(TOPICS, key=topic_hash)  # nearly all load is at the lowest hash: half of the range is not half of the load


async def produced(here: Cluster, counts: dict[str, int]) -> None:
    """So many messages of each topic are in the store."""
    for name, count in counts.items():
        producer: Producer = await here.producer(name, "p")
        for at in range(count):
            await producer.send(f"k{at}", b"x")
        await producer.flush()


def watch() -> SplitWatch:
    return SplitWatch(lambda stats: Reason.SPLIT_MSG_RATE if stats.msg_rate_in > 0 else None)


def test_topics_loads_are_what_was_served_since_the_last_sample(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            broker: ReferenceBroker = here.brokers["a"]
            broker.sample()
            await produced(here, {name: 60 if name == HOT else 10 for name in TOPICS})
            sample = broker.sample()
            loads = broker.topic_loads(WHOLE)
            assert set(loads) == set(TOPICS)
            stats = sample.bundles[WHOLE]
            assert abs(sum(loads.values()) - stats.msg_rate_in - stats.msg_rate_out) < 1e-6
            assert all(abs(loads[HOT] / loads[name] - 6) < 1e-6 for name in TOPICS if name != HOT)
            sides = [broker.topic_loads(LOW), broker.topic_loads(HIGH)]
            assert {name: rate for side in sides for name, rate in side.items()} == loads
            assert all(LOW.contains(topic_hash(name)) for name in sides[0])
            broker.sample()
            assert set(broker.topic_loads(WHOLE).values()) == {0.0}  # known, but quiet
            assert set(broker.topic_loads(WHOLE)) == set(TOPICS)

    asyncio.run(scenario())


def test_a_proposed_split_is_cut_where_the_load_is_even(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            broker: ReferenceBroker = here.brokers["a"]
            watching = watch()
            for _ in range(2):
                await produced(here, {name: 100 if name == HOT else 10 for name in TOPICS})
                found = watching.observe(broker.sample().bundles, broker.topic_loads)
            (proposal,) = found
            assert proposal.boundary != WHOLE.middle()
            below = [name for name in TOPICS if topic_hash(name) < proposal.boundary]
            assert below == [HOT]

    asyncio.run(scenario())


def test_the_halves_of_a_split_know_their_topics_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            epoch = await here.give(WHOLE, "a")
            broker: ReferenceBroker = here.brokers["a"]
            broker.sample()
            await produced(here, dict.fromkeys(TOPICS, 20))
            broker.sample()
            before = {half: broker.topic_loads(half) for half in (LOW, HIGH)}
            assert all(before.values())
            await broker.split(WHOLE, {LOW: epoch + 1, HIGH: epoch + 1})
            await until(lambda: set(broker.serving()) == {LOW, HIGH})
            assert {half: broker.topic_loads(half) for half in (LOW, HIGH)} == before

    asyncio.run(scenario())


def test_topics_that_nobody_has_opened_are_there_without_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            await produced(here, dict.fromkeys(TOPICS, 1))
            for client in here.clients:
                await client.stop()
            here.clients.clear()
            await here.transfer(WHOLE, "a", "b")
            broker = here.brokers["b"]
            broker.sample()
            assert broker.topic_loads(WHOLE) == dict.fromkeys(TOPICS, 0.0)

    asyncio.run(scenario())
