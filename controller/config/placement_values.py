"""The hard rules of placement from configuration values. Apart from other values: every start checks these rules."""

from __future__ import annotations

from controller.config.settings import Settings
from controller.domain.settings.placement import (
    AntiAffinityGroup,
    FailureDomain,
    IsolationPolicy,
    PlacementSettings,
)


def placement_settings(settings: Settings) -> PlacementSettings:
    """The hard rules of placement."""
    p = settings.placement
    domains = p.failure_domains if p.failure_domains_enabled else {}
    return PlacementSettings(
        isolation=tuple(
            IsolationPolicy(
                name, rule["namespaces"], rule["primary"], rule.get("secondary", ()), rule.get("min_available", 1)
            )
            for name, rule in p.isolation.items()
        ),
        failure_domains=tuple(FailureDomain(name, brokers) for name, brokers in domains.items()),
        anti_affinity=tuple(AntiAffinityGroup(name, spaces) for name, spaces in p.anti_affinity.items()),
        prefer_later_versions=p.prefer_later_versions,
    )
