"""Which broker gets a bundle that nobody owns.

The order of preference, each deciding only among those left by the one before: fewest bundles of the same namespace
(a namespace spreads over all brokers; Pulsar: loadBalancerDistributeBundlesEvenlyEnabled), then the lower band of
load score, then fewest bundles in all, then the broker id. Deterministic; no randomness to break ties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SCORE_BAND = 0.05  # scores closer than this count as equal: a noisy average must not gather every orphan


@dataclass(frozen=True, slots=True)
class Candidate:
    """An eligible broker: what it holds (grants in flight counted) and its newest score, 0..1."""

    broker: str
    namespace_bundles: int
    bundles: int
    score: float


def choose(candidates: Sequence[Candidate]) -> str | None:
    """The broker to grant to, or None when there is none."""
    if not candidates:
        return None
    best = min(candidates, key=lambda c: (c.namespace_bundles, int(c.score / SCORE_BAND), c.bundles, c.broker))
    return best.broker
