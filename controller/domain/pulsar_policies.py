"""Turns the policies that a Pulsar cluster has into settings of placement. Pure.

Each kind of rule comes from one source: Pulsar's, or the section `placement` of the configuration. Pulsar matches
broker patterns against the host (`NamespaceIsolationPolicyImpl`), as `IsolationPolicy` does, and compares names of
anti-affinity groups without case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.domain.errors import ConfigError, label, shown
from controller.domain.facts import ANTI_AFFINITY, FAILURE_DOMAIN, ISOLATION, Facts
from controller.domain.settings.placement import (
    AntiAffinityGroup,
    FailureDomain,
    IsolationPolicy,
    PlacementSettings,
    check,
)
from controller.domain.state import ClusterState

_LIMIT = re.compile(r"[0-9]{1,9}")
_IN_WORDS = {
    "isolation": "isolation policies",
    "failure_domains": "failure domains",
    "anti_affinity": "anti-affinity groups",
}


def placement_of(facts: Facts, configured: PlacementSettings) -> PlacementSettings:
    """The settings with Pulsar's policies; those given where the cluster has none.

    Raises ConfigError for a policy that cannot be applied, and where both sources have rules of one kind.
    """
    rules: dict[str, tuple[Any, ...]] = {
        "isolation": tuple(_policy_of(name, fact) for name, fact in _named(facts, ISOLATION)),
        "failure_domains": _domains_of(facts),
        "anti_affinity": _groups_of(facts),
    }
    found: dict[str, Any] = {kind: given for kind, given in rules.items() if given}
    for kind, given in found.items():
        if getattr(configured, kind):
            raise ConfigError(
                f"placement.{kind} is configured here, and the Pulsar cluster has {_IN_WORDS[kind]} of its own "
                f"({label(', '.join(rule.name for rule in given))}): remove one of the two"
            )
    if not found:
        return configured
    try:
        check(PlacementSettings(**found))
    except ConfigError as error:
        raise ConfigError(f"rules of the Pulsar cluster: {error}") from None
    return replace(configured, **found)


def find_placement(facts: Facts, configured: PlacementSettings) -> tuple[PlacementSettings, str | None]:
    """The settings with Pulsar's policies and None, or those given and why the policies cannot be applied: no order is
    sent then (`controller.control.orders`)."""
    try:
        return placement_of(facts, configured), None
    except ConfigError as error:
        return configured, str(error)


@dataclass(slots=True)
class PlacementInForce:
    """The rules that hold now. Computed anew only when the journal has another policy, as there may be thousands."""

    _policy_seq: int | None = None
    _configured: PlacementSettings = field(default_factory=PlacementSettings)
    _settings: PlacementSettings = field(default_factory=PlacementSettings)
    _problem: str | None = None

    def settings(self, state: ClusterState, configured: PlacementSettings) -> PlacementSettings:
        """The rules; those configured where the cluster's cannot be applied."""
        self._refresh(state, configured)
        return self._settings

    def find_problem(self, state: ClusterState, configured: PlacementSettings) -> str | None:
        """Why the cluster's rules cannot be applied, or None."""
        self._refresh(state, configured)
        return self._problem

    def _refresh(self, state: ClusterState, configured: PlacementSettings) -> None:
        if self._policy_seq == state.policy_seq and self._configured is configured:
            return
        self._policy_seq, self._configured = state.policy_seq, configured
        self._settings, self._problem = find_placement(state.observed.facts, configured)


def _named(facts: Facts, prefix: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(key.removeprefix(prefix), facts[key]) for key in sorted(facts) if key.startswith(prefix)]


def _domains_of(facts: Facts) -> tuple[FailureDomain, ...]:
    """The domains that have brokers, if Pulsar uses them (`failureDomainsEnabled`)."""
    found = ((name, fact) for name, fact in _named(facts, FAILURE_DOMAIN) if fact.get("enabled"))
    domains = [FailureDomain(name, _texts(f"failure domain {label(name)}", "brokers", fact)) for name, fact in found]
    return tuple(domain for domain in domains if domain.brokers)


def _groups_of(facts: Facts) -> tuple[AntiAffinityGroup, ...]:
    members: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for namespace, fact in _named(facts, ANTI_AFFINITY):
        group = str(fact.get("group"))
        names.setdefault(group.lower(), group)
        members.setdefault(group.lower(), []).append(namespace)
    return tuple(AntiAffinityGroup(names[key], tuple(members[key])) for key in sorted(members))


def _policy_of(name: str, fact: Mapping[str, Any]) -> IsolationPolicy:
    about = f"isolation policy {label(name)}"
    namespaces, primary, secondary = (_texts(about, key, fact) for key in ("namespaces", "primary", "secondary"))
    limit = _within(_within(fact, "auto_failover_policy"), "parameters").get("min_limit", 1)
    if not isinstance(limit, int | str) or not _LIMIT.fullmatch(str(limit)):
        raise ConfigError(f"{about} of the Pulsar cluster: min_limit is {shown(limit)}, no number")
    return IsolationPolicy(name, namespaces, primary, secondary, max(1, int(limit)))


def _within(fact: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fact.get(key)
    return value if isinstance(value, Mapping) else {}


def _texts(about: str, key: str, fact: Mapping[str, Any]) -> tuple[str, ...]:
    value = fact.get(key) or []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ConfigError(f"{about} of the Pulsar cluster: {key} is {shown(value)}, no list")
    return tuple(value)
