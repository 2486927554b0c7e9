"""Whether the Pulsar cluster that answers is the one that a journal is about, before anything is written to either.

Clusters often have the same name, so equal names prove nothing. Brokers come and go, so one that is known is enough.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.errors import ConfigError, few_text, label
from controller.domain.state import METADATA, ClusterState


def find_another_cluster(
    state: ClusterState, cluster: str, brokers: Iterable[str] | None, *, by_living: bool = True
) -> str | None:
    """Why the cluster is not the journal's, with the names on both sides; None if nothing speaks against it.

    `brokers`: those that the cluster lists; None: only its name counts. `by_living`: if any broker lives according to
    the journal, only the living ones count. One that is gone may be of a cluster that was registered by mistake.
    """
    adoption = state.observed.adoption
    if adoption is not None and adoption.is_of_another(cluster):
        return f"the journal's Pulsar cluster is {label(adoption.cluster)}, not {label(cluster)}"
    if brokers is None:
        return None
    listed = sorted(brokers)
    known = sorted(broker.id for broker in state.brokers.values() if broker.authority == METADATA)
    living = sorted(state.living & set(known)) if by_living else []
    counted = living or known
    if not counted or not set(counted).isdisjoint(listed):
        return None
    ours = f"the journal's live brokers are {few_text(living)}" if living else f"the journal knows {few_text(known)}"
    return f"the Pulsar cluster {label(cluster)} has the brokers {few_text(listed)}, and {ours}: none of these"


def check_cluster(state: ClusterState, cluster: str, brokers: Iterable[str] | None) -> None:
    """Raise ConfigError where the journal is about another Pulsar cluster: this one's brokers would be registered
    beside that one's, and could then be adopted in its place."""
    found = find_another_cluster(state, cluster, brokers, by_living=False)
    if found is not None:
        raise ConfigError(
            f"{found}; nothing was registered: give the cluster's own pulsar_cluster.service_urls, or tables and "
            "topics of its own. If all its brokers have other ids now, start once with --new-brokers"
        )
