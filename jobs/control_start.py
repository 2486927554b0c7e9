"""Becoming the one controller: same Kafka as the journal's, nobody else heard, `controller_started` committed.

Everything here happens before Spark touches the checkpoint. Two starters that both hear nobody race for the same
commit; the compare-and-set lets one win.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import controller
from controller.bus.cluster import admin_client, cluster_id
from controller.bus.consumer import Record, TopicReader
from controller.bus.topics import TopicFacts, TopicNames
from controller.config.checks import check_lease
from controller.config.settings import Settings
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import AnotherController, ConfigError
from controller.domain.settings import ControlSettings
from controller.domain.state import SHADOW, ClusterState

log = logging.getLogger(__name__)

LISTEN_EXTRA_MS = 500  # a tick on its way when the lease has just run out


def kafka_identity(
    bootstrap: str, client: Mapping[str, object], facts: Mapping[str, TopicFacts], names: TopicNames
) -> dict[str, Any]:
    """What the journal remembers of Kafka: offsets mean something only within one cluster and topic id."""
    topics = {name: facts[name].topic_id for name in names.control}
    return {"cluster_id": cluster_id(bootstrap, client), "topic_ids": topics}


def check_identity(journaled: Mapping[str, Any], found: Mapping[str, Any], bootstrap: str) -> None:
    """Raises ConfigError when the journal's offsets belong to another Kafka than the configured one."""
    if not journaled:
        return
    if journaled.get("cluster_id") != found["cluster_id"]:
        raise ConfigError(
            f"kafka.bootstrap_servers = {bootstrap} is cluster {found['cluster_id']}, but the journal's offsets are of "
            f"cluster {journaled.get('cluster_id')}: give the address of that cluster, or another tables.root"
        )
    for topic, journaled_id in journaled.get("topic_ids", {}).items():
        found_id = found["topic_ids"].get(topic)
        if found_id is None:
            raise ConfigError(
                f"kafka.topic_prefix: the journal was written with topic {topic}, which is not among "
                f"{', '.join(found['topic_ids'])}: give its prefix, or another tables.root"
            )
        if found_id != journaled_id:
            raise ConfigError(
                f"topic {topic} was deleted and created again (id {found_id}, the journal's offsets are of "
                f"{journaled_id}): restore it, or give another kafka.topic_prefix together with another tables.root"
            )


def check_kafka(settings: Settings, facts: Mapping[str, TopicFacts]) -> None:
    """Raises ConfigError when a lost Kafka broker could cost acknowledged records or every lease at once.

    A single node is excepted: with it everything stands still anyway.
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


def listen_for_another(
    bootstrap: str, client: Mapping[str, object], names: TopicNames, instance: str, listen_ms: int
) -> str | None:
    """The instance id of a controller that ticks, or None when none was heard for `listen_ms`."""
    heard = threading.Event()
    holders: list[str] = []

    def on_batch(batch: list[Record]) -> None:
        for record in batch:
            holder = _ticking_instance(record.value)
            if holder is not None and holder != instance:
                holders.append(holder)
                heard.set()

    reader = TopicReader(bootstrap, [names.heartbeats], on_batch, settings=client, name="listen-for-controller")
    reader.start()
    try:
        heard.wait(listen_ms / 1000)
    finally:
        reader.stop()
    return holders[0] if holders else None


def check_alone(
    state: ClusterState,
    take_over: bool,
    settings: ControlSettings,
    listen: Callable[[int], str | None],
) -> None:
    """Raises AnotherController, with the holder's name, when a living one is heard.

    There is nobody to listen for when the journal is empty or its last word is `controller_stopped`.
    """
    if not state.controller_running:
        return
    if take_over:
        log.warning("taking over from controller %s without listening for it", state.instance)
        return
    log.info("the journal's last controller %s did not say that it stopped: listening for a lease", state.instance)
    holder = listen(settings.lease_ms + LISTEN_EXTRA_MS)
    if holder is not None:
        raise AnotherController(
            f"controller {holder} is alive and holds the journal: stop it first, or start with --take-over"
        )


def first_entries(
    state: ClusterState, instance: str, at_ms: int, settings: ControlSettings, kafka: Mapping[str, Any]
) -> list[Entry]:
    """What a controller says before its first batch; a new cluster is told its mode as well."""
    started = Entry(
        seq=state.seq + 1,
        kind=Kind.CONTROLLER_STARTED,
        instance=instance,
        batch=-1,
        at_ms=at_ms,
        data={
            "version": controller.__version__,
            "config_version": settings.config_version,
            "lease_ms": settings.lease_ms,
            "margin_ms": settings.margin_ms,
        },
    )
    entries = [started]
    new_cluster = state.seq == 0
    if new_cluster and settings.initial_mode != SHADOW:
        data = {"mode": settings.initial_mode}
        entries.append(
            Entry(started.seq + 1, Kind.MODE, instance, -1, at_ms, reason="mode of a new cluster", data=data)
        )
    if not state.kafka:
        nowhere: dict[str, Any] = {**kafka, "topics": {}}
        entries.append(Entry(entries[-1].seq + 1, Kind.OFFSETS, instance, -1, at_ms, data=nowhere))
    return entries


def last_entry(state: ClusterState, instance: str, batch: int, at_ms: int) -> Entry:
    """The clean stop: who starts next need not listen."""
    return Entry(state.seq + 1, Kind.CONTROLLER_STOPPED, instance, batch, at_ms)


def claim(
    state: ClusterState,
    entries: list[Entry],
    commit: Callable[[list[Entry]], None],
) -> ClusterState:
    """Commit the first entries; the state with them folded in. ForeignCommit when another was quicker."""
    commit(entries)
    return fold(state, entries)


def _ticking_instance(value: bytes) -> str | None:
    try:
        record = json.loads(value)
    except ValueError:
        return None
    if isinstance(record, dict) and record.get("kind") == "tick":
        return str(record.get("instance"))
    return None
