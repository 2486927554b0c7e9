"""An exchange of two bundles, where no single one fits: the larger leaves the source, the smaller comes back.

Judged like a move of the difference, but that two bundles are disrupted; both brokers end within their bounds.
(Pulsar's TransferShedder swaps as well; here source, target and both bundles are chosen together.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.policy.costs import Floats
from controller.policy.frame import Ints
from controller.policy.placement_rules import NO_GROUP
from controller.policy.reason_codes import ALLOWED
from controller.policy.steady.candidates import Held, picked
from controller.policy.steady.model import Model
from controller.policy.steady.pairs import Bounds, Candidates

PARTNERS = 4  # targets that are looked into
PAYS = 3.0  # times what a single move must bring: two bundles are disturbed for it
MOST = 32  # bundles of either side: the largest of the source, the ones of the target by size


class Swap(NamedTuple):
    """Rows of what leaves and what returns, with the target."""

    target: int
    leaving: int
    leaving_work: Floats
    returning: int
    returning_work: Floats
    gain: float


def best_swap(model: Model, held: Held, found: Candidates, targets: Ints, bounds: Bounds) -> Swap | None:
    """The best exchange with one of the targets, or None."""
    best: Swap | None = None
    leaving = _largest(model, found)
    for target in targets.tolist():
        returning = _largest(model, held.free_of(target))
        if not len(returning.bundles) or not len(leaving.bundles):
            continue
        swap = _best_with(model, leaving, returning, target, bounds)
        if swap is not None and (best is None or swap.gain > best.gain):
            best = swap
    return best


def least_loaded(model: Model, targets: Ints) -> Ints:
    """The few targets worth an exchange."""
    return np.asarray(targets[np.argsort(model.score[targets], kind="stable")[:PARTNERS]])


def _largest(model: Model, found: Candidates) -> Candidates:
    if len(found.bundles) <= MOST:
        return found
    relief = model.score[found.source] - model.without(found.source, found.work)
    rows = np.argsort(-relief, kind="stable")[:MOST]
    return picked(found, np.sort(rows))


def _best_with(model: Model, leaving: Candidates, returning: Candidates, target: int, bounds: Bounds) -> Swap | None:
    source = leaving.source
    net = leaving.work[:, None, :] - returning.work[None, :, :]  # [n x m x C]
    source_after = (model.used[source] - net * model.rate[source]).max(axis=-1)
    target_after = (model.used[target] + net * model.rate[target]).max(axis=-1)
    before = float(model.score[source])
    pays = before - source_after >= PAYS * bounds.least_relief * (
        0.75 + leaving.disruption[:, None] + returning.disruption
    )
    fits = (source_after >= bounds.source_at_least) & (target_after <= bounds.target_at_most) & pays
    fits &= ~model.avoided(leaving.bundles, np.array([target]))
    fits &= ~model.avoided(returning.bundles, np.array([source])).T
    fits &= _within_rules(model, leaving, returning, target)
    if not fits.any():
        return None
    level = model.level
    gain = (before - level) ** 2 - (source_after - level) ** 2
    gain = model.room[source] * gain + model.room[target] * (
        (model.score[target] - level) ** 2 - (target_after - level) ** 2
    )
    at = int(np.argmax(np.where(fits, gain, -np.inf)))
    row, column = divmod(at, len(returning.bundles))
    return Swap(
        target,
        int(leaving.bundles[row]),
        leaving.work[row],
        int(returning.bundles[column]),
        returning.work[column],
        float(gain.flat[at]),
    )


def _within_rules(model: Model, leaving: Candidates, returning: Candidates, target: int) -> NDArray[np.bool_]:
    """[n x m], or [1 x 1] without rules of placement: whether each may go where the other is. Two bundles of one
    anti-affinity group are not exchanged: nothing would be gained for the group."""
    tally = model.tally
    if tally is None:
        return np.ones((1, 1), bool)
    there = tally.codes(leaving.bundles, np.array([target]), exchange=True) == ALLOWED
    back = tally.codes(returning.bundles, np.array([leaving.source]), exchange=True) == ALLOWED
    one, other = tally.rules.group[leaving.bundles][:, None], tally.rules.group[returning.bundles]
    return np.asarray(there & back.T & ~((one == other) & (one != NO_GROUP)))
