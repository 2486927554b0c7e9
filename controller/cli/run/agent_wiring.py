"""What every kind of agent is wired to: options, Kafka, signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import structlog
from kafka.errors import KafkaError

from controller.agent.connections import AgentConnections
from controller.agent.options import AgentOptions
from controller.brokers.host_load import GBIT_BYTES
from controller.bus.cluster import KafkaUnavailable, check_answers, topic_ids
from controller.bus.consumer import TopicReader, describe_absent
from controller.bus.failures import NoRight
from controller.bus.producer import JsonProducer
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.errors import describe_error
from controller.ledger.follower import Follower

log = structlog.get_logger(__name__)

TRY_AGAIN_S, SAY_AGAIN_S = 1.0, 30.0  # while Kafka does not answer, or has no topics yet
URGENT_BLOCK_MS = 200  # a Kafka that accepts nothing never blocks the event loop for longer


class Leaves(Protocol):
    """An agent that can be told to leave."""

    def leave(self) -> None:
        """Leave gracefully."""


def options_of(settings: Settings) -> AgentOptions:
    """The agent's options from the configuration."""
    nic = settings.agent.override_broker_nic_speed_gbps
    return AgentOptions(
        lease_ms=settings.control.lease_ms,
        heartbeat_ms=settings.control.heartbeat_ms,
        inventory_interval_ms=settings.control.inventory_interval_ms,
        report_interval_ms=settings.agent.report_interval_ms,
        journal_poll_ms=settings.agent.journal_poll_ms,
        lookup_wait_ms=settings.agent.lookup_wait_ms,
        top_k_bundles=settings.loads.top_k_bundles,
        message_throughput_as_bandwidth=settings.agent.message_throughput_as_bandwidth,
        # host figures apply the override themselves, times the number of network cards
        nic_bytes_per_s=None if nic is None or settings.agent.host_figures else nic * GBIT_BYTES,
    )


@asynccontextmanager
async def agent_connections(settings: Settings, broker: str, lease_ms: int) -> AsyncIterator[AgentConnections]:
    """Kafka, once it answers and has the topics, and the journal's table; the producers are closed at the end."""
    await wait_for_kafka(settings)
    await wait_for_topics(settings, broker)
    urgent = await open_producer(settings, broker, lease_ms, "urgent")
    bulk = await open_producer(settings, broker, lease_ms, "bulk")
    try:
        journal = Follower(table_root(settings))
        yield AgentConnections(urgent, bulk, reader_maker(settings, broker), journal, settings.kafka.topics)
    finally:
        for producer in (urgent, bulk):
            await asyncio.get_running_loop().run_in_executor(None, producer.close, 2.0)


async def open_producer(settings: Settings, broker: str, lease_ms: int, part: str) -> JsonProducer:
    """A producer that queues nothing for longer than a lease, as older heartbeats and load reports are useless."""

    def make() -> JsonProducer:
        return JsonProducer(
            settings.kafka.bootstrap_servers,
            f"ballast-agent-{broker}-{part}",
            settings.kafka.client,
            delivery_timeout_ms=lease_ms,
            max_block_ms=URGENT_BLOCK_MS,
            idempotent=False,
        )

    while True:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, make)
        except KafkaUnavailable as error:  # it answered a moment ago
            log.warning("no Kafka yet, trying again", reason=str(error))
            await asyncio.sleep(TRY_AGAIN_S)
            await wait_for_kafka(settings)


async def wait_for_kafka(settings: Settings) -> None:
    """Wait until a Kafka that accepts these settings answers; log at once, then every half minute."""
    kafka = settings.kafka

    def ask() -> str:
        try:
            check_answers(kafka.bootstrap_servers, kafka.client)
        except KafkaUnavailable as error:
            return str(error)
        return ""

    await _wait_until_nothing_is_amiss(ask, "waiting for Kafka")


async def wait_for_topics(settings: Settings, broker: str) -> None:
    """Wait until the topics exist that this agent reads and writes; log at once, then every half minute.

    A controller that starts beside the agent creates them. To fail instead would make the order of starts matter.
    """
    kafka, names = settings.kafka, settings.kafka.topics
    needed = list(dict.fromkeys([names.journal_feed, *names.all_broker_events, *names.of_broker(broker)]))

    def ask() -> str:
        try:
            there = topic_ids(kafka.bootstrap_servers, needed, kafka.client)
        except (KafkaUnavailable, NoRight, KafkaError) as error:  # it answered a moment ago
            return describe_error(error)
        absent = [name for name in needed if name not in there]
        return describe_absent(absent, kafka.bootstrap_servers) if absent else ""

    await _wait_until_nothing_is_amiss(ask, "waiting for the topics")


async def _wait_until_nothing_is_amiss(ask: Callable[[], str], what: str) -> None:
    """Ask, in a thread, until the answer is empty."""
    loop = asyncio.get_running_loop()
    say_at = loop.time()
    while amiss := await loop.run_in_executor(None, ask):
        if loop.time() >= say_at:
            log.warning(what, reason=amiss)
            say_at = loop.time() + SAY_AGAIN_S
        await asyncio.sleep(TRY_AGAIN_S)


def reader_maker(settings: Settings, broker: str) -> Callable[..., TopicReader]:
    def make(topics: list[str], on_batch: Any, on_failure: Any) -> TopicReader:
        return TopicReader(
            settings.kafka.bootstrap_servers,
            topics,
            on_batch,
            settings=settings.kafka.client,
            name=f"ballast-agent-{broker}",
            on_failure=on_failure,
        )

    return make


def leave_on_signals(found: Leaves) -> None:
    """Leave gracefully on the first SIGTERM or SIGINT; a second one ends the process like a crash."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        log.info("asked to leave")
        found.leave()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, first)
