"""Becoming the one controller: same Kafka as the journal's, nobody else heard, `controller_started` committed.

Everything here happens before Spark touches the checkpoint. Two starters that both hear nobody race for the same
commit; the compare-and-set lets one win.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import controller
from controller.bus.cluster import admin_client, cluster_id
from controller.bus.consumer import Record, TopicReader
from controller.bus.topics import TopicFacts, TopicNames
from controller.config.checks import check_lease
from controller.config.settings import Settings
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import AnotherController, BadRecord, ConfigError, ForeignCommit
from controller.domain.events import Tick, parse_heartbeat
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import SHADOW, ClusterState, is_foreign
from controller.service.reach import Reaches
from controller.service.records import Offsets

log = logging.getLogger(__name__)

LISTEN_EXTRA_MS = 500  # a tick on its way when the lease has just run out
CLAIM_ATTEMPTS = 3


def kafka_identity(
    bootstrap: str, client: Mapping[str, object], facts: Mapping[str, TopicFacts], names: TopicNames
) -> dict[str, Any]:
    """What the journal remembers of Kafka: offsets mean something only within one cluster and topic id."""
    topics = {name: facts[name].topic_id for name in names.control}
    return {"cluster_id": cluster_id(bootstrap, client), "topic_ids": topics}


def settle_kafka(
    state: ClusterState, found: Mapping[str, Any], reach: Reaches, bootstrap: str, accepted: str | None
) -> dict[str, dict[str, int]] | None:
    """None when the journal's offsets hold in this Kafka; where to go on, when an operator accepted another one.

    `accepted`: the cluster id that --accept-new-kafka names. Raises ConfigError when the offsets do not hold and
    nobody said so, or said it of another cluster.
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
    """Where to go on in another Kafka: at the beginning of a topic that the journal does not know, at the end of what
    is left of one that it knows."""
    known = state.kafka.get("topic_ids", {}) if state.kafka.get("cluster_id") == found["cluster_id"] else {}
    result: dict[str, dict[str, int]] = {}
    for topic, partitions in reach.items():
        same = topic in known and known[topic] == found["topic_ids"].get(topic)
        for partition, (oldest, end) in partitions.items():
            applied = state.offsets.get(topic, {}).get(partition, oldest)
            result.setdefault(topic, {})[partition] = min(applied, end) if same else oldest
    return result


def check_ends(applied: Offsets, reach: Reaches, cluster: str) -> None:
    """Raises ConfigError when Kafka has less than the journal has read: records below the journaled offset would be
    dropped unread until the partition has grown beyond it."""
    for topic, partitions in reach.items():
        for partition, (_, end) in partitions.items():
            read = applied.get(topic, {}).get(partition, 0)
            if read > end:
                raise ConfigError(
                    f"topic {topic} ends at offset {end}, but the journal has read it up to {read}: Kafka lost "
                    f"acknowledged records. Restore it{_or_accept(cluster)}"
                )


def _or_accept(cluster: str) -> str:
    return f", or, if it is gone for good, start once with --accept-new-kafka {cluster} (docs/recovery.md)"


def check_identity(journaled: Mapping[str, Any], found: Mapping[str, Any], bootstrap: str) -> None:
    """Raises ConfigError when the journal's offsets belong to another Kafka than the configured one."""
    if not journaled:
        return
    accept = _or_accept(found["cluster_id"])
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
                f"{', '.join(found['topic_ids'])}: give its prefix, or another tables.root{accept}"
            )
        if found_id != journaled_id:
            raise ConfigError(
                f"topic {topic} was deleted and created again (id {found_id}, the journal's offsets are of "
                f"{journaled_id}): restore it, or give another tables.root{accept}"
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
    bootstrap: str, client: Mapping[str, object], names: TopicNames, journal_id: str, listen_ms: int
) -> str | None:
    """The instance id of a controller of this journal that ticks, or None when none was heard for `listen_ms`.

    One that names no journal counts: it is of an older version. One of another journal has no right to these topics.
    """
    heard = threading.Event()
    holders: list[str] = []

    def on_batch(batch: list[Record]) -> None:
        for record in batch:
            holder = ticking_instance(record.value, journal_id)
            if holder is not None:
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
    nobody: bool,
    take_over: bool,
    settings: ControlSettings,
    listen: Callable[[int], str | None],
) -> None:
    """Raises AnotherController, with the holder's name, when a living one is heard.

    `nobody`: none can be alive (`controller.service.owner.nobody_to_hear`).
    """
    if nobody:
        return
    if take_over:
        log.warning("taking over from controller %s without listening for it", state.instance)
        return
    log.info("nothing says that the last controller %s stopped: listening for a lease", state.instance)
    holder = listen(settings.lease_ms + LISTEN_EXTRA_MS)
    if holder is not None:
        raise AnotherController(
            f"controller {holder} is alive and holds the journal: stop it first, or start with --take-over"
        )


def first_entries(
    state: ClusterState,
    instance: str,
    at_ms: int,
    settings: ControlSettings,
    kafka: Mapping[str, Any],
    journal_id: str,
    positions: Mapping[str, Mapping[str, int]] | None = None,
    why: str = "another Kafka was accepted",
    epoch_floor: int = 0,
) -> list[Entry]:
    """What a controller says before its first batch; a new cluster is told its mode as well.

    `positions`: where to go on in a Kafka that is not the journal's (`settle_kafka`), or in topics that were another
    journal's, and `why`. `epoch_floor`: bundles begin above it.
    """
    data: dict[str, Any] = {
        "version": controller.__version__,
        "config_version": settings.config_version,
        "lease_ms": settings.lease_ms,
        "margin_ms": settings.margin_ms,
        "journal_id": journal_id,
        **({"epoch_floor": epoch_floor} if epoch_floor else {}),
    }
    started = Entry(
        seq=state.seq + 1,
        kind=Kind.CONTROLLER_STARTED,
        instance=instance,
        batch=-1,
        at_ms=at_ms,
        data=data,
    )
    entries = [started]
    new_cluster = state.seq == 0
    if new_cluster and settings.initial_mode != SHADOW:
        data = {"mode": settings.initial_mode}
        entries.append(
            Entry(started.seq + 1, Kind.MODE, instance, -1, at_ms, reason="mode of a new cluster", data=data)
        )
    if not state.kafka or positions is not None:
        data = {**kafka, "topics": dict(positions or {})}
        reason = None if positions is None else why
        entries.append(Entry(entries[-1].seq + 1, Kind.OFFSETS, instance, -1, at_ms, reason=reason, data=data))
    return entries


def last_entries(
    state: ClusterState, instance: str, batch: int, at_ms: int, offsets: Offsets, kafka: Mapping[str, Any]
) -> list[Entry]:
    """The clean stop: how far was read, as far as the journal does not say so yet; and who starts next need not
    listen."""
    entries = []
    if offsets:
        data = {**kafka, "topics": {topic: dict(partitions) for topic, partitions in offsets.items()}}
        entries.append(Entry(state.seq + 1, Kind.OFFSETS, instance, batch, at_ms, data=data))
    return [*entries, Entry(state.seq + len(entries) + 1, Kind.CONTROLLER_STOPPED, instance, batch, at_ms)]


def claim(
    state: ClusterState,
    entries: list[Entry],
    commit: Callable[[Sequence[Entry]], None],
) -> ClusterState:
    """Commit the first entries; the state with them folded in. ForeignCommit when another was quicker."""
    commit(entries)
    return fold(state, entries)


class Claimable(Protocol):
    """The journal as a starting controller needs it; opened before the state is read, so that what comes between is
    noticed."""

    def load_state(self) -> ClusterState:
        """The cluster as the journal tells it now."""

    def commit(self, entries: Sequence[Entry]) -> None:
        """Append as one commit; raises ForeignCommit."""


T = TypeVar("T", bound=Claimable)


def become_the_one(
    open_tables: Callable[[], T], prepare: Callable[[ClusterState, bool], list[Entry]], take_over: bool
) -> tuple[T, ClusterState, list[Entry]]:
    """Claim the journal: the tables, the state, and the entries that said so.

    `prepare` looks at the state and listens, and gives the first entries; it may raise AnotherController. Who finds
    somebody else's commit in between looks again and listens, --take-over or not: it may be a rival that lives, which
    is then heard and named, or the last write of a dead one that arrived late, which must not stop the start.
    """
    for attempt in range(CLAIM_ATTEMPTS):
        tables = open_tables()
        state = tables.load_state()
        entries = prepare(state, take_over and attempt == 0)
        try:
            return tables, claim(state, entries, tables.commit), entries
        except ForeignCommit as error:
            if attempt + 1 == CLAIM_ATTEMPTS:
                raise
            log.warning("somebody was quicker, looking again: %s", error)
    raise AssertionError("unreachable")


def ticking_instance(value: bytes, journal_id: str) -> str | None:
    """Whose tick a record of the heartbeats topic is; None for anything but a tick of this journal's controller."""
    try:
        event = parse_heartbeat(value)
    except BadRecord:
        return None
    if not isinstance(event, Tick):
        return None
    if is_foreign(journal_id, event.journal_id):
        log.warning("controller %s of journal %s ticks on these topics, a stray", event.instance, event.journal_id)
        return None
    return event.instance
