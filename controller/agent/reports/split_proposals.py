"""Which of its own bundles an agent proposes to split, and at which boundary. Pure.

The agent sees its bundles first-hand, so it proposes; the controller decides. Invariant: a bundle is proposed only
after it was too big in `HITS` consecutive reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.brokers.runtime import BundleStats
from controller.domain.balanced_boundary import find_balanced_boundary
from controller.domain.decision import Reason
from controller.domain.ids import Bundle, topic_hash

HITS = 2
AGAIN_AFTER = 12  # reports (a minute at 5 s) before a proposal is repeated


@dataclass(frozen=True, slots=True)
class Proposal:
    """Split `bundle` at `boundary`, because of `reason`."""

    bundle: Bundle
    boundary: int
    reason: Reason


def boundary_by_load(bundle: Bundle, loads: Mapping[str, float]) -> int | None:
    """The boundary that splits the topics' load most evenly: the first hash of the upper half; None without one.

    Where no topic has any load, all topics count alike.
    """
    if not any(load > 0 for load in loads.values()):
        loads = dict.fromkeys(loads, 1.0)
    by_hash: dict[int, float] = {}
    for topic, load in loads.items():
        hash_ = topic_hash(topic)
        if bundle.contains(hash_):
            by_hash[hash_] = by_hash.get(hash_, 0.0) + max(load, 0.0)
    return find_balanced_boundary(bundle, by_hash)


def _boundary(bundle: Bundle, loads: Mapping[str, float], reason: Reason) -> int | None:
    """A bundle with too many topics is split by their number, whatever their load."""
    return boundary_by_load(bundle, dict.fromkeys(loads, 1.0) if reason is Reason.SPLIT_TOPICS else loads)


class SplitWatch:
    """Counts in how many consecutive reports each bundle has been too big."""

    def __init__(self, oversized: Callable[[BundleStats], Reason | None]) -> None:
        """`oversized` names the limit that a bundle exceeds, or None (controller/policy/split.py)."""
        self._oversized = oversized
        self._hits: dict[Bundle, int] = {}

    def observe(
        self,
        bundles: Mapping[Bundle, BundleStats],
        topic_loads: Callable[[Bundle], Mapping[str, float]] | None = None,
    ) -> list[Proposal]:
        """Process one report's bundles; `topic_loads`: the load per topic of a bundle, where the runtime knows it."""
        hits: dict[Bundle, int] = {}
        proposals = []
        for bundle, stats in bundles.items():
            reason = self._oversized(stats)
            if reason is None or stats.topics <= 1 or bundle.upper - bundle.lower <= 1:
                continue
            hits[bundle] = self._hits.get(bundle, 0) + 1
            if hits[bundle] >= HITS and (hits[bundle] - HITS) % AGAIN_AFTER == 0:
                boundary = _boundary(bundle, topic_loads(bundle), reason) if topic_loads else bundle.middle()
                if boundary is not None:
                    proposals.append(Proposal(bundle, boundary, reason))
        self._hits = hits
        return proposals
