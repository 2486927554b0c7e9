"""Sums over a Pulsar broker's statistics of one bundle, and Pulsar's approximate order of such statistics.

Source: NamespaceBundleStats.
"""

from __future__ import annotations

from controller.pulsar.load.load_data import NamespaceBundleStats

_BYTES_TOLERANCE = 100_000.0  # bytes/s, and bytes of cache
_RATE_TOLERANCE = 100.0  # messages/s in + out
_COUNT_TOLERANCE = 500  # topics + consumers + producers


def msg_rate(stats: NamespaceBundleStats) -> float:
    """Messages/s in + out."""
    return stats.msg_rate_in + stats.msg_rate_out


def throughput(stats: NamespaceBundleStats) -> float:
    """Bytes/s in + out."""
    return stats.msg_throughput_in + stats.msg_throughput_out


def sessions(stats: NamespaceBundleStats) -> int:
    """Consumers + producers."""
    return stats.consumer_count + stats.producer_count


def compare_stats(a: NamespaceBundleStats, b: NamespaceBundleStats) -> int:
    """-1, 0 or 1. The first measure that differs by more than its tolerance decides.

    Surprise: the order is not transitive, since small differences add up, so sorting by it depends on the input order.
    """
    for left, right, tolerance in (
        (a.msg_throughput_in, b.msg_throughput_in, _BYTES_TOLERANCE),
        (a.msg_throughput_out, b.msg_throughput_out, _BYTES_TOLERANCE),
        (msg_rate(a), msg_rate(b), _RATE_TOLERANCE),
        (a.topics + sessions(a), b.topics + sessions(b), _COUNT_TOLERANCE),
        (a.cache_size, b.cache_size, _BYTES_TOLERANCE),
    ):
        if abs(left - right) > tolerance:
            return -1 if left < right else 1
    return 0
