"""Bundles that an isolation policy forbids where they are: a namespace was isolated after the fact, or a secondary
broker stood in for a primary that is back. `steady` and `headroom` bring them home before anything else, within their
budget; a home is filled up to the overload threshold for it, since isolation comes before balance.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from controller.domain.decision import Reason
from controller.domain.load import BUNDLE_FIELDS
from controller.policy.view.frame import Ints
from controller.policy.view.placement_rules import PlacementTally
from controller.policy.view.reason_codes import ALLOWED, REASONS
from controller.policy.view.snapshot import Snapshot

MOST_FRUITLESS = 16  # bundles without a home that one round tries
_IN, _OUT = BUNDLE_FIELDS.index("throughput_in"), BUNDLE_FIELDS.index("throughput_out")


def bring_home(snapshot: Snapshot, send: Callable[[int], bool]) -> None:
    """Call `send` for each free misplaced bundle: those with an open home first, then smaller ones, then by name.

    `send` moves it and says whether it could. Where a small one finds no room a large one finds none either.
    """
    rules = snapshot.rules
    if rules is None:
        return
    free = np.flatnonzero(rules.misplaced(snapshot.owner) & (snapshot.bundle_block == ALLOWED))
    homes = np.count_nonzero(rules.allowed & rules.open, axis=1)
    homeless = homes[rules.kind[free]] == 0
    fruitless = 0
    traffic = snapshot.fields[free, _IN] + snapshot.fields[free, _OUT]
    for bundle in free[np.lexsort((traffic, homeless))].tolist():
        fruitless += not send(bundle)
        if fruitless >= MOST_FRUITLESS:
            return


def home_for(
    tally: PlacementTally, bundle: int, targets: Ints, after: NDArray[np.float64] | Ints, ceiling: float
) -> tuple[int | None, Reason]:
    """The target (of those given) that the bundle leaves least loaded, or None with what stands in the way.

    `after`: [t] each target's score with the bundle; none is left above `ceiling`.
    """
    if not len(targets):
        return None, Reason.NO_TARGET
    codes = tally.codes(np.array([bundle]), targets)[0]
    open_ = np.flatnonzero(codes == ALLOWED)
    if not len(open_):
        found, counts = np.unique(codes, return_counts=True)
        return None, REASONS[int(found[np.argmax(counts)])]
    best = int(open_[np.argmin(after[open_])])
    if after[best] > ceiling:
        return None, Reason.TARGET_ABOVE_MEAN
    return int(targets[best]), Reason.MISPLACED
