"""Where to cut a bundle so that its topics' load is parted most evenly: one boundary, whatever the loads.

Who owns a bundle knows its topics; so the owner places the cut, by this rule, in agents and in the simulator alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from controller.domain.ids import Bundle


def even_cut(bundle: Bundle, load_by_hash: Mapping[int, float]) -> int | None:
    """The first hash of the upper part, strictly inside the bundle; None where no boundary parts the topics.

    `load_by_hash`: of topics inside the bundle, those of one hash added up; below 0 counts as 0. Of boundaries that are
    as good, the lowest.
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
