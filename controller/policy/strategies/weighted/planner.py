"""One round of `weighted`: who is over a limit gives bundles away, the fullest first, until it is within its limits.

Nothing else moves a bundle. Every chosen move changes the model before the next is considered. Where no broker can take
what would have to go without leaving its own limits, the source keeps it, and the skip says so.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.policy.strategies.weighted.bundle_value import SheddingOrder, shedding_order, strictly_by_value, values
from controller.policy.strategies.weighted.figures import Figures
from controller.policy.strategies.weighted.record import Record
from controller.policy.strategies.weighted.target_choice import Target, TargetChoice
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, REASONS, count_reasons, most_common_reason
from controller.policy.view.snapshot import Snapshot
from controller.policy.what_if import Model

AT_ONCE = 64  # bundles whose pairs are judged together: the first usually fits


class Planner:
    """`plan()` once; what it found is in `record` afterwards."""

    def __init__(self, snapshot: Snapshot, figures: Figures, hits: Ints, settings: PolicySettings) -> None:
        self.snapshot, self.figures = snapshot, figures
        self.model = Model(snapshot)
        self.targets = TargetChoice(self.model, figures, settings.caps)
        over = figures.anyhow_over()
        self.sources = np.asarray(snapshot.eligible & over & (hits >= settings.shed.consecutive_rounds))
        self.record = Record(snapshot, figures, self.model, hits, settings.shed.consecutive_rounds)
        self.overloaded = round(settings.shed.overloaded_threshold * SCORE_UNIT)
        self.budget = snapshot.quota.allow(settings.shed.max_moves_per_round)
        self.left = snapshot.quota.remaining(len(snapshot.brokers))
        self.fewest = settings.weighted.fewest_moves

    def plan(self) -> None:
        """Choose all moves of the round."""
        active = self.sources.copy()
        while active.any():
            source = int(np.argmax(np.where(active, self.figures.fullest(), -1.0)))
            if not self.figures.anyhow_over()[source]:
                active[source] = False
            elif len(self.record.moves) >= self.budget or not self.left[source]:
                self.record.deny(source, Reason.BUDGET_SPENT)
                active[source] = False
            else:
                active[source] = self._relieve(source)

    def _relieve(self, source: int) -> bool:
        """Move one bundle off the source; whether another may follow."""
        self.record.visited[source] = True
        held = np.flatnonzero(self.model.owner == source)
        block = self.model.bundle_block[held]
        free = held[block == ALLOWED]
        evidence: dict[str, Any] = {"bundles": len(held), "bundles_lost": count_reasons(block[block != ALLOWED])}
        if not len(free):
            self.record.deny(source, most_common_reason(block) if len(held) else Reason.NO_BUNDLES, evidence)
            return False
        limits = np.flatnonzero(self.figures.over()[source])
        free = free[(self.figures.part[free][:, limits] > 0).any(axis=1)]
        if not len(free):  # what is over its limit is not the bundles' doing
            self.record.deny(source, Reason.EXTERNAL_LOAD, evidence)
            return False
        return self._relieve_of(source, free, limits, evidence)

    def _relieve_of(self, source: int, free: Ints, limits: Ints, evidence: dict[str, Any]) -> bool:
        """Move one of these bundles, each of which takes something off a limit that the source is over."""
        targets = self._open(source)
        if not len(targets):
            others = np.delete(self.snapshot.target_block, source) == ALLOWED
            self.record.deny(source, self._no_room(limits) if others.any() else Reason.NO_TARGET, evidence)
            return False
        room = self.figures.room(targets).max(axis=0)
        placeable = free[(self.figures.part[free] <= room).all(axis=1)]
        evidence["bundles_that_fit_nowhere"] = len(free) - len(placeable)
        order = self._order(source, placeable, limits)
        evidence["fewest_moves"] = order.moves
        if not len(order.rows):
            why = Reason.NOT_WORTH_MOVING if len(placeable) else self._no_room(limits)
            self.record.deny(source, why, evidence)
            return False
        ordered = placeable[order.rows]
        ceiling = max(int(self.model.score.max()), self.overloaded)
        lost: Counter[int] = Counter()
        for start in range(0, len(ordered), AT_ONCE):
            some = ordered[start : start + AT_ONCE]
            rules = self.targets.rules(some, targets)
            if not start:
                evidence["pairs"] = self.record.pairs(source, some, targets, rules)
            for row in np.flatnonzero((rules == ALLOWED).any(axis=1)).tolist():
                target = self.targets.best(int(some[row]), targets[rules[row] == ALLOWED], ceiling)
                if target is not None:
                    self._move(int(some[row]), source, target, evidence)
                    return True
                lost[-1] += 1
            lost.update(rules[rules != ALLOWED].tolist())
        self.record.deny(source, self._lost_by(lost, limits), evidence)
        return False

    def _open(self, source: int) -> Ints:
        """Who might take anything: allowed to, within its own limits, and with moves left."""
        open_ = (self.snapshot.target_block == ALLOWED) & (self.left > 0) & ~self.figures.anyhow_over()
        open_[source] = False
        return np.flatnonzero(open_)

    def _order(self, source: int, bundles: Ints, limits: Ints) -> SheddingOrder:
        relief = self.figures.part[bundles][:, limits]
        excess = self.figures.excess(source, limits)
        value = values(self.figures, source, bundles)
        order = shedding_order(relief, excess, self.figures.limit[source, limits], value)
        return order if self.fewest else order._replace(rows=strictly_by_value(relief, value))

    def _move(self, bundle: int, source: int, chosen: Target, evidence: dict[str, Any]) -> None:
        target = chosen.broker
        told = {
            **evidence,
            "value_ppm": int(values(self.figures, source, np.array([bundle]))[0]),
            "target_rank_ppm": chosen.rank,
            "target_serves_the_topic": chosen.serves,
        }
        before = self.model.fractions((source, target))
        seen = self.record.seen(source)
        self.model.move(bundle, target)
        self.figures.move(bundle, source, target)
        self.targets.moved(bundle, target)
        self.left[[source, target]] -= 1
        told |= {"source_limits_after": self.figures.told(source), "target_limits_after": self.figures.told(target)}
        after = self.model.fractions((source, target))
        self.record.note(bundle, (source, target), before, after, {**seen, **told})

    def _no_room(self, limits: Ints) -> Reason:
        """Nobody can take anything: the cluster as a whole is over such a limit, or only nobody has enough of it."""
        short = self.figures.short(limits, self.snapshot.eligible)
        return Reason.UNDER_PROVISIONED if short else Reason.TARGET_OVER_LIMIT

    def _lost_by(self, lost: Counter[int], limits: Ints) -> Reason:
        """The rule that most pairs lost by; -1 stands for those that would have become overloaded."""
        code = min(lost, key=lambda c: (-lost[c], c))
        reason = Reason.WOULD_NOT_IMPROVE if code < 0 else REASONS[code]
        return self._no_room(limits) if reason is Reason.TARGET_OVER_LIMIT else reason
