"""An outage of Kafka is told once, and at its end how many records it has cost."""

from __future__ import annotations

import logging

import pytest
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

from controller.bus.undelivered import Undelivered


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    """Commands of other tests have silenced it."""
    caplog.set_level(logging.WARNING, "controller.bus.undelivered")


def test_an_outage_is_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    undelivered = Undelivered()
    undelivered.delivered("heartbeats")
    for _ in range(274):
        undelivered.note("heartbeats", KafkaTimeoutError("late"), "late")
    undelivered.delivered("heartbeats")
    undelivered.delivered("heartbeats")
    undelivered.close()
    assert caplog.messages == [
        "record for heartbeats not delivered: late; those that follow are counted",
        "records for heartbeats are delivered again; not delivered: 274",
    ]


def test_another_reason_another_topic_and_the_next_outage_are_told(caplog: pytest.LogCaptureFixture) -> None:
    undelivered = Undelivered()
    for error in (KafkaTimeoutError(), TopicAuthorizationFailedError(), KafkaTimeoutError()):
        undelivered.note("heartbeats", error, type(error).__name__)
    undelivered.note("commands", KafkaTimeoutError(), "late")
    undelivered.delivered("heartbeats")
    undelivered.note("heartbeats", KafkaTimeoutError(), "late again")
    assert [line.split("; ")[0] for line in caplog.messages] == [
        "record for heartbeats not delivered: KafkaTimeoutError",
        "record for heartbeats not delivered: TopicAuthorizationFailedError",
        "record for commands not delivered: late",
        "records for heartbeats are delivered again",
        "record for heartbeats not delivered: late again",
    ]


def test_an_outage_that_does_not_end_is_counted_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    undelivered = Undelivered()
    for topic in ("a", "a", "b"):
        undelivered.note(topic, KafkaTimeoutError(), "late")
    undelivered.close()
    undelivered.close()
    assert caplog.messages[2:] == ["records for a not delivered until the end: 2"]
