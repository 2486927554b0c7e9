"""All pairs of some bundles of one source and some targets: what each brings, and the first rule each one fails.

A pair brings what it takes off the higher of its two brokers, less what moving the bundle disrupts. So a bundle that
fits the source's excess and the target's room counts most, and few large moves come before many small ones. What is not
known well counts against a pair: its gain and its target's score are taken with a margin, so a bundle whose cost is
known comes before one that may cost anything, and no target gets many of the latter. Equal gains are ordered by bundle,
then broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.policy import BrokerCaps
from controller.policy.placement.constraints import pairs_exceed_caps
from controller.policy.strategies.steady.disruption import least_relief_of, net_gain
from controller.policy.strategies.steady.model import Model, all_in_units
from controller.policy.view.costs import Floats
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, CODES, LOST_BY, REASONS
from controller.policy.view.snapshot import Bools

WOULD_NOT_IMPROVE, TARGET_ABOVE_MEAN, NOT_WORTH_MOVING = (
    CODES[reason] for reason in (Reason.WOULD_NOT_IMPROVE, Reason.TARGET_ABOVE_MEAN, Reason.NOT_WORTH_MOVING)
)


TRADED = 0.3  # of the load that a move shifts


class Bounds(NamedTuple):
    """What a move must keep to, as scores: the least it must bring, where it must leave both brokers at."""

    least: float
    source_at_least: float
    target_at_most: float


@dataclass(frozen=True, eq=False)
class Candidates:
    """Some bundles of one source. Their figures are the rows of one array, as they are selected together."""

    source: int
    bundles: Ints  # [n]
    figures: Floats  # [3 C + 2 x n]

    @classmethod
    def of(cls, model: Model, source: int, bundles: Ints, disruption: Floats) -> Candidates:
        """Of these bundles as they are now."""
        work = model.work(bundles)
        relief = model.relief(bundles, work, source)
        variance = model.variance(bundles)
        return cls(source, bundles, np.vstack([work, relief, model.on(source, relief), disruption, variance]))

    def select(self, rows: Ints) -> Candidates:
        """Only these, in order of the bundles."""
        return Candidates(self.source, self.bundles[rows], self.figures.take(rows, axis=1))

    @property
    def work(self) -> Floats:
        """[C x n] now, in units of the usual broker."""
        return self.figures[: self._resources]

    @property
    def relief(self) -> Floats:
        """[C x n] of that, what counts for its source."""
        return self.figures[self._resources : 2 * self._resources]

    @property
    def taken(self) -> Floats:
        """[C x n] what each takes off the utilisation that its source is judged by."""
        return self.figures[2 * self._resources : -2]

    @property
    def disruption(self) -> Floats:
        """[n]"""
        return np.asarray(self.figures[-2])

    @property
    def variance(self) -> Floats:
        """[n] of what each is thought to cost."""
        return np.asarray(self.figures[-1])

    @property
    def _resources(self) -> int:
        return (len(self.figures) - 2) // 3


@dataclass(frozen=True, eq=False)
class Pairs:
    """n candidates x t targets; scores as fractions."""

    candidates: Candidates
    targets: Ints  # [t]
    before: float  # the source's score
    source_after: Floats  # [n]
    target_after: Floats  # [n x t]
    closed: Ints | None  # [n x t] what forbids the pair whatever it brings: ALLOWED, or the index into REASONS
    target_with_margin: Floats  # [n x t] the target's score with its margin
    relieved: Floats  # [n x t] how much lower the higher of the two brokers gets
    gain: Floats  # [n x t] the same by scores with their margins, and what the disruption leaves of it

    def source_now(self, model: Model, row: int) -> float:
        """The source's score without this bundle, now that others have left it. So few numbers are quicker without
        numpy (`Model.without`)."""
        taken = self.candidates.taken[:, row].tolist()
        used = model.used[self.candidates.source].tolist()
        return max((u - t for u, t in zip(used, taken, strict=True)), default=0.0)

    def must_gain(self, least: Floats) -> Floats:
        """[n] what the pairs of each must bring: `least`, and not just little of the load that they move, since two
        brokers would hardly do more than change places."""
        return np.maximum(least, TRADED * (self.before - self.source_after))

    def within(self, bounds: Bounds) -> Judged:
        """The pairs, judged by these bounds."""
        least = least_relief_of(bounds.least, self.candidates.disruption)
        too_little = self.before - self.source_after < least
        ruled_out = too_little | (self.source_after < bounds.source_at_least)
        lost = self.relieved < self.must_gain(least)[:, None]
        lost |= self.target_with_margin > bounds.target_at_most
        lost |= ruled_out[:, None]
        if self.closed is not None:
            lost |= self.closed != ALLOWED
        return Judged(self, bounds, least, ~lost)


@dataclass(frozen=True, eq=False)
class Judged:
    """Pairs judged by bounds."""

    pairs: Pairs
    bounds: Bounds
    least: Floats  # [n] what each must bring
    allowed: Bools  # [n x t]

    def best(self) -> tuple[int, int] | None:
        """The allowed pair with the largest gain, as (row, column); a bundle goes where it leaves the target lowest."""
        return next(self.in_order(), None)

    def in_order(self) -> Iterator[tuple[int, int]]:
        """The best pair; then the best of other bundles and other targets than those before it, and so on."""
        end = np.where(self.allowed, self.pairs.target_with_margin, np.inf)
        rows = np.arange(len(end))
        while True:
            columns = end.argmin(axis=1)
            gain = np.where(end[rows, columns] < np.inf, self.pairs.gain[rows, columns], -np.inf)
            row = int(gain.argmax())
            if gain[row] == -np.inf:
                return
            column = int(columns[row])
            yield row, column
            end[row] = end[:, column] = np.inf

    def holds(self, before: float, after: float, row: int, column: int) -> bool:
        """Whether an allowed pair still keeps to the bounds, by its source's scores of now: other bundles have left the
        source since, and none has come to the target."""
        least = float(self.least[row])
        brings = before - max(after, float(self.pairs.target_after[row, column]))
        enough = before - after >= least and brings >= max(least, TRADED * (before - after))
        return enough and after >= self.bounds.source_at_least

    def obstacle(self) -> Reason:
        """The rule by which the pair with the largest gain lost."""
        row, column = divmod(int(np.argmax(self.pairs.gain)), len(self.pairs.targets))
        return REASONS[int(self.lost_by(np.array([row]), np.array([column]))[0])]

    def lost_by(self, rows: Ints, columns: Ints) -> Ints:
        """[k] ALLOWED, or the index into REASONS of the first rule that each of these pairs fails."""
        if self.allowed[rows, columns].all():
            return np.full(len(rows), ALLOWED, np.int64)
        pairs, bounds, least = self.pairs, self.bounds, self.least[rows]
        source_after = pairs.source_after[rows]
        rules = (  # the last one that a pair fails is the one that counts
            (pairs.relieved[rows, columns] < pairs.must_gain(self.least)[rows], WOULD_NOT_IMPROVE),
            (source_after < bounds.source_at_least, WOULD_NOT_IMPROVE),
            (pairs.target_with_margin[rows, columns] > bounds.target_at_most, TARGET_ABOVE_MEAN),
            (pairs.before - source_after < least, NOT_WORTH_MOVING),
        )
        lost = np.full(len(rows), ALLOWED, np.int64)
        for fails, code in rules:
            lost[fails] = code
        if pairs.closed is None:
            return lost
        closed = pairs.closed[rows, columns]
        return np.where(closed == ALLOWED, lost, closed)

    def best_first(self, bundles: tuple[str, ...], brokers: tuple[str, ...], most: int) -> list[dict[str, Any]]:
        """The best pairs in order, allowed ones first, with predicted scores and the rule each lost by."""
        pairs, gain = self.pairs, self.pairs.gain
        rank = -np.where(self.allowed, gain + 1e6, gain).ravel()
        count = min(most, rank.size)
        if not count:
            return []
        close = (rank <= np.partition(rank, count - 1)[count - 1]).nonzero()[0]  # argpartition: CPUs differ on equals
        rows, columns = np.divmod(close[np.argsort(rank[close], kind="stable")[:count]], len(pairs.targets))
        return [
            {
                "bundle": bundles[bundle],
                "target": brokers[target],
                "source_after": source_after,
                "target_after": target_after,
                "lost_by": LOST_BY[code],
            }
            for bundle, target, source_after, target_after, code in zip(
                pairs.candidates.bundles[rows].tolist(),
                pairs.targets[columns].tolist(),
                all_in_units(pairs.source_after[rows]),
                all_in_units(pairs.target_after[rows, columns]),
                self.lost_by(rows, columns).tolist(),
                strict=True,
            )
        ]


def evaluate(model: Model, found: Candidates, targets: Ints, caps: BrokerCaps | None) -> Pairs:
    """Every pair against the model as it stands, not yet judged by bounds. Needs at least one bundle and one target.

    `caps`: None if no broker can reach one in this round.
    """
    source, before = found.source, float(model.score[found.source])
    source_after = model.without(source, found.taken)
    target_after = model.with_(targets, found.work)
    relieved = before - np.maximum(source_after[:, None], target_after)
    variance = found.variance
    source_with_margin = (source_after + model.margin(source, variance))[:, None]
    target_with_margin = target_after + model.margin_at_target(targets, variance[:, None])
    gain = net_gain(model.gain_with_margin(source, source_with_margin, target_with_margin), found.disruption[:, None])
    closed = _closed(model, found, targets, caps)
    return Pairs(found, targets, before, source_after, target_after, closed, target_with_margin, relieved, gain)


def _closed(model: Model, found: Candidates, targets: Ints, caps: BrokerCaps | None) -> Ints | None:
    """By which rule the bundle must not go there, whatever it brings; None: nothing is forbidden."""
    over_cap = np.zeros((1, 1), bool)
    if caps is not None:
        over_cap = pairs_exceed_caps(model.totals, targets, model.snapshot.fields, found.bundles, caps)
    avoided, forbidden = model.avoided(found.bundles, targets), model.forbidden(found.bundles, targets)
    if forbidden is None and not over_cap.any() and not avoided.any():
        return None
    closed = np.where(avoided, CODES[Reason.AVOIDED], np.where(over_cap, CODES[Reason.BROKER_CAP], ALLOWED))
    closed = np.broadcast_to(closed, (len(found.bundles), len(targets)))
    return closed if forbidden is None else np.where(forbidden == ALLOWED, closed, forbidden)
