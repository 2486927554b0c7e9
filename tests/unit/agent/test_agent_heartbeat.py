"""Heartbeats renew the lease from the moment before they were sent, whenever and however Kafka acknowledges them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any

from controller.agent.metrics import AgentMetrics
from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.session.lease import Lease
from controller.bus.topics import TopicNames
from controller.domain.ids import Session
from tests.unit.agent.session_stage import LEASE_MS, settle

ME = Session("a:1", 1, "n", 1)
STARTED_MS = 1_000_000


class Kafka:
    """A `Sender` whose `send` may block for a while before it queues the record."""

    def __init__(self) -> None:
        self.now_ms = STARTED_MS
        self.blocks_ms = 0
        self.futures: list[Future[tuple[int, int]]] = []

    def boot_ms(self) -> int:
        return self.now_ms

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        self.now_ms += self.blocks_ms
        self.futures.append(Future())
        return self.futures[-1]


def play(scenario: Callable[[Kafka, HeartbeatSender, Lease], Awaitable[None]]) -> None:
    async def run() -> None:
        kafka = Kafka()
        sender = HeartbeatSender(kafka, TopicNames(), boot_ms=kafka.boot_ms, wall_ms=lambda: 0, metrics=AgentMetrics())
        await scenario(kafka, sender, Lease(LEASE_MS, STARTED_MS))

    asyncio.run(run())


def test_a_late_acknowledgement_renews_from_the_send() -> None:
    async def scenario(kafka: Kafka, sender: HeartbeatSender, lease: Lease) -> None:
        kafka.now_ms += 1_000
        sender.send(ME, lease, 0, {})
        kafka.now_ms += 4_000
        kafka.futures[0].set_result((0, 0))
        await settle()
        assert lease.until_ms == STARTED_MS + 1_000 + LEASE_MS

    play(scenario)


def test_the_time_that_the_send_itself_takes_does_not_count() -> None:
    """Kafka's producer blocks where it does not know the topic's leader, and may send before it returns."""

    async def scenario(kafka: Kafka, sender: HeartbeatSender, lease: Lease) -> None:
        kafka.now_ms += 1_000
        kafka.blocks_ms = 3_000
        sender.send(ME, lease, 0, {})
        kafka.futures[0].set_result((0, 0))
        await settle()
        assert lease.until_ms == STARTED_MS + 1_000 + LEASE_MS

    play(scenario)


def test_a_heartbeat_that_kafka_did_not_take_renews_nothing() -> None:
    async def scenario(kafka: Kafka, sender: HeartbeatSender, lease: Lease) -> None:
        kafka.now_ms += 1_000
        sender.send(ME, lease, 0, {})
        kafka.futures[0].set_exception(TimeoutError("no acknowledgement"))
        await settle()
        assert lease.until_ms == STARTED_MS + LEASE_MS

    play(scenario)


def test_acknowledgements_in_another_order_keep_the_newest_send() -> None:
    async def scenario(kafka: Kafka, sender: HeartbeatSender, lease: Lease) -> None:
        for _ in range(2):
            kafka.now_ms += 1_000
            sender.send(ME, lease, 0, {})
        for future in reversed(kafka.futures):
            future.set_result((0, 0))
            await settle()
        assert lease.until_ms == STARTED_MS + 2_000 + LEASE_MS

    play(scenario)


def test_an_acknowledgement_after_the_lease_expired_is_too_late() -> None:
    async def scenario(kafka: Kafka, sender: HeartbeatSender, lease: Lease) -> None:
        kafka.now_ms += LEASE_MS - 1
        sender.send(ME, lease, 0, {})
        kafka.now_ms += 1
        kafka.futures[0].set_result((0, 0))
        await settle()
        assert lease.has_expired(kafka.now_ms)

    play(scenario)


def test_a_heartbeat_renews_the_lease_of_the_session_that_sent_it() -> None:
    """The next session of the process has a lease of its own."""

    async def scenario(kafka: Kafka, sender: HeartbeatSender, lease: Lease) -> None:
        kafka.now_ms += 1_000
        sender.send(ME, lease, 0, {})
        following = Lease(LEASE_MS, STARTED_MS)
        sender.send(ME._replace(number=2), following, 0, {})
        kafka.futures[0].set_result((0, 0))
        await settle()
        assert (lease.until_ms, following.until_ms) == (STARTED_MS + 1_000 + LEASE_MS, STARTED_MS + LEASE_MS)

    play(scenario)


def test_the_producers_thread_renews_in_the_loop() -> None:
    async def scenario(kafka: Kafka, sender: HeartbeatSender, lease: Lease) -> None:
        threads: list[threading.Thread] = []
        renew = lease.renew

        def noted(first_send_ms: int, now_ms: int) -> bool:
            threads.append(threading.current_thread())
            return renew(first_send_ms, now_ms)

        lease.renew = noted  # type: ignore[method-assign]
        sender.send(ME, lease, 0, {})
        await asyncio.to_thread(kafka.futures[0].set_result, (0, 0))
        await settle()
        assert threads == [threading.main_thread()]

    play(scenario)
