"""The reader of topics against connections that misbehave; against a real Kafka: tests/e2e/kafka/test_kafka_bus.py."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from controller.bus.consumer import TopicReader


class Connection:
    """One that breaks at the first poll, and once more when it is closed."""

    def assign(self, partitions: list[Any]) -> None: ...

    def poll(self, timeout_ms: int) -> dict[Any, Any]:
        raise ConnectionError("reset by peer")

    def close(self) -> None:
        raise ValueError("Invalid file descriptor: -1")


def test_a_connection_that_cannot_be_closed_does_not_end_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    made, thrice = [], threading.Event()

    def connect(timeout_ms: int) -> Connection:
        made.append(Connection())
        if len(made) == 3:
            thrice.set()
        return made[-1]

    reader = TopicReader("127.0.0.1:1", ["t"], lambda batch: None, clock_ms=lambda: 0)
    monkeypatch.setattr(reader, "_connect", connect)
    reader._thread.start()
    try:
        assert thrice.wait(60)
        assert reader.alive
    finally:
        reader.stop()
    assert reader.failure is None
