"""Fixtures of the fault tests: one Kafka for all that do not wipe it, and a site of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.bus.topics import TopicNames
from controller.testbed.kafka import EmbeddedKafka
from tests.faults.site import Site


@pytest.fixture
def site(tmp_path: Path, kafka: EmbeddedKafka, topics: TopicNames) -> Iterator[Site]:
    """Tables, topics, two brokers that do as they are told, and whatever jobs the test starts."""
    with Site(tmp_path, kafka.bootstrap, topics) as made:
        yield made
