"""Every request that Ballast sends to a Pulsar cluster, and the least role that Pulsar answers it for.

`docs/pulsar.md` has the same table, which a test compares; `test_secured.py` asks a real cluster.
"""

from __future__ import annotations

from typing import NamedTuple

ANY, TENANT, SUPER = "any", "tenant admin", "super-user"


class Request(NamedTuple):
    """One kind of request, with words in capitals for what differs."""

    method: str
    path: str
    role: str


REQUESTS = (
    Request("GET", "/admin/v2/brokers/CLUSTER/BROKER/ownedNamespaces", SUPER),
    Request("GET", "/admin/v2/broker-stats/load-report", SUPER),
    Request("GET", "/admin/v2/broker-stats/metrics", SUPER),
    Request("GET", "/admin/v2/broker-stats/mbeans", SUPER),
    Request("GET", "/admin/v2/broker-stats/topics", SUPER),
    Request("GET", "/admin/v2/brokers/CLUSTER", SUPER),
    Request("GET", "/admin/v2/brokers/configuration/runtime", SUPER),
    Request("GET", "/admin/v2/clusters", ANY),
    Request("GET", "/admin/v2/clusters/CLUSTER/namespaceIsolationPolicies", SUPER),
    Request("GET", "/admin/v2/clusters/CLUSTER/failureDomains", SUPER),
    Request("GET", "/admin/v2/namespaces/NAMESPACE/antiAffinity", TENANT),
    Request("GET", "/admin/v2/namespaces/NAMESPACE/bundles", TENANT),
    Request("GET", "/admin/v2/brokers/version", ANY),
    Request("GET", "/admin/v2/brokers/leaderBroker", SUPER),
    Request("GET", "/admin/v2/persistent/NAMESPACE?bundle=RANGE", TENANT),
    Request("GET", "/admin/v2/non-persistent/NAMESPACE/RANGE", TENANT),
    Request("GET", "/lookup/v2/topic/persistent/NAMESPACE/TOPIC", TENANT),
    Request("GET", "/admin/v2/brokers/configuration/values", SUPER),
    Request("POST", "/admin/v2/brokers/configuration/SETTING/VALUE", SUPER),
    Request("DELETE", "/admin/v2/brokers/configuration/SETTING", SUPER),
    Request("PUT", "/admin/v2/namespaces/NAMESPACE/RANGE/unload", SUPER),
    Request("PUT", "/admin/v2/namespaces/NAMESPACE/RANGE/split", SUPER),
)
