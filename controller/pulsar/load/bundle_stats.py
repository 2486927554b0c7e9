"""Sums over what a Pulsar broker says about one of its bundles, and Pulsar's rough order of such statements.

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
    """-1, 0 or 1: the first measure that differs by more than its tolerance decides.

    Surprise: not transitive, since small differences add up; what is sorted by it depends on the order it came in.
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
