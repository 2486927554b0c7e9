"""What the controller sends: it must go on after an outage of Kafka, and silence is told."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any
from unittest.mock import MagicMock

import pytest
from prometheus_client import CollectorRegistry

from controller.bus import producer
from controller.bus.topics import TopicNames
from controller.config.settings import Settings
from controller.service.arguments import parse_arguments
from controller.service.feed import UNTAKEN_MS, Feed
from jobs.control_runner import ControlRunner
from tests.e2e.waiting import wait_until

NAMES = TopicNames("t.")


def test_an_outage_in_which_records_expire_does_not_silence_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """An idempotent producer of kafka-python sends nothing any more after that; one at a time keeps the order."""
    kafka = MagicMock()
    monkeypatch.setattr(producer, "KafkaProducer", kafka)
    ControlRunner(Settings(), parse_arguments([]), CollectorRegistry(), threading.Event())._make_feed("j")
    options = kafka.call_args.kwargs
    assert not options["enable_idempotence"]
    assert options["max_in_flight_requests_per_connection"] == 1


class Outbox:
    """Kafka's place: it acknowledges the records of all topics but one."""

    def __init__(self, refused: str) -> None:
        self.refused = refused
        self.taken = 0

    def send(self, topic: str, value: Any, key: str | None = None) -> Future[tuple[int, int]]:
        sent: Future[tuple[int, int]] = Future()
        if topic == self.refused:
            sent.set_exception(TimeoutError())
        else:
            sent.set_result((0, 0))
            self.taken += 1
        return sent

    def close(self, timeout_s: float) -> None: ...


def test_a_topic_that_takes_no_records_is_a_trouble_until_it_does() -> None:
    outbox, now_ms = Outbox(NAMES.heartbeats), [0]

    def pass_time(ms: int) -> list[str]:
        now_ms[0] += ms
        before = outbox.taken
        wait_until(lambda: outbox.taken > before + 2, 10)
        return feed.troubles()

    feed = Feed(
        outbox,  # type: ignore[arg-type]
        NAMES, "i", journal_id="j", tick_ms=10, repeat_ms=10, wall_ms=lambda: 1, boot_ms=lambda: now_ms[0],
    )  # fmt: skip
    feed.start(3)
    assert feed.troubles() == []
    assert pass_time(UNTAKEN_MS) == []
    assert pass_time(1) == ["feed: Kafka has taken no record on t.heartbeats for 30 s"]
    outbox.refused = ""
    assert pass_time(0) == []
    feed.stop()


def test_a_feed_that_says_something_once_a_minute_is_no_trouble() -> None:
    now_ms = [0]
    feed = Feed(
        Outbox(""),  # type: ignore[arg-type]
        NAMES, "i", journal_id="j", tick_ms=10, repeat_ms=60_000, wall_ms=lambda: 1, boot_ms=lambda: now_ms[0],
    )  # fmt: skip
    feed.start(3)
    feed.stop()
    now_ms[0] = 61_000
    assert feed.troubles() == []
