"""Records of agent groups: what is said in a group's topic counts for brokers of that group alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from controller.agent import records as wire
from controller.bus.topics import TopicNames, live_topics, replay_topics
from controller.domain.events import BrokerEvent, Event, Heartbeat, Tick
from controller.domain.ids import Session
from controller.domain.settings.agent_groups import AgentGroups
from controller.service.feed import Feed
from controller.service.reach import starting_offsets
from controller.service.records import Parsed, Row, parse_rows, parsers
from tests.e2e.waiting import wait_until

NAMES = TopicNames("t.", AgentGroups((("east", ("a",)), ("west", ("b",)))))
BEAT, EVENT = "heartbeats", "broker-events"


def row(topic: str, broker: str, offset: int = 0) -> Row:
    session = Session(broker, 1, "n", 1)
    record = wire.heartbeat(session, 0, 0, {}) if BEAT in topic else wire.event(session, "leaving", 0, 0)
    return Row(f"t.{topic}", 0, offset, 0, json.dumps(record).encode(), broker)


def read(*rows: Row) -> Parsed:
    return parse_rows(rows, {}, parsers(NAMES))


def broker_of(event: Event) -> str:
    assert isinstance(event, Heartbeat | BrokerEvent)
    return event.session.broker


@pytest.mark.parametrize("base", [BEAT, EVENT])
@pytest.mark.parametrize(("broker", "suffix"), [("a:1", ".east"), ("b:1", ".west"), ("c:1", "")])
def test_a_broker_is_heard_in_its_own_topic_alone(base: str, broker: str, suffix: str) -> None:
    found = read(*(row(f"{base}{other}", broker) for other in ("", ".east", ".west")))
    assert [broker_of(event) for event in found.events] == [broker]
    assert {bad.row.topic: bad.rule_id for bad in found.bad} == {
        f"t.{base}{other}": "group_mismatch" for other in {"", ".east", ".west"} - {suffix}
    }


def test_whoever_may_write_to_one_topic_forges_nothing_for_others() -> None:
    """The key agrees with the record: a principal may choose both."""
    found = read(row("broker-events.east", "b:1"), row("heartbeats.east", "b:1"))
    assert found.events == []
    assert {bad.text for bad in found.bad} == {"b:1 is in group west"}
    assert {topic: offsets["0"] for topic, offsets in found.offsets.items()} == {
        "t.broker-events.east": 1, "t.heartbeats.east": 1,
    }  # fmt: skip


def test_ticks_know_whose_topic_they_were_read_from() -> None:
    record = json.dumps({"v": 1, "kind": "tick", "instance": "i", "seq": 3, "boot_ms": 7, "group": "west"}).encode()
    found = read(Row("t.heartbeats.east", 0, 0, 0, record, "i"), Row("t.heartbeats", 0, 0, 0, record, "i"))
    assert found.events == [Tick("i", 3, None, 7, ""), Tick("i", 3, None, 7, "east")]


def test_without_groups_a_topic_says_nothing_of_a_broker() -> None:
    found = parse_rows([row(BEAT, "a:1"), row(EVENT, "b:1")], {}, parsers(TopicNames("t.")))
    assert len(found.events) == 2


class Outbox:
    """Kafka's place: the topics of the records sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, Any]]] = []

    def send(self, topic: str, value: Mapping[str, Any], key: str | None = None) -> Future[tuple[int, int]]:
        self.sent.append((topic, value))
        return Future()

    def close(self, timeout_s: float) -> None: ...


def test_the_controller_ticks_in_every_topic_of_heartbeats() -> None:
    outbox = Outbox()
    feed = Feed(
        outbox,  # type: ignore[arg-type]
        NAMES, "i", journal_id="j", tick_ms=60_000, repeat_ms=60_000, wall_ms=lambda: 1, boot_ms=lambda: 5,
    )  # fmt: skip
    feed.start(3)
    wait_until(lambda: len(outbox.sent) == 4, 10)  # with the newest seq on the feed
    feed.stop()
    ticks = [(topic, value["boot_ms"]) for topic, value in outbox.sent if value.get("kind") == "tick"]
    assert ticks == [("t.heartbeats", 5), ("t.heartbeats.east", 5), ("t.heartbeats.west", 5)]


def test_heartbeats_of_every_group_are_read_from_their_end() -> None:
    held = {topic: {"0": (0, 9)} for topic in NAMES.control}
    starting = starting_offsets(held, {}, from_end=NAMES.all_heartbeats)  # type: ignore[arg-type]
    assert {topic for topic, offsets in starting.items() if offsets["0"] == 9} == set(NAMES.all_heartbeats)


def test_each_group_adds_three_topics() -> None:
    names = [spec.name.removeprefix("t.") for spec in live_topics(NAMES)]
    assert len(names) == len(set(names)) == 7 + 2 * 3
    assert {name for name in names if name.endswith(".east")} == {
        "load-reports.east", "heartbeats.east", "broker-events.east",
    }  # fmt: skip
    assert [spec.name for spec in replay_topics(NAMES) if spec.timestamp_type == "CreateTime"] == list(
        NAMES.all_load_reports
    )
