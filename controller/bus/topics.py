"""The Kafka topics: names, partitions, retention and timestamp type; creates and checks them.

Kafka stamps the records of every topic (LogAppendTime: one clock for all). The only exception are a replay's load
reports, which keep the time of the recording (CreateTime), so that the speed of the replay makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from controller.bus.cluster import NO_SETTINGS, admin_client
from controller.bus.failures import CREATE, DESCRIBE_CONFIGS, lacks_right
from controller.domain.errors import ConfigError
from controller.domain.settings.agent_groups import NO_GROUPS, AgentGroups

LOG_APPEND_TIME = "LogAppendTime"
CREATE_TIME = "CreateTime"
HOUR_MS = 3_600_000
KNOWN_WITHIN_S = 10.0  # after a topic was created, by every node
# Largest record: a load report of a thousand bundles is about 300 KB, the feed of a mass failover's entries some MB.
MAX_RECORD_BYTES = 8 * 1024 * 1024


class AgentTopics(NamedTuple):
    """The topics in which the agents of a group speak."""

    load_reports: str
    heartbeats: str
    broker_events: str


@dataclass(frozen=True)
class TopicNames:
    """The names of the topics. Tests and the replayer have topics of their own, with a prefix such as `t42.`.

    Each agent group has load reports, heartbeats and broker events of its own; `load_reports`, `heartbeats` and
    `broker_events` are those of brokers in no group.
    """

    prefix: str = ""
    groups: AgentGroups = NO_GROUPS

    @cached_property
    def load_reports(self) -> str:
        return f"{self.prefix}load-reports"

    @cached_property
    def heartbeats(self) -> str:
        return f"{self.prefix}heartbeats"

    @cached_property
    def broker_events(self) -> str:
        return f"{self.prefix}broker-events"

    @cached_property
    def assign_requests(self) -> str:
        return f"{self.prefix}assign-requests"

    @cached_property
    def commands(self) -> str:
        return f"{self.prefix}commands"

    @cached_property
    def journal_feed(self) -> str:
        return f"{self.prefix}journal-feed"

    @cached_property
    def owner(self) -> str:
        return f"{self.prefix}owner"

    def of_group(self, group: str) -> AgentTopics:
        """The topics in which the agents of a group speak."""
        return AgentTopics(*(f"{name}.{group}" for name in self._plain)) if group else self._plain

    @cached_property
    def _plain(self) -> AgentTopics:
        return AgentTopics(self.load_reports, self.heartbeats, self.broker_events)

    def of_broker(self, broker: str) -> AgentTopics:
        """The topics in which the agent of a broker speaks."""
        return self.of_group(self.groups.of(broker))

    def speaks_for(self, topic: str, broker: str) -> bool:
        """Whether what this topic says of a broker counts: it is a topic of the broker's own group."""
        return not self.groups.members or topic in self.of_broker(broker)

    @cached_property
    def all_load_reports(self) -> tuple[str, ...]:
        """Of all groups."""
        return tuple(self.of_group(group).load_reports for group in self.groups.all)

    @cached_property
    def all_heartbeats(self) -> tuple[str, ...]:
        """Of all groups."""
        return tuple(self.of_group(group).heartbeats for group in self.groups.all)

    @cached_property
    def all_broker_events(self) -> tuple[str, ...]:
        """Of all groups."""
        return tuple(self.of_group(group).broker_events for group in self.groups.all)

    @cached_property
    def control(self) -> tuple[str, ...]:
        """The topics that the control query reads."""
        return (*self.all_heartbeats, *self.all_broker_events, self.assign_requests, self.commands)


@dataclass(frozen=True)
class TopicSpec:
    """One topic as it must be. `retention_ms` -1 keeps records forever, `compacted` the newest of each key."""

    name: str
    partitions: int
    retention_ms: int
    timestamp_type: str = LOG_APPEND_TIME
    compacted: bool = False

    @property
    def cleanup_policy(self) -> str:
        return "compact" if self.compacted else "delete"

    @property
    def settings(self) -> dict[str, str]:
        # Retention removes closed segments only, so a segment is closed after a quarter of the retention time.
        segment_ms = self.retention_ms // 4 if self.retention_ms > 0 else 24 * HOUR_MS
        settings = {
            "message.timestamp.type": self.timestamp_type,
            "cleanup.policy": self.cleanup_policy,
            "retention.ms": str(self.retention_ms),
            "segment.ms": str(segment_ms),
            "segment.bytes": str(128 * 1024 * 1024),
            "max.message.bytes": str(MAX_RECORD_BYTES),
        }
        if self.timestamp_type == CREATE_TIME:
            # Recordings have other clocks; by default Kafka refuses timestamps more than an hour ahead of its own.
            settings["message.timestamp.after.max.ms"] = str(2**63 - 1)
        return settings


@dataclass(frozen=True)
class TopicFacts:
    """One topic as Kafka has it."""

    name: str
    topic_id: str
    partitions: int
    timestamp_type: str
    retention_ms: int
    min_insync_replicas: int
    replication_factor: int
    cleanup_policy: str


def live_topics(names: TopicNames) -> list[TopicSpec]:
    """The topics of a live cluster: seven, and three more for each agent group."""
    return [
        *(TopicSpec(name, 4, 6 * HOUR_MS) for name in names.all_load_reports),  # perishable: a round looks back minutes
        *(TopicSpec(name, 1, HOUR_MS) for name in names.all_heartbeats),
        *(TopicSpec(name, 1, 72 * HOUR_MS) for name in names.all_broker_events),  # a controller may be down a weekend
        TopicSpec(names.assign_requests, 1, HOUR_MS),  # repeated while a client needs the bundle
        TopicSpec(names.commands, 1, 168 * HOUR_MS),  # commands must survive a long stop
        TopicSpec(names.journal_feed, 1, HOUR_MS),  # only a hint: the journal is the truth
        TopicSpec(names.owner, 1, -1, compacted=True),  # the owner of these topics, for as long as they exist
    ]


def replay_topics(names: TopicNames) -> list[TopicSpec]:
    """A replay's topics: load reports in one partition, with the recording's timestamps and hence without retention."""
    loads = names.all_load_reports
    others = [spec for spec in live_topics(names) if spec.name not in loads]
    return [*(TopicSpec(name, 1, -1, CREATE_TIME) for name in loads), *others]


def ensure_topics(
    bootstrap: str,
    specs: Iterable[TopicSpec],
    settings: Mapping[str, object] = NO_SETTINGS,
    replication_factor: int = -1,
) -> dict[str, TopicFacts]:
    """Create missing topics and check existing ones; returns all of them as Kafka has them.

    Several processes may call this at once. `replication_factor` -1 takes the cluster's default. Raises ConfigError for
    more replicas than there are brokers, and for an existing topic with another timestamp type or number of partitions,
    and names the command that fixes it: wrong timestamps would silently shift every pane.
    """
    wanted = {spec.name: spec for spec in specs}
    with admin_client(bootstrap, settings) as admin:
        known = set(admin.list_topics())
        missing = [spec for name, spec in wanted.items() if name not in known]
        if missing:
            _create(admin, missing, replication_factor, settings)
        facts = _describe(admin, list(wanted), settings)
    for name, spec in wanted.items():
        check_topic(spec, facts[name])
    return facts


def describe_topics(
    bootstrap: str, names: Iterable[str], settings: Mapping[str, object] = NO_SETTINGS, timeout_ms: int = 30_000
) -> dict[str, TopicFacts]:
    """Those of the topics that exist, as Kafka has them. Raises KafkaUnavailable, NoRight, ConfigError."""
    with admin_client(bootstrap, settings, timeout_ms) as admin:
        known = set(admin.list_topics())
        return _describe(admin, [name for name in names if name in known], settings)


def delete_topics(bootstrap: str, names: Iterable[str], settings: Mapping[str, object] = NO_SETTINGS) -> None:
    """Delete those topics that exist."""
    with admin_client(bootstrap, settings) as admin:
        known = set(admin.list_topics())
        there = [name for name in names if name in known]
        if there:
            admin.delete_topics(there)


def _create(admin: Any, missing: list[TopicSpec], replication_factor: int, settings: Mapping[str, object]) -> None:
    for spec in missing:  # one by one: a race with another process then concerns only that topic
        request = {
            "num_partitions": spec.partitions,
            "replication_factor": replication_factor,
            "configs": spec.settings,
        }
        try:
            admin.create_topics({spec.name: request})
        except TopicAlreadyExistsError:
            continue
        except (TopicAuthorizationFailedError, ClusterAuthorizationFailedError):
            raise ConfigError(
                f"topic {spec.name} does not exist, or may not be seen, and "
                f"{lacks_right(settings, CREATE, f'topic {spec.name}')}"
            ) from None
        except InvalidReplicationFactorError:
            raise ConfigError(_too_few_brokers(admin, spec.name, replication_factor)) from None
    admin.wait_for_topics([spec.name for spec in missing])


def _too_few_brokers(admin: Any, topic: str, replication_factor: int) -> str:
    """Why a topic cannot have as many replicas, and what to do."""
    brokers = sum(not broker.get("is_fenced") for broker in admin.describe_cluster()["brokers"])
    asked = (
        f"kafka.replication_factor = {replication_factor}" if replication_factor > 0
        else "kafka.replication_factor is empty, and Kafka's default.replication.factor"
    )  # fmt: skip
    return (
        f"{asked} is more than the number of brokers of this Kafka, {brokers}: topic {topic} cannot be created; give "
        f"kafka.replication_factor = {brokers} or less, or start more brokers"
    )


def _list_partitions(admin: Any, names: list[str]) -> dict[str, Any]:
    return _ask_until_known(
        lambda: {topic["name"]: topic for topic in admin.describe_topics(names)},
        lambda found: all(topic["partitions"] for topic in found.values()),
    )


def _list_configs(admin: Any, names: list[str]) -> dict[str, Any]:
    """The client does not tell settings that a node does not know yet from those that its login may not read."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    return _ask_until_known(
        lambda: dict(admin.describe_configs(resources, config_filter="all")["topic"]),
        lambda configs: all(configs.values()),
    )


def _ask_until_known(ask: Callable[[], dict[str, Any]], is_known: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The last answer: just after a topic's creation the node that is asked may not have heard of it."""
    asking = Retrying(
        retry=retry_if_result(lambda found: not is_known(found)),
        stop=stop_after_delay(KNOWN_WITHIN_S),
        wait=wait_fixed(0.1),
        retry_error_callback=lambda last: last.outcome.result() if last.outcome else {},  # the caller judges it
    )
    return dict(asking(ask))


def _describe(admin: Any, names: list[str], settings: Mapping[str, object]) -> dict[str, TopicFacts]:
    if not names:
        return {}
    found = _list_partitions(admin, names)
    configs = _list_configs(admin, list(found))
    facts = {}
    for topic in found.values():
        config = {key: entry["value"] for key, entry in configs[topic["name"]].items()}
        if not config:
            raise ConfigError(
                f"the settings of topic {topic['name']} cannot be read: {lacks_right(settings, DESCRIBE_CONFIGS, 'it')}"
            )
        facts[topic["name"]] = TopicFacts(
            name=topic["name"],
            topic_id=str(topic["topic_id"]),
            partitions=len(topic["partitions"]),
            timestamp_type=config["message.timestamp.type"],
            retention_ms=int(config["retention.ms"]),
            min_insync_replicas=int(config["min.insync.replicas"]),
            replication_factor=min((len(each["replica_nodes"]) for each in topic["partitions"]), default=0),
            cleanup_policy=config["cleanup.policy"],
        )
    return facts


def check_topic(spec: TopicSpec, found: TopicFacts) -> None:
    """Raise ConfigError, with the command that fixes it, for a topic that Ballast cannot work with."""
    if spec.compacted and found.cleanup_policy != spec.cleanup_policy:
        raise ConfigError(
            f"topic {spec.name} has cleanup.policy={found.cleanup_policy}, needed is {spec.cleanup_policy}, as its last"
            f" record must stay: set it with `kafka-configs --alter --entity-type topics --entity-name {spec.name}"
            f" --add-config cleanup.policy={spec.cleanup_policy}`, or choose another prefix"
        )
    if found.timestamp_type != spec.timestamp_type:
        raise ConfigError(
            f"topic {spec.name} has message.timestamp.type={found.timestamp_type}, needed is {spec.timestamp_type}:"
            f" set it with `kafka-configs --alter --entity-type topics --entity-name {spec.name}"
            f" --add-config message.timestamp.type={spec.timestamp_type}`, or choose another prefix"
        )
    if found.partitions < spec.partitions or (spec.partitions == 1 and found.partitions != 1):
        raise ConfigError(
            f"topic {spec.name} has {found.partitions} partitions, needed"
            f" {'is exactly 1, as its order matters' if spec.partitions == 1 else f'are at least {spec.partitions}'}:"
            " create it again, or choose another prefix"
        )
