"""Whether the configured Kafka is the one that the journal's offsets belong to, and is safe to run on.

Offsets are valid only within one cluster id and topic id. A controller does not start on another Kafka, or on one that
has lost acknowledged records, unless an operator accepts it with --accept-new-kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from controller.bus.cluster import admin_client, cluster_id
from controller.bus.reach import Reaches
from controller.bus.topics import TopicFacts, TopicNames
from controller.config.checks import check_lease
from controller.config.settings import Settings
from controller.domain.errors import ConfigError
from controller.domain.state import ClusterState
from controller.service.records import Offsets

log = logging.getLogger(__name__)


def kafka_identity(
    bootstrap: str, client: Mapping[str, object], facts: Mapping[str, TopicFacts], names: TopicNames
) -> dict[str, Any]:
    """What the journal records about Kafka: the cluster id and topic ids that its offsets belong to."""
    topics = {name: facts[name].topic_id for name in names.control}
    return {"cluster_id": cluster_id(bootstrap, client), "topic_ids": topics}


def settle_kafka(
    state: ClusterState, found: Mapping[str, Any], reach: Reaches, bootstrap: str, accepted: str | None
) -> dict[str, dict[str, int]] | None:
    """None when the journal's offsets are valid in this Kafka; the offsets to continue at when another was accepted.

    `accepted`: the cluster id given with --accept-new-kafka. Raises ConfigError when the offsets are not valid and that
    was not accepted, or for another cluster.
    """
    try:
        check_identity(state.kafka, found, bootstrap)
        check_ends(state.offsets, reach, found["cluster_id"])
    except ConfigError as error:
        if accepted is None:
            raise
        if accepted != found["cluster_id"]:
            raise ConfigError(
                f"--accept-new-kafka {accepted}: {bootstrap} is cluster {found['cluster_id']}; name that one if it is "
                "the new Kafka"
            ) from None
        log.warning("accepted by --accept-new-kafka: %s", error)
        return offsets_in_another(state, found, reach)
    return None


def offsets_in_another(state: ClusterState, found: Mapping[str, Any], reach: Reaches) -> dict[str, dict[str, int]]:
    """The offsets to continue at in another Kafka: the beginning of topics that the journal does not know; in known
    ones the journaled offset, or the end if that is lower."""
    known = state.kafka.get("topic_ids", {}) if state.kafka.get("cluster_id") == found["cluster_id"] else {}
    result: dict[str, dict[str, int]] = {}
    for topic, partitions in reach.items():
        same = topic in known and known[topic] == found["topic_ids"].get(topic)
        for partition, (oldest, end) in partitions.items():
            applied = state.offsets.get(topic, {}).get(partition, oldest)
            result.setdefault(topic, {})[partition] = min(applied, end) if same else oldest
    return result


def check_ends(applied: Offsets, reach: Reaches, cluster: str) -> None:
    """Raise ConfigError when a partition ends below its journaled offset: new records would be dropped unread until it
    has grown beyond that."""
    for topic, partitions in reach.items():
        for partition, (_, end) in partitions.items():
            read = applied.get(topic, {}).get(partition, 0)
            if read > end:
                raise ConfigError(
                    f"topic {topic} ends at offset {end}, but the journal has read it up to {read}: Kafka lost "
                    f"acknowledged records. Restore it{_hint_accept(cluster)}"
                )


def _hint_accept(cluster: str) -> str:
    return f", or, if it is gone for good, start once with --accept-new-kafka {cluster} (docs/recovery.md)"


def check_identity(journaled: Mapping[str, Any], found: Mapping[str, Any], bootstrap: str) -> None:
    """Raise ConfigError when the journal's offsets belong to another Kafka than the configured one."""
    if not journaled:
        return
    accept = _hint_accept(found["cluster_id"])
    if journaled.get("cluster_id") != found["cluster_id"]:
        raise ConfigError(
            f"kafka.bootstrap_servers = {bootstrap} is cluster {found['cluster_id']}, but the journal's offsets are of "
            f"cluster {journaled.get('cluster_id')}: give the address of that cluster, or another tables.root{accept}"
        )
    for topic, journaled_id in journaled.get("topic_ids", {}).items():
        found_id = found["topic_ids"].get(topic)
        if found_id is None:
            raise ConfigError(
                f"kafka.topic_prefix: the journal was written with topic {topic}, which is not among "
                f"{', '.join(found['topic_ids'])}: give its prefix and kafka.agent_groups, or another "
                f"tables.root{accept}"
            )
        if found_id != journaled_id:
            raise ConfigError(
                f"topic {topic} was deleted and created again (id {found_id}, the journal's offsets are of "
                f"{journaled_id}): restore it, or give another tables.root{accept}"
            )


def check_kafka(settings: Settings, facts: Mapping[str, TopicFacts]) -> None:
    """Raise ConfigError when losing one Kafka broker could lose acknowledged records or expire every lease at once.

    A single node is exempt, because without it everything stops anyway.
    """
    kafka = settings.kafka
    with admin_client(kafka.bootstrap_servers, kafka.client) as admin:
        nodes = len(admin.describe_cluster()["brokers"])
    check_lease(settings, kafka.session_timeout_ms, single_node=nodes < 2)
    for name, topic in facts.items():
        if nodes > 1 and topic.min_insync_replicas < 2:
            raise ConfigError(
                f"topic {name} has min.insync.replicas={topic.min_insync_replicas} on {nodes} Kafka brokers: set it to "
                "2 or more, or an acknowledged record can be lost with one broker"
            )
