"""A producer whose network was cut for longer than its records live: it must send again once that is healed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.testbed.fault_proxy import CuttableProxy, free_port
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.kafka_settings import Door
from tests.e2e.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.kafka]
EXPIRY_MS = 3_000


@pytest.fixture
def proxy(short_lived_jvms: None, tmp_path: Path) -> Iterator[CuttableProxy]:
    """The way to a Kafka of its own."""
    door = free_port()
    with CuttableProxy(door) as made, EmbeddedKafka(tmp_path / "kafka", doors=[Door(door, made.port)]) as kafka:
        ensure_topics(kafka.bootstrap, live_topics(TopicNames("")))
        yield made


def test_heartbeats_are_acknowledged_again_after_a_cut(proxy: CuttableProxy) -> None:
    producer = JsonProducer(
        f"127.0.0.1:{proxy.port}", "cut", delivery_timeout_ms=EXPIRY_MS, max_block_ms=200, idempotent=False
    )
    producer.send("heartbeats", {"n": 0}).result(30)
    proxy.cut()
    lost = [producer.send("heartbeats", {"n": n}) for n in (1, 2)]
    time.sleep(EXPIRY_MS / 1000)
    wait_until(lambda: lost[0].done(), 30)
    proxy.heal()

    def acknowledged() -> bool:
        try:
            return producer.send("heartbeats", {"n": 3}).result(5) is not None
        except Exception:
            return False

    wait_until(acknowledged, 40)
    producer.close()
