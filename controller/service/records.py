"""Turns Kafka rows into events: orders and parses them, drops applied ones, collects bad and missing ones. Pure.

The journal's offsets are the truth: a record below them is dropped, whichever batch it comes in, and one above them is
processed. A record that breaks a rule becomes a BadRow for the quarantine and has no other effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from controller.bus.topics import TopicNames
from controller.domain.errors import BadRecord
from controller.domain.events import (
    BrokerEvent,
    Event,
    Heartbeat,
    Tick,
    parse_assign_request,
    parse_broker_event,
    parse_command,
    parse_heartbeat,
)
from controller.domain.settings.agent_groups import AgentGroups

log = logging.getLogger(__name__)

Offsets = Mapping[str, Mapping[str, int]]  # topic -> partition -> next offset
Parser = Callable[[bytes], Event]


class Row(NamedTuple):
    """One Kafka record as read from the source; `timestamp_ms` is Kafka's append time."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    key: str | None = None


class BadRow(NamedTuple):
    """A record that breaks a rule, with the rule and a description."""

    row: Row
    rule_id: str
    text: str


class Gap(NamedTuple):
    """Records that were removed from Kafka before they were read: [first, next) of one partition."""

    topic: str
    partition: int
    first: int
    next: int


@dataclass(slots=True)
class Parsed:
    """A parsed batch of rows. `offsets` contain only partitions that advanced."""

    events: list[Event] = field(default_factory=list)
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)
    bad: list[BadRow] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    dropped: int = 0


def parsers(names: TopicNames) -> dict[str, Parser]:
    """Topic -> parser of its records. With agent groups, one that raises BadRecord for a broker of another group."""
    found: dict[str, Parser] = {names.assign_requests: parse_assign_request, names.commands: parse_command}
    for group in names.groups.all:
        topics = names.of_group(group)
        for topic, parse in ((topics.heartbeats, parse_heartbeat), (topics.broker_events, parse_broker_event)):
            found[topic] = partial(_parse_of_group, parse, names.groups, group) if names.groups.members else parse
    return found


def _parse_of_group(
    parse: Callable[[bytes], Heartbeat | Tick | BrokerEvent], groups: AgentGroups, group: str, raw: bytes
) -> Event:
    event = parse(raw)
    if isinstance(event, Tick):
        return replace(event, group=group)
    theirs = groups.of(event.session.broker)
    if theirs != group:
        raise BadRecord("group_mismatch", f"{event.session.broker} is in {f'group {theirs}' if theirs else 'no group'}")
    return event


def parse_rows(rows: Iterable[Row], applied: Offsets, by_topic: Mapping[str, Parser]) -> Parsed:
    """The events of the rows, ordered by (topic, partition, offset), without those below `applied`."""
    found = Parsed()
    for row in sorted(rows, key=lambda r: r[:3]):
        partition = str(row.partition)
        expected = found.offsets.get(row.topic, {}).get(partition)
        if expected is None:
            expected = applied.get(row.topic, {}).get(partition)
        if expected is not None and row.offset < expected:
            found.dropped += 1
            continue
        if expected is not None and row.offset > expected:
            found.gaps.append(Gap(row.topic, row.partition, expected, row.offset))
        found.offsets.setdefault(row.topic, {})[partition] = row.offset + 1
        try:
            found.events.append(_parse(by_topic, row))
        except BadRecord as error:
            found.bad.append(BadRow(row, error.rule_id, error.text))
    return found


def _parse(by_topic: Mapping[str, Parser], row: Row) -> Event:
    """Parse one event. Raises BadRecord, also for a record of another broker than its key names."""
    try:
        event = by_topic[row.topic](row.value or b"")
    except BadRecord:
        raise
    except Exception as error:  # a bug in a parser: one record must not stop the controller
        log.exception("parser failed")
        raise BadRecord("parser_failed", f"{type(error).__name__}: {error}"[:200]) from None
    if row.key is not None and isinstance(event, Heartbeat | BrokerEvent) and row.key != event.session.broker:
        raise BadRecord("key_mismatch", f"{row.key[:80]!r} speaks for {event.session.broker}")
    return event


def merge_offsets(applied: Offsets, moved: Offsets) -> dict[str, dict[str, int]]:
    """The offsets at which the next batch continues: `applied`, with the partitions in `moved` replaced."""
    result = {topic: dict(partitions) for topic, partitions in applied.items()}
    for topic, partitions in moved.items():
        result.setdefault(topic, {}).update(partitions)
    return result
