"""Facts of a cluster that its figures depend on: name, load manager, statistics period, who else balances.

Brokers' runtime configuration has everything, including secrets: only the keys named here are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.outcomes import Answer, Outcome
from controller.domain.errors import ConfigError, label
from controller.domain.facts import MUST_BE_OFF

RUNTIME_PATH = "/admin/v2/brokers/configuration/runtime"
CLUSTERS_PATH = "/admin/v2/clusters"
KEPT = frozenset(
    {
        "clusterName",
        "loadManagerClassName",
        "loadBalancerEnabled",
        *MUST_BE_OFF.values(),
        "statsUpdateFrequencyInSecs",
        "namespaceBundleUnloadingTimeoutMs",
        "loadBalancerServiceUnitTableViewSyncer",
        "failureDomainsEnabled",
        "loadBalancerSheddingExcludedNamespaces",
    }
)
MOST_VALUE, MOST_LIST = 200, 20_000  # characters of a value that are kept; of the list of excluded namespaces
DEFAULT_STATS_PERIOD_S = 60.0  # Pulsar's
MOST_STATS_PERIOD_S = 86_400.0
NO_CLUSTER = "global"  # in the list of clusters, and none


class Manager(str, Enum):
    """The load manager of a broker."""

    MODULAR = "modular"
    EXTENSIBLE = "extensible"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class RuntimeConfiguration:
    """The kept keys of a broker's configuration; empty where the role may not read it."""

    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def manager(self) -> Manager | None:
        """The load manager; None if it is not known."""
        name = self.values.get("loadManagerClassName")
        if name is None:
            return None
        known = {"ModularLoadManagerImpl": Manager.MODULAR, "ExtensibleLoadManagerImpl": Manager.EXTENSIBLE}
        return known.get(name.rpartition(".")[2], Manager.OTHER)

    @property
    def stats_period_s(self) -> float:
        """How often a broker computes its rates anew."""
        try:
            period = float(self.values["statsUpdateFrequencyInSecs"])
        except (KeyError, ValueError):
            return DEFAULT_STATS_PERIOD_S
        known = math.isfinite(period) and 0 < period <= MOST_STATS_PERIOD_S
        return period if known else DEFAULT_STATS_PERIOD_S

    @property
    def uses_failure_domains(self) -> bool:
        """Whether Pulsar spreads anti-affinity groups over failure domains, too."""
        return self.values.get("failureDomainsEnabled", "").lower() == "true"

    @property
    def shedding_excluded(self) -> tuple[str, ...]:
        """The namespaces that Pulsar's shedding leaves alone, sorted (a setting of later versions than 4.0)."""
        names = self.values.get("loadBalancerSheddingExcludedNamespaces", "").strip("[] ").split(",")
        return tuple(sorted({name.strip() for name in names if name.count("/") == 1}))

    @property
    def balances_itself(self) -> tuple[str, ...]:
        """What Pulsar does by itself: the switches that are on."""
        if self.values.get("loadBalancerEnabled", "").lower() == "false":
            return ()
        return tuple(name for name in MUST_BE_OFF.values() if self.values.get(name, "").lower() == "true")


def parse_runtime_configuration(answer: Answer) -> RuntimeConfiguration:
    """The kept keys of an answer. Raises CallFailed."""
    document = answer.mapping()
    kept = {k: document[k] for k in KEPT & document.keys() if document[k] is not None}
    lists = {k: ",".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in kept.items()}
    return RuntimeConfiguration({k: v[: MOST_LIST if "Namespaces" in k else MOST_VALUE] for k, v in lists.items()})


async def read_runtime_configuration(admin: PulsarAdmin, at: str | None = None) -> RuntimeConfiguration:
    """Of the broker at an address, or of whoever answers at the service URLs. Raises CallFailed."""
    return parse_runtime_configuration(await admin.get(RUNTIME_PATH, at))


async def read_cluster_name(admin: PulsarAdmin, configuration: RuntimeConfiguration) -> str:
    """The name as a broker is configured, as configured here, or of the only cluster there is.

    Raises CallFailed, and ConfigError if brokers and configuration name different ones: it is the wrong cluster.
    """
    here, there = admin.settings.cluster, configuration.values.get("clusterName")
    if here and there and here != there:
        urls = ", ".join(admin.settings.service_urls)
        raise ConfigError(
            f"pulsar_cluster.cluster is {here}, and brokers at {urls} call their cluster {label(there)}: correct the "
            "name, or --service-url (pulsar_cluster.service_urls)"
        )
    if here or there:
        return here or str(there)
    answer = await admin.get(CLUSTERS_PATH)
    names = sorted(str(name) for name in answer.listing() if name != NO_CLUSTER)
    if len(names) == 1:
        return names[0]
    detail = (
        f"it knows the clusters {label(', '.join(names)) or 'none'}: set pulsar_cluster.cluster to the name of this one"
    )
    raise answer.failure(Outcome.BAD_ANSWER, detail)
