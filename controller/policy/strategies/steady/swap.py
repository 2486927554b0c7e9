"""A swap of two bundles, where no single one fits: the larger leaves the source, the smaller comes back.

Judged like a move of the difference, but that two bundles are disrupted; both brokers end within their bounds.
(Pulsar's TransferShedder swaps as well; here source, target and both bundles are chosen together.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.policy.strategies.steady.candidates import Held
from controller.policy.strategies.steady.disruption import least_relief_of
from controller.policy.strategies.steady.model import Model, highest, in_units
from controller.policy.strategies.steady.pairs import Bounds, Candidates
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS
from controller.policy.view.snapshot import NO_GROUP, Bools
from controller.pulsar.system_namespaces import range_of_bundle_name

PARTNERS = 4  # targets that are looked into
PAYS = 2.5  # times what a single move must bring: two bundles are disturbed for it
PAYS_IF_OVERLOADED = 1.25  # off an overloaded broker
SWAPS_LISTED = 5  # in the evidence of either half
MOST = 32  # bundles of either side: the largest of the source, the ones of the target by size


class Swap(NamedTuple):
    """Rows of what leaves and what returns, with the target; what else could have left, and returned, for evidence."""

    target: int
    leaving: int
    returning: int
    leavers: list[dict[str, Any]]
    returners: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class _Judged:
    """All swaps of n bundles of the source and m of one target. Scores as fractions."""

    leaving: Candidates
    returning: Candidates
    source_after: Floats  # [n x m]
    target_after: Floats  # [n x m]
    rule: Ints  # [n x m] ALLOWED, or the index into REASONS of the first rule that the swap fails
    gain: Floats  # [n x m]

    def best(self) -> tuple[float, int, int] | None:
        """The largest gain of those that are allowed, with its row and column."""
        gains = np.where(self.rule == ALLOWED, self.gain, -np.inf)
        row, column = divmod(int(np.argmax(gains)), gains.shape[1])
        return None if gains[row, column] == -np.inf else (float(gains[row, column]), row, column)

    def swap(self, row: int, column: int, names: tuple[str, ...], brokers: tuple[str, ...]) -> Swap:
        """The swap of this row and column."""
        leaving, returning = self.leaving, self.returning
        gone, back = names[leaving.bundles[row]], names[returning.bundles[column]]
        ends = brokers[leaving.source], brokers[returning.source]
        scores = self.source_after, self.target_after
        to_target = {"target": ends[1], "in_exchange_for": back}
        to_source = {"target": ends[0], "in_exchange_for": gone}
        return Swap(
            returning.source,
            int(leaving.bundles[row]),
            int(returning.bundles[column]),
            self._best_first((slice(None), column), leaving, scores, to_target, names),
            self._best_first((row, slice(None)), returning, scores[::-1], to_source, names),
        )

    def _best_first(
        self, of: tuple[Any, Any], found: Candidates, scores: tuple[Floats, Floats], ends: dict[str, Any],
        names: tuple[str, ...],
    ) -> list[dict[str, Any]]:  # fmt: skip
        """One row or column of the swaps, the best first, with the rule that each lost by."""
        rule, gain, (source_after, target_after) = self.rule[of], self.gain[of], (score[of] for score in scores)
        best_first = np.lexsort((np.arange(len(gain)), -gain, rule != ALLOWED))[:SWAPS_LISTED]
        return [
            {
                "bundle": names[found.bundles[at]],
                **ends,
                "source_after": in_units(source_after[at]),
                "target_after": in_units(target_after[at]),
                "lost_by": "" if rule[at] == ALLOWED else REASONS[rule[at]].value,
            }
            for at in best_first.tolist()
        ]


def best_swap(model: Model, held: Held, found: Candidates, targets: Ints, bounds: Bounds) -> Swap | None:
    """The best swap with one of the targets, or None."""
    best: tuple[float, int, int, _Judged] | None = None
    leaving = _largest(model, found)
    for target in targets.tolist():
        returning = _largest(model, held.free_of(target))
        if not len(returning.bundles) or not len(leaving.bundles):
            continue
        judged = _judge(model, leaving, returning, bounds)
        at = judged.best()
        if at is not None and (best is None or at[0] > best[0]):
            best = (*at, judged)
    if best is None:
        return None
    _, row, column, judged = best
    return judged.swap(row, column, model.snapshot.bundles, model.snapshot.brokers)


def least_loaded(model: Model, targets: Ints, resource: int) -> Ints:
    """The few targets worth a swap: those that use least of what the source has least left of."""
    return np.asarray(targets[np.argsort(model.used[targets, resource], kind="stable")[:PARTNERS]])


def _largest(model: Model, found: Candidates) -> Candidates:
    if len(found.bundles) <= MOST:
        return found
    relief = model.score[found.source] - model.without(found.source, found.taken)
    rows = np.argsort(-relief, kind="stable")[:MOST]
    return found.select(np.sort(rows))


def _judge(model: Model, leaving: Candidates, returning: Candidates, bounds: Bounds) -> _Judged:
    """Judge every swap of a bundle of the source and one of the target against the model as it stands."""
    source, target = leaving.source, returning.source
    returned = returning.work[:, None, :]
    source_after = highest(_after(model.used[source], leaving.relief[:, :, None] - returned, -model.rate[source]))
    target_after = highest(_after(model.busy[target], leaving.work[:, :, None] - returned, model.rate[target]))
    before = float(model.score[source])
    variance = leaving.variance[:, None] + returning.variance
    ends = source_after + model.margin(source, variance), target_after + model.margin_at_target(target, variance)
    gain = model.gain_with_margin(source, *ends)
    overloaded = model.is_overloaded(source)  # relieved by what is likely, not only by what is sure
    brings = before - np.maximum(source_after, target_after) if overloaded else gain
    pays = PAYS_IF_OVERLOADED if overloaded else PAYS
    least = least_relief_of(pays * bounds.least, leaving.disruption[:, None], returning.disruption)
    rules = (
        (model.avoided(leaving.bundles, np.array([target])), Reason.AVOIDED),
        (model.avoided(returning.bundles, np.array([source])).T, Reason.AVOIDED),
        (_of_one_range(model, leaving, returning), Reason.RANGE_IN_USE),
        (before - source_after < least, Reason.NOT_WORTH_MOVING),
        (target_after > bounds.target_at_most, Reason.TARGET_ABOVE_MEAN),
        (brings < least, Reason.WOULD_NOT_IMPROVE),
    )
    rule = _ruled_out(model, leaving, returning, source_after.shape)
    for hit, reason in rules:
        rule = np.where((rule == ALLOWED) & hit, CODES[reason], rule)
    return _Judged(leaving, returning, source_after, target_after, rule, gain)


def _after(used: Floats, change: Floats, rate: Floats) -> Floats:
    """[C x n x m] utilisation [C] after each change of work [C x n x m]."""
    return used[:, None, None] + change * rate[:, None, None]


def _of_one_range(model: Model, leaving: Candidates, returning: Candidates) -> Bools:
    """[n x m] both have the same range, where the cluster takes one order a range: it could not be carried out."""
    if not model.snapshot.frame.one_order_a_range:
        return np.zeros((len(leaving.bundles), len(returning.bundles)), bool)
    names = model.snapshot.bundles
    gone, back = (np.array([range_of_bundle_name(names[b]) for b in c.bundles.tolist()]) for c in (leaving, returning))
    return np.asarray(gone[:, None] == back)


def _ruled_out(model: Model, leaving: Candidates, returning: Candidates, shape: tuple[int, ...]) -> Ints:
    """[n x m] the rule of placement that forbids either to go where the other is. Two bundles of one anti-affinity
    group are not swapped: nothing would be gained for the group."""
    placement_state = model.placement_state
    if placement_state is None:
        return np.full(shape, ALLOWED, np.int64)
    there = placement_state.codes(leaving.bundles, np.array([returning.source]), swap=True)
    back = placement_state.codes(returning.bundles, np.array([leaving.source]), swap=True).T
    one, other = placement_state.rules.group[leaving.bundles][:, None], placement_state.rules.group[returning.bundles]
    grouped = np.where((one == other) & (one != NO_GROUP), CODES[Reason.ANTI_AFFINITY], ALLOWED)
    return np.asarray(np.where(there != ALLOWED, there, np.where(back != ALLOWED, back, grouped)))
