"""All pairs of some bundles of one source and some targets: what each brings, and the first rule each one fails.

A pair brings what it takes off the higher of its two brokers, less what moving the bundle disrupts. So a bundle that
fits the source's excess and the target's room counts most, and few large moves come before many small ones. What is not
known well counts against a pair: its gain and its target's score are taken with a margin, so a bundle whose cost is
known comes before one that may cost anything, and no target gets many of the latter. Equal gains are ordered by bundle,
then broker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.policy import BrokerCaps
from controller.policy.placement.constraints import pairs_exceed_caps
from controller.policy.strategies.steady.disruption import least_relief_of, net_gain
from controller.policy.strategies.steady.model import Model, all_in_units
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, CODES, REASONS


class Bounds(NamedTuple):
    """What a move must keep to, as scores: the least it must bring, where it must leave both brokers at."""

    least: float
    source_at_least: float
    target_at_most: float


@dataclass(frozen=True, eq=False)
class Candidates:
    """Some bundles of one source. `relief`: what each takes off what the source is judged by."""

    source: int
    bundles: Ints  # [n]
    work: Floats  # [n x C]
    relief: Floats  # [n x C]
    disruption: Floats  # [n]


@dataclass(frozen=True, eq=False)
class Pairs:
    """n candidates x t targets; scores as fractions."""

    candidates: Candidates
    targets: Ints  # [t]
    before: float  # the source's score
    source_after: Floats  # [n]
    target_after: Floats  # [n x t]
    closed: Ints  # [n x t] or [1 x 1] what forbids the pair whatever it brings: ALLOWED, or the index into REASONS
    target_with_margin: Floats  # [n x t] the target's score with its margin
    relieved: Floats  # [n x t] how much lower the higher of the two brokers gets
    gain: Floats  # [n x t] the same by scores with their margins, and what the disruption leaves of it
    rule: Ints  # [n x t] ALLOWED, or the index into REASONS of the first rule that the pair fails; see `within`

    def within(self, bounds: Bounds) -> Pairs:
        """The same pairs, judged by these bounds."""
        least = least_relief_of(bounds.least, self.candidates.disruption)
        left_too_low = self.source_after < bounds.source_at_least
        rules = (  # the last one that a pair fails is the one that counts
            (self.relieved < least[:, None], Reason.WOULD_NOT_IMPROVE),
            (left_too_low[:, None], Reason.WOULD_NOT_IMPROVE),
            (self.target_with_margin > bounds.target_at_most, Reason.TARGET_ABOVE_MEAN),
            ((self.before - self.source_after < least)[:, None], Reason.NOT_WORTH_MOVING),
        )
        rule = np.full(self.gain.shape, ALLOWED, np.int64)
        for fails, reason in rules:
            rule = np.where(fails, CODES[reason], rule)
        return replace(self, rule=np.where(self.closed == ALLOWED, rule, self.closed))

    def best(self) -> tuple[int, int] | None:
        """The allowed pair with the largest gain, as (row, column); a bundle goes where it leaves the target lowest."""
        allowed = self.rule == ALLOWED
        if not allowed.any():
            return None
        columns = np.argmin(np.where(allowed, self.target_with_margin, np.inf), axis=1)
        rows = np.arange(len(columns))
        gain = np.where(allowed[rows, columns], self.gain[rows, columns], -np.inf)
        row = int(np.argmax(gain))
        return row, int(columns[row])

    def obstacle(self) -> Reason:
        """The rule by which the pair with the largest gain lost."""
        return REASONS[int(self.rule.flat[int(np.argmax(self.gain))])]

    def best_first(self, bundles: tuple[str, ...], brokers: tuple[str, ...], most: int) -> list[dict[str, Any]]:
        """The best pairs in order, allowed ones first, with predicted scores and the rule each lost by."""
        rank = -np.where(self.rule == ALLOWED, self.gain + 1e6, self.gain).ravel()
        count = min(most, rank.size)
        if not count:
            return []
        close = np.flatnonzero(rank <= np.partition(rank, count - 1)[count - 1])  # argpartition: CPUs differ on equals
        rows, columns = np.divmod(close[np.argsort(rank[close], kind="stable")[:count]], len(self.targets))
        return [
            {
                "bundle": bundles[bundle],
                "target": brokers[target],
                "source_after": source_after,
                "target_after": target_after,
                "lost_by": "" if code == ALLOWED else REASONS[code].value,
            }
            for bundle, target, source_after, target_after, code in zip(
                self.candidates.bundles[rows].tolist(),
                self.targets[columns].tolist(),
                all_in_units(self.source_after[rows]),
                all_in_units(self.target_after[rows, columns]),
                self.rule[rows, columns].tolist(),
                strict=True,
            )
        ]


def evaluate(model: Model, found: Candidates, targets: Ints, caps: BrokerCaps) -> Pairs:
    """Every pair against the model as it stands, not yet judged by bounds. Needs at least one bundle and one target."""
    source, before = found.source, float(model.score[found.source])
    source_after = model.without(source, found.relief)
    target_after = model.with_(targets, found.work)
    relieved = before - np.maximum(source_after[:, None], target_after)
    variance = model.variance(found.bundles)
    source_with_margin = (source_after + model.margin(source, variance))[:, None]
    target_with_margin = target_after + model.margin(targets, variance[:, None])
    gain = model.gain_with_margin(source, source_with_margin, target_with_margin)
    closed = _closed(model, found, targets, caps)
    return Pairs(
        found, targets, before, source_after, target_after, closed, target_with_margin, relieved,
        net_gain(gain, found.disruption[:, None]), closed,
    )  # fmt: skip


def _closed(model: Model, found: Candidates, targets: Ints, caps: BrokerCaps) -> Ints:
    """By which rule the bundle must not go there, whatever it brings; see `Pairs.closed`."""
    over_cap = pairs_exceed_caps(model.totals[targets], model.snapshot.fields[found.bundles], caps)
    closed = np.where(over_cap, CODES[Reason.BROKER_CAP], ALLOWED)
    closed = np.where(model.avoided(found.bundles, targets), CODES[Reason.AVOIDED], closed)
    forbidden = model.forbidden(found.bundles, targets)
    return closed if forbidden is None else np.where(forbidden == ALLOWED, closed, forbidden)
