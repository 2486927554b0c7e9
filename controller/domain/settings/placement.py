"""Where bundles may be, as plain values: isolation policies, failure domains, anti-affinity groups, versions.

Names and semantics are Pulsar's (isolation policies, failure domains and anti-affinity groups of its admin interface).
Everything is off by default. `check` refuses contradictions; the configuration calls it on loading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.domain.errors import ConfigError, label, shown

_FLAGS = re.compile(r"\(\?[a-zA-Z-]*:")  # the start of a group, whose colon is not a port's
_BROKER_OR_HOST = re.compile(r"([^\s:\[\]]+|\[[0-9a-fA-F.]*:[0-9a-fA-F:.]*\])(:\d{1,5})?")


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Namespaces that have brokers of their own. All patterns are regular expressions that match the whole name.

    A broker pattern is matched against the host as in Pulsar, or against host:port when it has a colon. `primary`
    brokers serve no namespace without such a policy. `secondary` brokers serve as well while fewer than `min_available`
    primaries are available (min_limit of Pulsar's auto-failover policy min_available).
    """

    name: str
    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_available: int = 1


@dataclass(frozen=True, slots=True)
class FailureDomain:
    """Brokers that fail together, such as a rack: broker ids (host:port), or hosts for all brokers on them. An IPv6
    address is in brackets."""

    name: str
    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AntiAffinityGroup:
    """Namespaces whose bundles are spread over failure domains, where there are any, and over brokers."""

    name: str
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Hard rules of every round and of the assignment of orphans. The first matching isolation policy applies."""

    isolation: tuple[IsolationPolicy, ...] = ()
    failure_domains: tuple[FailureDomain, ...] = ()
    anti_affinity: tuple[AntiAffinityGroup, ...] = ()
    prefer_later_versions: bool = False  # only brokers of the newest version known are targets

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> PlacementSettings:
        """Settings from the JSON form of `dataclasses.asdict`; missing ones are off."""
        return cls(
            tuple(IsolationPolicy(**_tuples(one)) for one in stored.get("isolation", ())),
            tuple(FailureDomain(**_tuples(one)) for one in stored.get("failure_domains", ())),
            tuple(AntiAffinityGroup(**_tuples(one)) for one in stored.get("anti_affinity", ())),
            bool(stored.get("prefer_later_versions", False)),
        )


def check(placement: PlacementSettings) -> None:
    """Raise ConfigError for a bad pattern, and for a member of two groups or two domains."""
    for policy in placement.isolation:
        where = f"isolation policy {label(policy.name)}"
        for part, patterns in (("namespaces", policy.namespaces), ("primary", policy.primary)):
            if not patterns:
                raise ConfigError(f"{where}: {part} is empty: give at least one regular expression")
        for pattern in (*policy.namespaces, *policy.primary, *policy.secondary):
            _check_pattern(pattern, where)
        if policy.min_available < 1:
            raise ConfigError(f"{where}: min_available = {policy.min_available}: give 1 or more")
    _check_domains(placement.failure_domains)
    groups = ((group.name, group.namespaces) for group in placement.anti_affinity)
    _check_once(groups, "namespace", "anti-affinity group", re.compile(r"[^/\s]+/[^/\s]+"), "tenant/namespace")


def names_a_port(pattern: str) -> bool:
    """Whether a broker pattern is for host:port. Pulsar matches the host alone, so no pattern of its own is."""
    return ":" in _FLAGS.sub("(", pattern)


def host_of(broker: str) -> str:
    """The host of a broker id; an id without a port is the host."""
    host, colon, port = broker.rpartition(":")
    return host if colon and port.isdigit() else broker


def _check_pattern(pattern: str, where: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where}: {shown(pattern)} is no regular expression ({error}): correct it") from None


def _check_domains(domains: Iterable[FailureDomain]) -> None:
    home = _check_once(
        ((domain.name, domain.brokers) for domain in domains),
        "broker",
        "failure domain",
        _BROKER_OR_HOST,
        "host:port or host, an IPv6 address in brackets",
    )
    for broker, domain in home.items():
        of_host = home.get(host_of(broker), domain)
        if of_host != domain:
            raise ConfigError(
                f"broker {label(broker)} is in failure domain {label(domain)} and its host {label(host_of(broker))} in "
                f"{label(of_host)}: keep one"
            )


def _check_once(
    parts: Iterable[tuple[str, tuple[str, ...]]], what: str, of: str, form: re.Pattern[str], in_words: str
) -> dict[str, str]:
    """Check that each member is in one part only; returns member -> part."""
    home: dict[str, str] = {}
    for name, members in parts:
        if not members:
            raise ConfigError(f"{of} {label(name)} has no {what}s: give at least one, or leave it out")
        for member in members:
            if form.fullmatch(member) is None:
                raise ConfigError(f"{of} {label(name)}: {shown(member)} is no {what}: give {in_words}")
            if member in home:
                here, there = label(name), label(home[member])
                both = f"twice in {of} {here}" if home[member] == name else f"in {of} {there} and in {here}"
                raise ConfigError(f"{what} {label(member)} is {both}: keep one")
            home[member] = name
    return home


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
