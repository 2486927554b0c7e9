"""The top K bundles of a broker, as the extensible manager reports and the modular manager stores them.

Source: TopKBundles. The selection is Pulsar's own quickselect (partitionSort): its comparators are not transitive, so
another sort could select other bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cmp_to_key
from typing import TypeVar

from controller.pulsar.load.bundle_stats import compare_stats
from controller.pulsar.load.load_data import NamespaceBundleStats
from controller.pulsar.system_namespaces import is_system_service_namespace, namespace_of_bundle_name

T = TypeVar("T")
Compare = Callable[[T, T], int]


def top_bundles(
    stats: Mapping[str, NamespaceBundleStats],
    k: int,
    with_policies: Collection[str] = (),
    policies_enabled: bool = False,
    excluded_namespaces: Collection[str] = (),
) -> list[tuple[str, NamespaceBundleStats]]:
    """The K busiest bundles. Surprise: they are in ascending order, the busiest last.

    `with_policies`: bundles whose namespace has an isolation policy or an anti-affinity group. They are left out unless
    `policies_enabled` (loadBalancerSheddingBundlesWithPoliciesEnabled). System namespaces are always left out.
    """
    kept = [
        (bundle, one)
        for bundle, one in stats.items()
        if not is_system_service_namespace(namespace_of_bundle_name(bundle))
        and (policies_enabled or bundle not in with_policies)
        and namespace_of_bundle_name(bundle) not in excluded_namespaces
    ]
    k = min(k, len(kept))
    if k <= 0:
        return []
    partition_sort(kept, k, lambda a, b: compare_stats(a[1], b[1]))
    return kept[:k][::-1]


def bundles_to_write(data: Mapping[str, T], k: int, brokers: int, compare: Compare[T]) -> list[str]:
    """Names of the bundles whose data the modular manager's leader writes to the store: the top K x brokers.

    K <= 0 means all of them.
    """
    entries = list(data.items())
    limit = len(entries) if k <= 0 else min(k * max(1, brokers), len(entries))
    if 0 < limit < len(entries):
        partition_sort(entries, limit, lambda a, b: compare(a[1], b[1]))
    return [name for name, _ in entries[:limit]]


def partition_sort(items: list[T], k: int, compare: Compare[T]) -> None:
    """Move the K largest items to the front of the list, in descending order (Pulsar: partitionSort)."""
    start, end, target = 0, len(items) - 1, k - 1
    while start < end:
        low, middle = _three_way(items, start, end, compare)
        if low <= target < middle:
            end = low
            break
        if target < low:
            end = low - 1
        else:
            start = middle

    # Surprise: items that equal the last pivot stay unsorted after `end`. Equal items need no order, but since the
    # comparator is not transitive they may differ from one another.
    def descending(a: T, b: T) -> int:
        return compare(b, a)

    items[:end] = sorted(items[:end], key=cmp_to_key(descending))


def _three_way(items: list[T], start: int, end: int, compare: Compare[T]) -> tuple[int, int]:
    """Partition into items larger than the pivot, equal and smaller; return where the equal ones start and end."""
    low, high, middle = start, end, start
    pivot = items[high]
    while middle <= high:
        found = compare(pivot, items[middle])
        if found < 0:
            items[low], items[middle] = items[middle], items[low]
            low, middle = low + 1, middle + 1
        elif found > 0:
            items[middle], items[high] = items[high], items[middle]
            high -= 1
        else:
            middle += 1
    return low, middle


def names(bundles: Sequence[tuple[str, NamespaceBundleStats]]) -> list[str]:
    """The names of the bundles, in the same order."""
    return [name for name, _ in bundles]
