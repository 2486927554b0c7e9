"""All pairs of some bundles of one source and some targets: what each brings, and the first rule each one fails.

A pair brings what it takes off the higher of its two brokers, less what moving the bundle disrupts. So a bundle that
fits the source's excess and the target's room counts most, and few large moves come before many small ones. Equal gains
are ordered by bundle, then broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.policy import BrokerCaps
from controller.policy.placement.constraints import pairs_exceed_caps
from controller.policy.strategies.steady.disruption import least_relief_of, net_gain
from controller.policy.strategies.steady.model import Model, in_units
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
    source_after: Floats  # [n]
    target_after: Floats  # [n x t]
    rule: Ints  # [n x t] ALLOWED, or the index into REASONS of the first rule that the pair fails
    gain: Floats  # [n x t]

    def best(self) -> tuple[int, int] | None:
        """The allowed pair with the largest gain, as (row, column); a bundle goes where it leaves the target lowest."""
        allowed = self.rule == ALLOWED
        if not allowed.any():
            return None
        columns = np.argmin(np.where(allowed, self.target_after, np.inf), axis=1)
        rows = np.arange(len(columns))
        gain = np.where(allowed[rows, columns], self.gain[rows, columns], -np.inf)
        row = int(np.argmax(gain))
        return row, int(columns[row])

    def obstacle(self) -> Reason:
        """The rule by which the pair with the largest gain lost."""
        return REASONS[int(self.rule.flat[int(np.argmax(self.gain))])]

    def best_first(self, bundles: tuple[str, ...], brokers: tuple[str, ...], most: int) -> list[dict[str, Any]]:
        """The best pairs in order, allowed ones first, with predicted scores and the rule each lost by."""
        rank = np.where(self.rule == ALLOWED, self.gain + 1e6, self.gain).ravel()
        count = min(most, rank.size)
        if not count:
            return []
        close = np.flatnonzero(
            -rank <= np.partition(-rank, count - 1)[count - 1]
        )  # argpartition: CPUs differ on equals
        rows = []
        for at in close[np.argsort(-rank[close], kind="stable")[:count]].tolist():
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
    before = float(model.score[found.source])
    source_after = model.without(found.source, found.relief)
    target_after = model.with_(targets, found.work)
    gain = before - np.maximum(source_after[:, None], target_after)
    least = least_relief_of(bounds.least, found.disruption)
    over_cap = pairs_exceed_caps(model.totals[targets], model.snapshot.fields[found.bundles], caps)
    rules = (
        (model.avoided(found.bundles, targets), Reason.AVOIDED),
        (over_cap, Reason.BROKER_CAP),
        ((before - source_after < least)[:, None], Reason.NOT_WORTH_MOVING),
        (target_after > bounds.target_at_most, Reason.TARGET_ABOVE_MEAN),
        ((source_after < bounds.source_at_least)[:, None], Reason.WOULD_NOT_IMPROVE),
        (gain < least[:, None], Reason.WOULD_NOT_IMPROVE),
    )
    rule = np.full(target_after.shape, ALLOWED, np.int64)
    for hit, reason in reversed(rules):
        rule[np.broadcast_to(hit, rule.shape)] = CODES[reason]
    forbidden = model.forbidden(found.bundles, targets)
    if forbidden is not None:
        rule = np.where(forbidden != ALLOWED, forbidden, rule)
    return Pairs(found, targets, source_after, target_after, rule, net_gain(gain, found.disruption[:, None]))
