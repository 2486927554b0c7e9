"""What a topic is said to be, by a node that hears of it late. Kafka's own lag cannot be had on demand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka.errors import InvalidReplicationFactorError

from controller.bus import topics
from controller.domain.errors import ConfigError

NAME = "ballast.owner"
CONFIG = {
    "message.timestamp.type": "CreateTime", "retention.ms": "-1",
    "min.insync.replicas": "2", "cleanup.policy": "compact",
}  # fmt: skip


class LateNode:
    """Knows the topic's partitions, and then its settings, after so many questions."""

    def __init__(self, partitions_after: int, settings_after: int) -> None:
        self._partitions_after, self._settings_after = partitions_after, settings_after

    def list_topics(self) -> list[str]:
        return [NAME]

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        self._partitions_after -= 1
        partitions = [{"replica_nodes": [1, 2, 3]}] if self._partitions_after < 0 else []
        return [{"name": name, "topic_id": 1, "partitions": partitions} for name in names]

    def describe_configs(self, resources: list[Any], config_filter: str) -> dict[str, Any]:
        self._settings_after -= 1
        known = {key: {"value": value} for key, value in CONFIG.items()} if self._settings_after < 0 else {}
        return {"topic": {resource.name: known for resource in resources}}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    def connect_to(node: LateNode) -> None:
        @contextmanager
        def client(*_: object) -> Iterator[LateNode]:
            yield node

        monkeypatch.setattr(topics, "admin_client", client)

    return connect_to


@pytest.mark.parametrize(("partitions_after", "settings_after"), [(0, 0), (2, 0), (0, 2), (2, 2)])
def test_a_node_that_hears_late_is_asked_again(connect: Any, partitions_after: int, settings_after: int) -> None:
    connect(LateNode(partitions_after, settings_after))
    facts = topics.describe_topics("kafka:9092", [NAME])[NAME]
    assert (facts.partitions, facts.replication_factor, facts.cleanup_policy) == (1, 3, "compact")


class FewBrokers(LateNode):
    """A Kafka with fewer brokers than a topic is to have replicas."""

    def __init__(self) -> None:
        super().__init__(0, 0)

    def list_topics(self) -> list[str]:
        return []

    def create_topics(self, wanted: dict[str, Any]) -> None:
        raise InvalidReplicationFactorError("CreateTopicsResponse_v7(throttle_time_ms=0, topics=[…])")

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": 1, "is_fenced": False}, {"broker_id": 2, "is_fenced": True}]}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (3, "kafka.replication_factor = 3 is more than"),
        (-1, "kafka.replication_factor is empty, and Kafka's default.replication.factor is more than"),
    ],
)
def test_more_replicas_than_brokers_are_told_with_both_numbers(connect: Any, asked: int, told: str) -> None:
    connect(FewBrokers())
    with pytest.raises(ConfigError) as caught:
        topics.ensure_topics("kafka:9092", [topics.TopicSpec(NAME, 1, -1)], replication_factor=asked)
    assert str(caught.value) == (
        f"{told} the number of brokers of this Kafka, 1: topic {NAME} cannot be created; give "
        "kafka.replication_factor = 1 or less, or start more brokers"
    )


def test_settings_that_stay_unknown_are_for_the_login(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "KNOWN_WITHIN_S", 0.3)
    connect(LateNode(0, 1_000_000))
    with pytest.raises(ConfigError, match=r"lacks the right DescribeConfigs on it: `ballast kafka acls`"):
        topics.describe_topics("kafka:9092", [NAME])
