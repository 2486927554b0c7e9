"""Names that Pulsar keeps for itself, and the parts of a bundle's name. Texts: a name may have any form.

Source: NamespaceService (HEARTBEAT_NAMESPACE_PATTERN, _V2, SLA_NAMESPACE_PATTERN), NamespaceName.SYSTEM_NAMESPACE.
"""

from __future__ import annotations

import re

SYSTEM_NAMESPACE = "pulsar/system"
_SLA = re.compile(r"sla-monitor/[^/]+/[^:/]+:\d+")
_HEARTBEAT = re.compile(r"pulsar/(?:[^/]+/)?[^:/]+:\d+")


def namespace_of_bundle_name(bundle: str) -> str:
    """All before the last slash; the whole text where there is none."""
    return bundle.rpartition("/")[0] or bundle


def range_of_bundle_name(bundle: str) -> str:
    """All behind the last slash."""
    return bundle.rpartition("/")[2]


def is_sla_or_heartbeat(namespace: str) -> bool:
    """Namespaces that belong to one broker: nothing may move their bundles."""
    return _SLA.fullmatch(namespace) is not None or _HEARTBEAT.fullmatch(namespace) is not None


def is_system_service_namespace(namespace: str) -> bool:
    """The brokers' own, the system namespace included."""
    return namespace == SYSTEM_NAMESPACE or is_sla_or_heartbeat(namespace)
