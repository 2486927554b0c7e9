"""Which brokers may receive a bundle: Pulsar's broker filters as functions that narrow down the candidates in order.

Sources: BrokerLoadManagerClassFilter, BrokerMaxTopicCountFilter, BrokerVersionFilter, AntiAffinityGroupPolicyFilter,
BrokerIsolationPoliciesFilter and LoadManagerShared. Broker ids are host:port; isolation policies match only the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.domain.errors import BadRecord, BallastError, shown

MAX_VERSION_CHARS = 256
DEFAULT_DOMAIN = "default"  # of a broker that is in no failure domain
Filter = Callable[[list[str]], list[str]]
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII,
)


class BadBrokerVersion(BadRecord):
    """The version is missing or is no semantic version (Pulsar: BrokerFilterBadVersionException)."""

    def __init__(self, broker: str, version: str | None) -> None:
        super().__init__("broker_version", f"{shown(version)} of broker {broker!r} is no semantic version like 4.0.8")


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Regular expressions for hosts. `min_limit`: if fewer primaries are available, the secondaries serve as well.

    Pulsar ignores usage_threshold here, and so does this class.
    """

    primary: tuple[str, ...]
    secondary: tuple[str, ...] = ()
    min_limit: int = 1


def by_load_manager_class(classes: Mapping[str, str | None], local_class: str) -> list[str]:
    """Brokers that run the same load manager. A broker that does not report its load manager is left out."""
    return [broker for broker, name in classes.items() if name == local_class]


def by_max_topics(candidates: Iterable[str], topics: Mapping[str, int] | None, limit: int) -> list[str]:
    """The extensible manager's filter: brokers below the limit. Without data a broker passes; without a store, all."""
    return [broker for broker in candidates if topics is None or topics.get(broker, 0) < limit]


def by_max_topics_modular(candidates: Iterable[str], topics: Mapping[str, int], limit: int) -> list[str]:
    """The modular manager's filter: brokers at or below the limit, including preallocated topics; all if none is."""
    all_of_them = list(candidates)
    return [broker for broker in all_of_them if topics.get(broker, 0) <= limit] or all_of_them


def by_version(versions: Mapping[str, str | None], prefer_later: bool) -> list[str]:
    """Brokers of the newest version. Raises BadBrokerVersion.

    Pulsar compares build metadata to find the newest version, then keeps all versions that are equal without it. So
    versions that differ only in build metadata stay together, and this function can ignore it.
    """
    if not prefer_later or not versions:
        return list(versions)
    ranked = {broker: _precedence(broker, version) for broker, version in versions.items()}
    newest = max(ranked.values())
    return [broker for broker, rank in ranked.items() if rank == newest]


def by_isolation(
    available: Sequence[str],
    policy: IsolationPolicy | None,
    others: Iterable[IsolationPolicy] = (),
    supports_domain: Callable[[str], bool] = lambda broker: True,
    matches: Callable[[str, tuple[str, ...]], bool] | None = None,
) -> list[str]:
    """With a policy: its primaries, plus its secondaries if there are too few. Shared brokers never qualify.

    Without a policy: the shared brokers, which are primary in none of `others`, if they take topics of that domain.
    `matches`: whether one of the expressions matches the broker, in place of Pulsar's rule.
    """
    matches = matches or _matches
    if policy is None:
        taken = tuple(pattern for other in others for pattern in other.primary)
        return [broker for broker in available if not matches(broker, taken) and supports_domain(broker)]
    primaries = [broker for broker in available if matches(broker, policy.primary)]
    if len(primaries) >= policy.min_limit:
        return primaries
    spare = [broker for broker in available if broker not in primaries and matches(broker, policy.secondary)]
    return primaries + spare


def by_anti_affinity(
    candidates: Iterable[str], counts: Mapping[str, int], domains: Mapping[str, Collection[str]] | None = None
) -> list[str]:
    """Brokers with the fewest members of the group, within the failure domains that have the fewest.

    `counts`: namespaces of the group (modular) or their Owned bundles (extensible) by broker; a missing broker has 0.
    `domains`: domain -> its brokers. None: failure domains are off.
    """
    kept = list(candidates)
    if domains is not None and kept:
        home = {broker: name for name, brokers in domains.items() for broker in brokers}
        held = dict.fromkeys((home.get(broker, DEFAULT_DOMAIN) for broker in kept), 0)
        for broker, count in counts.items():
            name = home.get(broker, DEFAULT_DOMAIN)
            if name in held:
                held[name] += count
        least = min(held.values())
        kept = [broker for broker in kept if held[home.get(broker, DEFAULT_DOMAIN)] == least]
    return by_least_bundles(kept, counts)


def by_least_bundles(candidates: Iterable[str], counts: Mapping[str, int]) -> list[str]:
    """Brokers with the smallest count (removeMostServicingBrokersForNamespace). A missing broker has 0."""
    kept = list(candidates)
    least = min((counts.get(broker, 0) for broker in kept), default=0)
    return [broker for broker in kept if counts.get(broker, 0) == least]


def anti_affinity_allows_unload(current: str, candidates: Collection[str], counts: Mapping[str, int]) -> bool:
    """Whether it helps to move a bundle of a group (LoadManagerShared.shouldAntiAffinityNamespaceUnload).

    It does if some candidate has none or fewer than the current broker, or if the candidates' counts differ. Without
    counts nothing speaks against a move. Surprise: a current broker that is no candidate counts as having none.
    """
    if not counts:
        return True
    others = [counts.get(broker, 0) for broker in candidates]
    least = min(others, default=1)
    here = counts.get(current, 0) if current in candidates else 0
    return least == 0 or here > least or len(set(others)) > 1


def eligible(candidates: Iterable[str], pipeline: Iterable[Filter]) -> list[str]:
    """The extensible manager's selection: filters that fail are skipped; the rest decide, even if no broker is left."""
    kept = list(candidates)
    for one in pipeline:
        try:
            kept = one(kept)
        except BallastError:
            continue
    return kept


def _matches(broker: str, patterns: Iterable[str]) -> bool:
    host = broker.rpartition(":")[0] if re.search(r":\d+$", broker) else broker
    return any(re.fullmatch(pattern, host) for pattern in patterns)


Rank = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def _precedence(broker: str, version: str | None) -> Rank:
    """A sort key for semantic versions: a pre-release sorts before its release, numbers before words."""
    found = _VERSION.fullmatch(version or "") if len(version or "") <= MAX_VERSION_CHARS else None
    if found is None:
        raise BadBrokerVersion(broker, version)
    parts = [part for part in (found[4] or "").split(".") if part]
    words = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
    return int(found[1]), int(found[2]), int(found[3]), not words, words
