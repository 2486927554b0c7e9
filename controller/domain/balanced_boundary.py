"""The balanced boundary: where to split a bundle so that both halves carry about the same load.

Only a bundle's owner knows the loads of its topics, so the owner chooses the boundary, in agents and in the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from controller.domain.ids import Bundle


def find_balanced_boundary(bundle: Bundle, load_by_hash: Mapping[int, float]) -> int | None:
    """The first hash of the upper half, strictly inside the bundle; None where no boundary separates the topics.

    `load_by_hash`: the load of the bundle's topics, summed by hash; negative loads count as 0. Of equally good
    boundaries the lowest is taken.
    """
    total = sum(max(load, 0.0) for load in load_by_hash.values())
    best: tuple[float, int] | None = None
    below = 0.0
    for here, after in pairwise(sorted(load_by_hash)):
        below += max(load_by_hash[here], 0.0)
        candidate = (abs(total - 2 * below), after)
        if bundle.lower < after < bundle.upper and (best is None or candidate < best):
            best = candidate
    return best[1] if best else None
