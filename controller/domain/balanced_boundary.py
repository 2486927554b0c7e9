"""The balanced boundary: where to split a bundle so that both halves carry about the same load.

Only a bundle's owner knows the loads of its topics, so the owner chooses the boundary, in agents and in the simulator.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from itertools import accumulate

from controller.domain.ids import Bundle


def find_balanced_boundary(bundle: Bundle, load_by_hash: Mapping[int, float]) -> int | None:
    """The first hash of the upper half, strictly inside the bundle; None where no boundary separates the topics.

    `load_by_hash`: the load of the bundle's topics, summed by hash; negative loads count as 0. Of equally good
    boundaries the lowest is taken.
    """
    hashes = sorted(load_by_hash)
    loads = [load_by_hash[hash_] for hash_ in hashes]
    below = list(accumulate([load if load > 0.0 else 0.0 for load in loads]))
    first, end = max(1, bisect_right(hashes, bundle.lower)), bisect_left(hashes, bundle.upper)
    if first >= end:
        return None
    # What lies below grows with the boundary, so the best one is where it passes a half, or the last before that. Of
    # several with the same load below, the lowest counts.
    half = below[-1] / 2
    after = bisect_left(below, half, first - 1, end - 2)
    before = bisect_left(below, below[max(after, first) - 1], first - 1, after)
    return hashes[1 + min(before, after, key=lambda at: abs(half - below[at]))]
