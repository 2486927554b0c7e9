"""The namespaces that Pulsar reserves for itself, and the parts of a bundle's name. Names are strings of any form.

Source: NamespaceService (HEARTBEAT_NAMESPACE_PATTERN, _V2, SLA_NAMESPACE_PATTERN), NamespaceName.SYSTEM_NAMESPACE.
"""

from __future__ import annotations

import re

SYSTEM_NAMESPACE = "pulsar/system"
_SLA = re.compile(r"sla-monitor/[^/]+/[^:/]+:\d+")
_HEARTBEAT = re.compile(r"pulsar/(?:[^/]+/)?[^:/]+:\d+")


def namespace_of_bundle_name(bundle: str) -> str:
    """Everything before the last slash; the whole name without one."""
    return bundle.rpartition("/")[0] or bundle


def range_of_bundle_name(bundle: str) -> str:
    """Everything after the last slash."""
    return bundle.rpartition("/")[2]


def is_sla_or_heartbeat(namespace: str) -> bool:
    """Whether the namespace belongs to one broker, so that its bundles must never move."""
    return _SLA.fullmatch(namespace) is not None or _HEARTBEAT.fullmatch(namespace) is not None


def is_system_service_namespace(namespace: str) -> bool:
    """Whether the namespace is the system namespace or one that belongs to a broker."""
    return namespace == SYSTEM_NAMESPACE or is_sla_or_heartbeat(namespace)
