"""Rates of topics: even, skewed to one broker, and shifted to another. Pure.

Skew that a balancer can relieve lies in several bundles: heat is divided over the bundles of the hot broker first, then
over the topics of each, so that no bundle is more than any broker can take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def topics_of(namespace: str, count: int) -> list[str]:
    """Names of topics in a namespace."""
    return [f"persistent://{namespace}/topic-{number:03}" for number in range(count)]


def even_rates(topics: Sequence[str], total_per_s: float) -> dict[str, float]:
    """The same load for every broker, roughly: rates of 0.5 to 1.5 times the mean."""
    weights = {topic: 0.5 + 0.1 * (7 * number % 11) for number, topic in enumerate(topics)}
    return {topic: total_per_s * weight / sum(weights.values()) for topic, weight in weights.items()}


def heat(rates: Mapping[str, float], hot: Mapping[str, str], extra_per_s: float) -> dict[str, float]:
    """The rates with `extra_per_s` more for the hot topics (topic -> bundle), the same for each of their bundles."""
    if not hot:
        raise ValueError("no topic is hot: choose a broker that owns some")
    topics_in = Counter(hot.values())
    return {
        topic: rate + (extra_per_s / len(topics_in) / topics_in[hot[topic]] if topic in hot else 0.0)
        for topic, rate in rates.items()
    }
