"""Turns the policies that a Pulsar cluster has into settings of placement. Pure.

Pulsar matches broker patterns against the host (`NamespaceIsolationPolicyImpl`), as `IsolationPolicy` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controller.domain.errors import ConfigError
from controller.domain.facts import ISOLATION, Facts
from controller.domain.settings.placement import IsolationPolicy, PlacementSettings


def placement_of(facts: Facts, configured: PlacementSettings) -> PlacementSettings:
    """The settings with Pulsar's isolation policies; those given where the cluster has none.

    Raises ConfigError for a policy that cannot be read, and where both sources have policies.
    """
    keys = sorted(key for key in facts if key.startswith(ISOLATION))
    if not keys:
        return configured
    if configured.isolation:
        raise ConfigError(
            "placement.isolation is configured here, and the Pulsar cluster has isolation policies of its own "
            f"({', '.join(key.removeprefix(ISOLATION) for key in keys)}): remove one of the two"
        )
    return replace(configured, isolation=tuple(_policy_of(key.removeprefix(ISOLATION), facts[key]) for key in keys))


def find_placement(facts: Facts, configured: PlacementSettings) -> PlacementSettings:
    """The settings with Pulsar's policies, or those given where the policies cannot be applied: no order is sent then
    (`controller.control.orders`)."""
    try:
        return placement_of(facts, configured)
    except ConfigError:
        return configured


def _policy_of(name: str, fact: Mapping[str, Any]) -> IsolationPolicy:
    lists = {key: fact.get(key) or [] for key in ("namespaces", "primary", "secondary")}
    for key, value in lists.items():
        if not isinstance(value, list) or not all(isinstance(pattern, str) for pattern in value):
            raise ConfigError(f"isolation policy {name} of the Pulsar cluster: {key} is {str(value)[:80]!r}, no list")
    failover = fact.get("auto_failover_policy") or {}
    limit = (failover.get("parameters") or {}).get("min_limit", 1) if isinstance(failover, Mapping) else 1
    if not str(limit).isdigit():
        raise ConfigError(f"isolation policy {name} of the Pulsar cluster: min_limit is {str(limit)[:80]!r}, no number")
    namespaces, primary, secondary = (tuple(value) for value in lists.values())
    return IsolationPolicy(name, namespaces, primary, secondary, max(1, int(limit)))
