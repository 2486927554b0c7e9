"""Which of its own bundles an agent proposes to split. Pure; `split_boundary` says where.

The agent sees its bundles first-hand, so it proposes; the controller decides. Invariant: a bundle is proposed only
after it was too big in `HITS` consecutive reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.agent.reports.split_boundary import choose_boundary
from controller.brokers.runtime import BundleStats
from controller.domain.decision import Reason
from controller.domain.ids import Bundle

HITS = 2
AGAIN_AFTER = 12  # reports (a minute at 5 s) before a proposal is repeated


@dataclass(frozen=True, slots=True)
class Proposal:
    """Split `bundle` at `boundary`, because of `reason`."""

    bundle: Bundle
    boundary: int
    reason: Reason


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
                boundary = choose_boundary(bundle, topic_loads(bundle), reason) if topic_loads else bundle.middle()
                if boundary is not None:
                    proposals.append(Proposal(bundle, boundary, reason))
        self._hits = hits
        return proposals
