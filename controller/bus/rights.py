"""Which rights each role needs on which topic, as values: what Ballast's processes do with Kafka, and no more.

`controller.bus.acls` makes Kafka's ACLs of them, docs/security.md explains them. Reading and writing imply DESCRIBE.
Nobody needs a right on the cluster: idempotent producers need none beside WRITE on a topic (Kafka 3.0 and newer), none
is transactional, and only Spark's consumers name a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from controller.bus.topics import TopicNames
from controller.domain.settings.agent_groups import NO_GROUP

SPARK_GROUPS = "spark-kafka-source"  # with what Spark begins the names of its source's consumer groups


class Role(str, Enum):
    """Who connects to Kafka."""

    AGENT = "agent"
    CONTROLLER = "controller"  # the Spark job, driver and executors
    OPERATOR = "operator"  # the command line and the page, where they send commands
    VIEWER = "viewer"  # the same where they only look: status, doctor


class Operation(str, Enum):
    """What a right allows, by the names that Kafka's own tools use."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"


class Right(NamedTuple):
    """What a principal may do with one topic, or with the consumer groups whose names begin with `name`."""

    name: str
    operations: tuple[Operation, ...]
    groups: bool = False


_READ, _WRITE = Operation.READ, Operation.WRITE
_FACTS = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


def rights_of(role: Role, names: TopicNames, group: str = NO_GROUP) -> list[Right]:
    """The rights of a role, each topic once. `group`: that of an agent, which speaks in its topics alone."""
    if role is Role.AGENT:
        return _merge(_of_agent(names, group))
    if role is Role.CONTROLLER:
        every = dict.fromkeys(all_topics(names), (Operation.CREATE, Operation.DESCRIBE_CONFIGS))
        return [*_merge(_of_controller(names), every), Right(SPARK_GROUPS, (_READ,), groups=True)]
    watched = dict.fromkeys((*names.all_heartbeats, names.journal_feed, names.owner), (_READ,))
    sent = {names.commands: (_WRITE,)} if role is Role.OPERATOR else {}
    return _merge(watched, sent, dict.fromkeys(all_topics(names), _FACTS))


def all_topics(names: TopicNames) -> tuple[str, ...]:
    """Every topic of a cluster."""
    single = (names.assign_requests, names.commands, names.journal_feed, names.owner)
    return (*names.all_load_reports, *names.all_heartbeats, *names.all_broker_events, *single)


def _of_agent(names: TopicNames, group: str) -> dict[str, tuple[Operation, ...]]:
    """It writes in its group's topics, hears what the owners of all groups release, and whether others are alive."""
    heard = dict.fromkeys((*names.all_heartbeats, *names.all_broker_events, names.journal_feed), (_READ,))
    said = dict.fromkeys((*names.of_group(group), names.assign_requests), (_WRITE,))
    return {topic: (*heard.get(topic, ()), *said.get(topic, ())) for topic in (*heard, *said)}


def _of_controller(names: TopicNames) -> dict[str, tuple[Operation, ...]]:
    """It reads everything; it writes ticks, the feed, and whose the topics are."""
    written = (*names.all_heartbeats, names.journal_feed, names.owner)
    return {topic: (_READ, _WRITE) if topic in written else (_READ,) for topic in all_topics(names)}


def _merge(*parts: Mapping[str, Iterable[Operation]]) -> list[Right]:
    merged: dict[str, dict[Operation, None]] = {}
    for part in parts:
        for topic, operations in part.items():
            merged.setdefault(topic, {}).update(dict.fromkeys(operations))
    return [Right(topic, _without_implied(operations)) for topic, operations in merged.items()]


def _without_implied(operations: Iterable[Operation]) -> tuple[Operation, ...]:
    given = tuple(operations)
    implied = {Operation.DESCRIBE} if {_READ, _WRITE} & set(given) else set()
    return tuple(operation for operation in given if operation not in implied)
