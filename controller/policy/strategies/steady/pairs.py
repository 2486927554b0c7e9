"""All pairs of some bundles of one source and some targets: what each brings, and the first rule each one fails.

The gain of a pair is what it takes off the squared distances from the level, by capacity: so a move that fits the
source's excess and the target's room counts most, whatever sizes the two brokers have. What it disrupts is taken off.
Equal gains are ordered by bundle, then broker. The bounds of a round follow from the level of the brokers that share
work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.policy import BrokerCaps, SteadySettings
from controller.policy.placement.constraints import pairs_exceed_caps
from controller.policy.strategies.steady.disruption import least_relief_of, net_gain
from controller.policy.strategies.steady.model import Model, in_units
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS

STOP_SHARE = 0.8  # of the tolerance: a source that is within it has given enough
SLACK = 0.04  # of the level: how far below it a source may be left
FILL_SLACK = 0.15  # the same, when an idle broker is filled
SMALLEST = 0.1  # of what a move must bring otherwise: the least, off a broker that is far above


class Bounds(NamedTuple):
    """What a move must keep to, as scores; `least_relief` is what a move of usual disruption must bring."""

    source_at_least: float
    target_at_most: float
    least_relief: float


@dataclass(frozen=True, slots=True)
class RoundBounds:
    """Scores. `stop`: a source there has given enough. `loose`: for sources that are far above the level."""

    stop: float
    strict: Bounds
    loose: Bounds
    filling: Bounds
    tolerance: float

    @classmethod
    def of(cls, model: Model, steady: SteadySettings) -> RoundBounds:
        """The bounds for the brokers that take part in the model."""
        level, norm = model.level, model.norm
        stop, relief = level + STOP_SHARE * steady.tolerance * norm, steady.least_relief * norm
        return cls(
            stop,
            Bounds(level - SLACK * norm, stop, relief),
            Bounds(level - 2 * SLACK * norm, level + steady.tolerance * norm, relief),
            Bounds(level - FILL_SLACK * norm, stop, relief),
            steady.tolerance,
        )

    def for_excess(self, excess: float) -> list[Bounds]:
        """What a move must keep to; `excess` in levels. Far above the level, a little less than the ideal will do.

        A broker far above that has nothing but small bundles is better relieved in small pieces than not at all.
        """
        small = float(np.clip(2 * self.tolerance / max(excess, 1e-9), SMALLEST, 1.0))
        bounds = [self.strict, self.loose] if excess > 2 * self.tolerance else [self.strict]
        return [b._replace(least_relief=b.least_relief * small) for b in bounds]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Some bundles of one source."""

    source: int
    bundles: Ints  # [n]
    work: Floats  # [n x C]
    disruption: Floats  # [n]


@dataclass(frozen=True, eq=False)
class Pairs:
    """n candidates x t targets; scores as fractions."""

    candidates: Candidates
    targets: Ints  # [t]
    source_after: Floats  # [n]
    target_after: Floats  # [n x t]
    rule: Ints  # [n x t] ALLOWED, or the index into REASONS of the first rule that the pair fails
    gain: Floats  # [n x t]

    def best(self) -> tuple[int, int] | None:
        """The allowed pair with the largest gain, as (row, column)."""
        allowed = self.rule == ALLOWED
        if not allowed.any():
            return None
        at = int(np.argmax(np.where(allowed, self.gain, -np.inf)))
        return divmod(at, len(self.targets))

    def obstacle(self) -> Reason:
        """The rule by which the pair with the largest gain lost."""
        return REASONS[int(self.rule.flat[int(np.argmax(self.gain))])]

    def best_first(self, bundles: tuple[str, ...], brokers: tuple[str, ...], most: int) -> list[dict[str, Any]]:
        """The best pairs in order, allowed ones first, with predicted scores and the rule each lost by."""
        rank = np.where(self.rule == ALLOWED, self.gain + 1e6, self.gain).ravel()
        count = min(most, rank.size)
        if not count:
            return []
        first = np.argpartition(-rank, count - 1)[:count]
        rows = []
        for at in first[np.lexsort((first, -rank[first]))].tolist():
            row, column = divmod(at, len(self.targets))
            code = int(self.rule[row, column])
            rows.append(
                {
                    "bundle": bundles[self.candidates.bundles[row]],
                    "target": brokers[self.targets[column]],
                    "source_after": in_units(self.source_after[row]),
                    "target_after": in_units(self.target_after[row, column]),
                    "lost_by": "" if code == ALLOWED else REASONS[code].value,
                }
            )
        return rows


def evaluate(model: Model, found: Candidates, targets: Ints, bounds: Bounds, caps: BrokerCaps) -> Pairs:
    """Judge every pair against the model as it stands. Needs at least one bundle and one target."""
    source = found.source
    before = float(model.score[source])
    source_after = model.without(source, found.work)
    target_after = model.with_(targets, found.work)
    relief = before - source_after
    over_cap = pairs_exceed_caps(model.totals[targets], model.snapshot.fields[found.bundles], caps)
    rules = (
        (model.avoided(found.bundles, targets), Reason.AVOIDED),
        (over_cap, Reason.BROKER_CAP),
        ((relief < least_relief_of(bounds.least_relief, found.disruption))[:, None], Reason.NOT_WORTH_MOVING),
        (target_after > bounds.target_at_most, Reason.TARGET_ABOVE_MEAN),
        ((source_after < bounds.source_at_least)[:, None], Reason.WOULD_NOT_IMPROVE),
        (target_after > before - bounds.least_relief, Reason.WOULD_NOT_IMPROVE),
    )
    shape = target_after.shape
    rule = np.full(shape, ALLOWED, np.int64)
    for hit, reason in reversed(rules):
        rule[np.broadcast_to(hit, shape)] = CODES[reason]
    forbidden = model.forbidden(found.bundles, targets)
    if forbidden is not None:
        rule = np.where(forbidden != ALLOWED, forbidden, rule)
    return Pairs(
        found, targets, source_after, target_after, rule, _gain(model, found, targets, source_after, target_after)
    )


def _gain(model: Model, found: Candidates, targets: Ints, source_after: Floats, target_after: Floats) -> Floats:
    level, source = model.level, found.source
    at_source = (model.score[source] - level) ** 2 - (source_after - level) ** 2
    at_target = (model.score[targets] - level)[None, :] ** 2 - (target_after - level) ** 2
    gain = model.size[source] * at_source[:, None] + model.size[targets][None, :] * at_target
    return net_gain(gain, found.disruption[:, None])
