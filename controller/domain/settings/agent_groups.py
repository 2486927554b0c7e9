"""Agent groups, as plain values: which brokers' agents speak in Kafka topics of their own.

Kafka binds a principal to topics, never to what is said in them. With topics for each group of agents, a principal that
may write those of one group can speak for that group's brokers alone: whoever reads a topic refuses what is said there
for a broker of another group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from controller.domain.errors import ConfigError

NO_GROUP = ""  # of brokers that no group names; their agents speak in the topics without a suffix
_NAME = re.compile(r"[a-z0-9][a-z0-9\-]{0,62}")
_PATTERN = re.compile(r"[A-Za-z0-9._\-\[\]:*]{1,255}")

Members = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class AgentGroups:
    """Groups in order, each with patterns of broker ids; a broker belongs to the first group that names it.

    In a pattern `*` stands for any characters. A pattern without a colon names the host, so all brokers on it.
    """

    members: Members = ()

    @classmethod
    def of_mapping(cls, groups: Mapping[str, Sequence[str]]) -> AgentGroups:
        """From the configuration: group -> patterns."""
        return cls(tuple((name, tuple(patterns)) for name, patterns in groups.items()))

    @property
    def all(self) -> tuple[str, ...]:
        """Every group that has topics, beginning with NO_GROUP."""
        return (NO_GROUP, *(name for name, _ in self.members))

    def of(self, broker: str) -> str:
        """The broker's group; NO_GROUP when none names it."""
        return _group_of(self.members, broker) if self.members else NO_GROUP


NO_GROUPS = AgentGroups()


def check(groups: AgentGroups) -> None:
    """Raise ConfigError for a name that cannot end a topic's, a pattern that no broker id matches, and a broker that
    two groups name in full."""
    named: dict[str, str] = {}
    for group, patterns in groups.members:
        if not _NAME.fullmatch(group):
            raise ConfigError(f"group {group!r}: needed are 1 to 63 lower-case letters, digits and hyphens")
        if not patterns:
            raise ConfigError(f"group {group} names no broker: list broker ids, or patterns such as 'broker-east-*'")
        for pattern in patterns:
            if not _PATTERN.fullmatch(pattern):
                raise ConfigError(
                    f"group {group}: {pattern!r} is no broker id (host:port), no host, and no pattern of these with *"
                )
            if named.setdefault(pattern, group) != group:
                raise ConfigError(f"{pattern} is in two groups, {named[pattern]} and {group}: keep it in one")


@lru_cache(maxsize=65_536)
def _group_of(members: Members, broker: str) -> str:
    host = broker.rpartition(":")[0] or broker
    for group, patterns in members:
        if any(_matches(pattern, broker if ":" in pattern else host) for pattern in patterns):
            return group
    return NO_GROUP


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
