"""Selects the bundles that the leader of the modular manager splits: BundleSplitterTask.

The task uses long-term averages. It has no hysteresis and no limit per cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from controller.domain.errors import BallastError
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.bundle_stats import sessions
from controller.pulsar.load.load_data import MIB, NamespaceBundleStats
from controller.pulsar.system_namespaces import namespace_of_bundle_name


@dataclass(frozen=True, slots=True)
class LongTerm:
    """A bundle's long-term averages, in + out: messages/s and bytes/s."""

    msg_rate: float = 0.0
    throughput: float = 0.0


def checks_splits(knobs: PulsarKnobs, brokers: int) -> bool:
    """Whether the modular manager looks for splits at all: enabled, and more than one broker known."""
    return knobs.load_balancer_auto_bundle_split_enabled and brokers > 1


def find_bundles_to_split(
    last_stats: Iterable[tuple[str, Mapping[str, NamespaceBundleStats]]],
    long_term: Mapping[str, LongTerm],
    knobs: PulsarKnobs,
    namespace_bundles: Callable[[str], int],
) -> dict[str, str]:
    """Bundle -> its broker, in the order found.

    `last_stats`: (broker, its bundles). `namespace_bundles` raises BallastError where Pulsar's lookup would fail; such
    a bundle is not split.
    """
    found: dict[str, str] = {}
    planned: dict[str, int] = {}
    for broker, bundles in last_stats:
        for bundle, stats in bundles.items():
            # without long-term data the rates count as 0, whatever the last report contained
            if stats.topics < 2 or not _too_big(stats, long_term.get(bundle, LongTerm()), knobs):
                continue
            namespace = namespace_of_bundle_name(bundle)
            try:
                count = namespace_bundles(namespace)
            except BallastError:
                continue
            if count + planned.get(namespace, 0) < knobs.load_balancer_namespace_maximum_bundles:
                planned[namespace] = planned.get(namespace, 0) + 1
                found[bundle] = broker
    return found


def _too_big(stats: NamespaceBundleStats, average: LongTerm, knobs: PulsarKnobs) -> bool:
    max_sessions = knobs.load_balancer_namespace_bundle_max_sessions
    return (
        stats.topics > knobs.load_balancer_namespace_bundle_max_topics
        or (max_sessions > 0 and sessions(stats) > max_sessions)
        or average.msg_rate > knobs.load_balancer_namespace_bundle_max_msg_rate
        or average.throughput > knobs.load_balancer_namespace_bundle_max_bandwidth_mbytes * MIB
    )
