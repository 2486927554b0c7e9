"""One secure Kafka cluster of three nodes for all tests of this folder; tests have topics of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from controller.testbed.kafka_cluster.cluster import KafkaCluster

EAST, WEST = "agent-east", "agent-west"


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """The cluster, running or not: a local cluster stops its Kafka at its end."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    cluster = KafkaCluster(tmp_path_factory.mktemp("secure") / "kafka")
    cluster.create(3, True, [EAST, WEST])
    yield cluster
    cluster.stop()


@pytest.fixture
def secured(short_lived_jvms: None, place: KafkaCluster) -> KafkaCluster:
    """The cluster, with all its nodes."""
    place.start()
    return place
