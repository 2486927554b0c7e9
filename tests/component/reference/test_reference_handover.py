"""Bundles handed over under producing and consuming clients: nothing lost, stored twice or reordered (I5)."""

from __future__ import annotations

import asyncio
import statistics
from collections import defaultdict
from pathlib import Path

import pytest

from controller.brokers.reference.client.consumer import Consumer, Ranges
from controller.brokers.reference.client.producer import Producer
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.messages import StoredMessage, unpack_all_stored
from controller.brokers.reference.wire import Numbered, SubscriptionType
from controller.domain.errors import Fenced
from controller.domain.ids import Bundle, topic_hash
from tests.unit.brokers.reference_cluster import HIGH, LOW, WHOLE, Cluster, cluster, topic, until


class Witness:
    """Records what clients saw and judges it."""

    def __init__(self) -> None:
        self.acked: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.order: dict[tuple[str, str], list[Numbered]] = defaultdict(list)
        self.confirmed: dict[tuple[str, str], Cursor] = defaultdict(Cursor)
        self.redelivered_after_confirmation: list[int] = []

    def on_acked(self, producer: Producer, first: int, count: int, offsets: list[int]) -> None:
        fresh = set(range(first, first + count))
        assert not fresh & self.acked[producer.topic, producer.name], "acknowledged twice"
        self.acked[producer.topic, producer.name] |= fresh

    def on_delivered(self, consumer: Consumer, messages: list[Numbered], at_ms: int) -> None:
        who = (consumer.topic, consumer.subscription)
        for offset, message in messages:
            if self.confirmed[who].contains(offset):
                self.redelivered_after_confirmation.append(offset)
            self.order[who].append((offset, message))

    def on_confirmed(self, consumer: Consumer, ranges: Ranges, at_ms: int) -> None:
        for low, high in ranges:
            self.confirmed[consumer.topic, consumer.subscription].add(low, high)

    def judge(self, here: Cluster, who: tuple[str, str], *, ordered: bool = True) -> None:
        """The store has each acknowledged sequence once and in order; deliveries cover it, first ones in order."""
        name = who[0]
        records = stored(here, name)
        by_producer: dict[str, list[int]] = defaultdict(list)
        for record in records:
            by_producer[record.producer].append(record.sequence)
        for producer, sequences in by_producer.items():
            assert sequences == list(range(len(sequences)))
            assert self.acked[name, producer] <= set(sequences)
        epochs = [record.epoch for record in records]
        assert epochs == sorted(epochs)
        first: dict[int, None] = dict.fromkeys(offset for offset, _ in self.order[who])
        assert set(first) == {r.offset for r in records}
        if ordered:
            assert list(first) == sorted(first)
        assert not self.redelivered_after_confirmation


def stored(here: Cluster, name: str) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while True:
        data, _ = here.engine.read(name, len(found), 1 << 20)
        if not data:
            return found
        found += unpack_all_stored(data)


async def produce(producer: Producer, stop: asyncio.Event, pause_s: float = 0.005) -> None:
    count = 0
    while not stop.is_set():
        await producer.send(f"k{count % 5}", b"x" * 50)
        count += 1
        await asyncio.sleep(pause_s)
    await producer.flush()


def drained(here: Cluster, names: list[str]) -> bool:
    stats = here.engine.stats()
    return all(set(stats[n]["backlog"].values()) == {0} for n in names)


@pytest.mark.covers(
    "graceful-release",
    "short-blip",
    "clients-find-new-owner",
    "keeps-messages",
    "keeps-order",
    "keeps-deduplication",
    "keeps-subscriptions",
)
@pytest.mark.parametrize("kind", list(SubscriptionType))
def test_transfers_under_load_lose_duplicate_and_reorder_nothing(tmp_path: Path, kind: SubscriptionType) -> None:
    async def scenario() -> None:
        witness = Witness()
        names = [topic(i) for i in range(3)]
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            stop = asyncio.Event()
            producing = []
            for name in names:
                producer = await here.producer(name, "p", on_acked=witness.on_acked)
                producing.append(asyncio.create_task(produce(producer, stop)))
                for consumer in ("c1",) if kind is SubscriptionType.EXCLUSIVE else ("c1", "c2"):
                    await here.consumer(
                        name,
                        "s",
                        consumer,
                        kind=kind,
                        permits=20,
                        on_delivered=witness.on_delivered,
                        on_confirmed=witness.on_confirmed,
                    )
            await until(lambda: all(producer.acked > 0 for producer in here.clients if isinstance(producer, Producer)))
            for i in range(20):
                before = len(here.gaps)
                await here.transfer(WHOLE, *("ab" if i % 2 == 0 else "ba"))
                await until(lambda before=before: len(here.gaps) > before)  # type: ignore[misc]
                await asyncio.sleep(0.03)
            stop.set()
            await asyncio.gather(*producing)
            await until(lambda: drained(here, names))
            assert len(here.gaps) >= 20
            print(f"gap ms p50 {statistics.median(g.gap_ms for g in here.gaps):.1f}", max(g.gap_ms for g in here.gaps))
            for name in names:
                witness.judge(here, (name, "s"), ordered=kind is not SubscriptionType.SHARED)

    asyncio.run(scenario())


@pytest.mark.covers(
    "nothing-copied", "keeps-order", "keeps-subscriptions", "split-parent-retired", "split-readers-resume"
)
def test_a_split_under_unacknowledged_backlog_keeps_clients_order_and_subscriptions(tmp_path: Path) -> None:
    async def scenario() -> None:
        witness = Witness()
        names = [topic(i) for i in range(4)]
        assert {LOW.contains(topic_hash(n)) for n in names} == {True, False}
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            stop = asyncio.Event()
            producing, consumers = [], []
            for name in names:
                producer = await here.producer(name, "p", on_acked=witness.on_acked)
                producing.append(asyncio.create_task(produce(producer, stop)))
                consumers.append(
                    await here.consumer(
                        name,
                        "s",
                        "c",
                        auto_ack=False,
                        on_delivered=witness.on_delivered,
                        on_confirmed=witness.on_confirmed,
                    )
                )
            await until(lambda: all(c.delivered > 20 for c in consumers))
            children = {LOW: here.next_epoch(), HIGH: here.next_epoch()}
            await here.brokers["a"].split(WHOLE, children)
            for child in children:
                here.directory.put(child, "a", here.brokers["a"].data_address)
            assert here.brokers["a"].serving() == children
            assert here.brokers["a"].sample().bundles[LOW].unacked > 0
            assert all(client.reopened == 0 for client in here.clients), "a split disconnects nobody"
            with pytest.raises(Fenced):
                here.engine.append(names[0], 1, "a", [])
            delivered = [c.delivered for c in consumers]
            await until(lambda: all(c.delivered > d for c, d in zip(consumers, delivered, strict=True)))
            assert all(c.redelivered == 0 for c in consumers)
            await here.transfer(LOW, "a", "b")  # one half is sent on, its backlog unacknowledged
            moved = [c for c in consumers if LOW.contains(topic_hash(c.topic))]
            await until(lambda: all(c.redelivered > 0 for c in moved))  # they come again at the new owner
            for consumer in consumers:
                consumer.auto_ack = True
                consumer.ack_held()
            await until(lambda: all(c.delivered > 60 for c in consumers))
            stop.set()
            await asyncio.gather(*producing)
            for consumer in consumers:
                consumer.ack_held()
            await until(lambda: drained(here, names))
            for name in names:
                witness.judge(here, (name, "s"))
            assert all(c.redelivered == 0 for c in consumers if c not in moved)

    asyncio.run(scenario())


@pytest.mark.covers("stateless-brokers", "nothing-copied", "clients-find-new-owner")
def test_an_owner_at_an_old_epoch_is_fenced_and_its_clients_go_to_the_new_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        witness = Witness()
        async with cluster(tmp_path) as here:
            old = await here.give(WHOLE, "a")
            stop = asyncio.Event()
            producer = await here.producer(topic(0), "p", on_acked=witness.on_acked)
            await here.consumer(
                topic(0), "s", "c", on_delivered=witness.on_delivered, on_confirmed=witness.on_confirmed
            )
            producing = asyncio.create_task(produce(producer, stop))
            await until(lambda: producer.acked > 10)
            await here.give(WHOLE, "b")  # a was believed dead and was not: nobody told it
            await until(lambda: here.fenced != [])
            assert here.fenced == [("a", WHOLE, old)]
            assert here.brokers["a"].serving() == {}
            acked = producer.acked
            await until(lambda: producer.acked > acked + 10)
            with pytest.raises(Fenced):
                await here.brokers["a"].serve(WHOLE, old)
            stop.set()
            await producing
            await until(lambda: drained(here, [topic(0)]))
            witness.judge(here, (topic(0), "s"))
            assert {r.owner for r in stored(here, topic(0))} == {"a", "b"}

    asyncio.run(scenario())


def test_a_new_epoch_is_adopted_without_the_clients_noticing(tmp_path: Path) -> None:
    async def scenario() -> None:
        witness = Witness()
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            stop = asyncio.Event()
            producer = await here.producer(topic(0), "p", on_acked=witness.on_acked)
            producing = asyncio.create_task(produce(producer, stop, 0))
            for _ in range(30):
                await asyncio.sleep(0.005)
                await here.brokers["a"].serve(WHOLE, here.next_epoch())
            stop.set()
            await producing
            assert producer.reopened == 0
            assert here.fenced == []
            records = stored(here, topic(0))
            assert [r.sequence for r in records] == list(range(producer.acked))
            assert [r.epoch for r in records] == sorted(r.epoch for r in records)
            assert len({r.epoch for r in records}) > 10

    asyncio.run(scenario())


@pytest.mark.covers("stateless-brokers", "keeps-messages")
def test_a_broker_that_vanishes_leaves_nothing_behind_but_legal_redelivery(tmp_path: Path) -> None:
    async def scenario() -> None:
        witness = Witness()
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            stop = asyncio.Event()
            producer = await here.producer(topic(0), "p", on_acked=witness.on_acked)
            await here.consumer(
                topic(0), "s", "c", on_delivered=witness.on_delivered, on_confirmed=witness.on_confirmed
            )
            producing = asyncio.create_task(produce(producer, stop, 0.001))
            await until(lambda: producer.acked > 50)
            await here.brokers.pop("a").stop()
            await here.give(WHOLE, "b")
            acked = producer.acked
            await until(lambda: producer.acked > acked + 50)
            stop.set()
            await producing
            await until(lambda: drained(here, [topic(0)]))
            witness.judge(here, (topic(0), "s"))

    asyncio.run(scenario())


@pytest.mark.covers("topic-unload")
def test_unload_topic_reopens_it_at_the_same_owner_and_epoch(tmp_path: Path) -> None:
    async def scenario() -> None:
        witness = Witness()
        async with cluster(tmp_path) as here:
            epoch = await here.give(WHOLE, "a")
            stop = asyncio.Event()
            producer = await here.producer(topic(0), "p", on_acked=witness.on_acked)
            other = await here.producer(topic(1), "p")
            await here.consumer(
                topic(0), "s", "c", on_delivered=witness.on_delivered, on_confirmed=witness.on_confirmed
            )
            producing = asyncio.create_task(produce(producer, stop))
            await until(lambda: producer.acked > 10)
            await here.brokers["a"].reopen(topic(0))
            acked = producer.acked
            await until(lambda: producer.acked > acked + 10)
            stop.set()
            await producing
            await until(lambda: drained(here, [topic(0)]))
            assert here.brokers["a"].serving() == {WHOLE: epoch}
            assert (producer.reopened, other.reopened) == (1, 0)
            witness.judge(here, (topic(0), "s"))

    asyncio.run(scenario())


@pytest.mark.covers("graceful-release", "short-blip")
def test_held_requests_are_answered_by_serve_and_by_drop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            broker = here.brokers["a"]
            here.directory.put(WHOLE, "a", broker.data_address)
            await broker.hold(WHOLE)
            waiting = asyncio.create_task(here.producer(topic(0), "p"))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await broker.serve(WHOLE, here.next_epoch())
            await waiting
            await broker.drop(WHOLE)
            await broker.drop(WHOLE)
            assert broker.serving() == {}
            await here.give(WHOLE, "b")
            second = await here.producer(topic(1), "p")
            assert second.address == here.brokers["b"].data_address

    asyncio.run(scenario())


@pytest.mark.covers("clients-find-new-owner")
def test_a_lagging_broker_is_not_followed_in_circles(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "b")
            lagging = here.brokers["a"]
            link = await here.links.to(lagging.data_address)

            class Nobody:
                def on_opened(self, *_: object) -> None: ...
                def on_frame(self, *_: object) -> None: ...
                def on_detached(self, *_: object) -> None: ...

            request = {"op": "producer", "topic": topic(0), "name": "p", "seq": 0}
            answer = await link.attach(request, Nobody())
            assert (answer["op"], answer["seq"]) == ("not_owner", 1)
            assert answer["address"] == here.brokers["b"].data_address
            before = here.directory.lookups
            producer = await here.producer(topic(0), "p")
            ((connection, refs),) = here.brokers["b"]._clients._handles.items()
            told = {"op": "moved", "refs": list(refs), "seq": 0, "broker": "a", "address": lagging.data_address}
            connection.send(told)
            await until(lambda: producer.reopened == 1)
            await until(lambda: producer.address == here.brokers["b"].data_address)
            assert here.directory.lookups - before == 2

    asyncio.run(scenario())


def test_bundles_and_their_split_children_never_overlap_in_what_is_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster(tmp_path) as here:
            await here.give(WHOLE, "a")
            epoch = here.next_epoch()
            await here.brokers["a"].serve(LOW, epoch)  # after a bootstrap the parent is only known as retired
            assert here.brokers["a"].serving() == {LOW: epoch}
            quarter: Bundle = HIGH.split_at(0xC0000000)[0]
            with pytest.raises(Fenced):
                await here.brokers["b"].split(HIGH, {quarter: 0})

    asyncio.run(scenario())
