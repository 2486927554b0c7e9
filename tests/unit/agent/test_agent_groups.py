"""An agent of a group speaks in its group's topics, and believes of each broker only what its own group's say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, NamedTuple

from controller.agent import records as wire
from controller.agent.cluster.rivals import ClusterRivals
from controller.agent.event_publisher import EventPublisher
from controller.agent.feed_health import FeedHealth
from controller.agent.metrics import AgentMetrics
from controller.agent.session.heartbeat import HeartbeatSender
from controller.agent.session.lease import Lease
from controller.agent.watcher import Watcher
from controller.bus.topics import TopicNames
from controller.domain.events import BrokerEvent
from controller.domain.ids import Bundle, Session
from controller.domain.settings.agent_groups import AgentGroups
from controller.domain.state import METADATA, ClusterState

NAMES = TopicNames("", AgentGroups((("east", ("a",)), ("west", ("b",)))))
A, B, C = (Session(f"{name}:1", 1, "n", 1) for name in "abc")


class Said(NamedTuple):
    topic: str
    value: bytes


class Journal:
    """Never read here."""

    state = ClusterState()


class Outbox:
    """Kafka's place: the topics of the records sent, none of which is acknowledged."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    def send(
        self, topic: str, value: Mapping[str, Any], key: str | None = None, timestamp_ms: int | None = None
    ) -> Future[tuple[int, int]]:
        self.topics.append(topic)
        return Future()


def test_heartbeats_go_to_the_topic_of_each_brokers_group() -> None:
    outbox = Outbox()
    sender = HeartbeatSender(outbox, NAMES, boot_ms=lambda: 1, wall_ms=lambda: 1, metrics=AgentMetrics())

    async def beat() -> None:
        for session in (A, B, C):
            sender.send(session, Lease(6_000, 1), 0, {})

    asyncio.run(beat())
    assert outbox.topics == ["heartbeats.east", "heartbeats.west", "heartbeats"]


def test_events_go_to_the_groups_topic_and_requests_to_that_of_all() -> None:
    outbox, sessions = Outbox(), SimpleNamespace(current=A, may_act=lambda: True)
    publisher = EventPublisher(
        "a:1",
        outbox,
        NAMES,
        sessions=lambda: sessions,
        state=ClusterState,
        wall_ms=lambda: 1,  # type: ignore[arg-type, return-value]
    )
    publisher.event("leaving")
    publisher.ask_for(Bundle("t/n", 0, 0xFFFFFFFF))
    assert outbox.topics == ["broker-events.east", "assign-requests"]


def heard_by(names: TopicNames, *said: Said) -> list[BrokerEvent]:
    """The events that a watcher passes on."""
    heard: list[BrokerEvent] = []

    async def run() -> None:
        watcher = Watcher(
            Journal(),  # type: ignore[arg-type]
            names.journal_feed,
            poll_ms=300,
            health=FeedHealth(6_000, 1),
            on_applied=lambda entries: None,
            on_jump=lambda: None,
            on_event=heard.append,
            on_failure=lambda error: heard.append(error),  # type: ignore[arg-type]
            boot_ms=lambda: 1,
            metrics=AgentMetrics(),
            speaks_for=names.speaks_for,
        )
        watcher._loop = asyncio.get_running_loop()
        watcher.take(said)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        watcher.close()

    asyncio.run(run())
    return heard


def released(session: Session, topic: str) -> Said:
    """What a target waits for before it serves."""
    record = wire.event(session, "released", 0, 0, bundle="t/n/0x00000000_0xffffffff", epoch=3)
    return Said(topic, json.dumps(record).encode())


def test_nobody_can_say_that_a_broker_of_another_group_has_released_a_bundle() -> None:
    said = [released(B, topic) for topic in ("broker-events.east", "broker-events", "broker-events.west")]
    assert [event.session for event in heard_by(NAMES, *said)] == [B]
    assert len(heard_by(TopicNames(), *said)) == 3, "without groups any topic speaks for all"


def test_a_cluster_agent_is_not_kept_away_by_a_forged_heartbeat() -> None:
    def hear(topic: str) -> int:
        rivals = ClusterRivals("mine", NAMES.speaks_for)
        beat = wire.heartbeat(B, 0, 0, {"authority": METADATA})
        rivals.take([Said(topic, json.dumps(beat).encode())])
        return rivals.heard

    assert (hear("heartbeats.west"), hear("heartbeats.east"), hear("heartbeats")) == (1, 0, 0)
