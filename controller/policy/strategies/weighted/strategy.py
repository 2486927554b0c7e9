"""`weighted`: stability before balance. A broker sheds when it is demonstrably over one of its limits, never because
another has less; the least valuable bundles go, as few as bring it back, each to a broker that stays within its own.

The method of the walkthrough on how Pulsar reacts to load: limits as knobs (`WeightedSettings`), a figure a provider
(`providers.py`), the value of a bundle (`bundle_value.py`), the choice of a target (`target_choice.py`). Moves, grace
and the rounds that a broker must be over a limit are those of all strategies (`ShedSettings`).

The fullest broker over a limit gives away first, until it is within its limits. Every chosen move changes the model
before the next is considered. Where no broker can take what would have to go without leaving its own limits, the source
keeps it, and the skip says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from controller.domain.decision import Reason
from controller.domain.load import SCORE_UNIT
from controller.domain.settings.policy import PolicySettings
from controller.domain.state import LIVE
from controller.policy.strategies.base import StrategyOutcome, Traits, count_hits, hits_to_memory, score_rows
from controller.policy.strategies.decision_log import DecisionLog
from controller.policy.strategies.weighted.bundle_value import SheddingOrder, shedding_order, strictly_by_value, values
from controller.policy.strategies.weighted.figures import Figures, providers_of
from controller.policy.strategies.weighted.target_choice import Target, TargetChoice
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED, REASONS, count_reasons, most_common_reason
from controller.policy.view.snapshot import Snapshot
from controller.policy.what_if import Model

NAME = "weighted"
AT_ONCE = 64  # bundles whose pairs are judged together: the first usually fits
PAIRS_LISTED, PAIRS_LISTED_LATER = 20, 5  # in the evidence of a source's first move, of its later ones
TARGETS_LISTED = 4  # for each bundle


class Weighted:
    """See the module's text."""

    name = NAME
    rules = 3
    traits = Traits(knobs=("weighted",))

    def decide(self, snapshot: Snapshot, memory: Mapping[str, Any], settings: PolicySettings) -> StrategyOutcome:
        """Memory: `hits`, broker id -> [incarnation, consecutive rounds]. Raises ConfigError for a faulty provider."""
        figures = Figures(snapshot, providers_of(settings.weighted.load_awareness_providers), settings.weighted)
        hits = count_hits(snapshot, figures.over_any(), memory)
        planner = _Planner(snapshot, figures, hits, settings)
        mean = planner.model.mean()
        planner.plan()
        log = planner.log
        rows = score_rows(snapshot, mean, hits, planner.sources, log.reasons)
        if snapshot.frame.mode == LIVE and settings.shed.enabled:
            # within its limits by what it gave away: averages of before must not make it give more
            relieved = [at for at in log.sources if not figures.over_any()[at]]
            hits[relieved] = 0
        considered = log.considered() | planner.targets.witnesses
        kept = {"hits": hits_to_memory(snapshot, hits)}
        return StrategyOutcome(log.decisions(), rows, kept, considered, reads_latencies=True)


class _Planner:
    """One round. `plan()` once; `log` has what came of it."""

    def __init__(self, snapshot: Snapshot, figures: Figures, hits: Ints, settings: PolicySettings) -> None:
        self.snapshot, self.figures, self.hits = snapshot, figures, hits
        self.model = Model(snapshot)
        self.targets = TargetChoice(self.model, figures, settings.caps)
        self.hits_needed = settings.shed.consecutive_rounds
        over = figures.over_any()
        self.sources = np.asarray(snapshot.eligible & over & (hits >= self.hits_needed))
        self.log = DecisionLog(
            snapshot, NAME, lambda at: Reason.HIT_COUNT if over[at] else Reason.WITHIN_LIMITS, self._seen
        )
        self.overloaded = round(settings.shed.overloaded_threshold * SCORE_UNIT)
        self.budget = snapshot.quota.allow(settings.shed.max_moves_per_round)
        self.left = snapshot.quota.remaining(len(snapshot.brokers))
        self.fewest = settings.weighted.fewest_moves

    def plan(self) -> None:
        """Choose all moves of the round."""
        active = self.sources.copy()
        while active.any():
            source = int(np.argmax(np.where(active, self.figures.fullest(), -1.0)))
            if not self.figures.over_any()[source]:
                active[source] = False
            elif len(self.log.moves) >= self.budget or not self.left[source]:
                self.log.deny(source, Reason.BUDGET_SPENT)
                active[source] = False
            else:
                active[source] = self._relieve(source)

    def _relieve(self, source: int) -> bool:
        """Move one bundle off the source; whether another may follow."""
        self.log.visited[source] = True
        held = np.flatnonzero(self.model.owner == source)
        block = self.model.bundle_block[held]
        free = held[block == ALLOWED]
        evidence: dict[str, Any] = {"bundles": len(held), "bundles_lost": count_reasons(block[block != ALLOWED])}
        if not len(free):
            self.log.deny(source, most_common_reason(block) if len(held) else Reason.NO_BUNDLES, evidence)
            return False
        limits = np.flatnonzero(self.figures.over()[source])
        free = free[(self.figures.part[free][:, limits] > 0).any(axis=1)]
        if not len(free):  # what is over its limit is not the bundles' doing
            self.log.deny(source, Reason.EXTERNAL_LOAD, evidence)
            return False
        return self._relieve_of(source, free, limits, evidence)

    def _relieve_of(self, source: int, free: Ints, limits: Ints, evidence: dict[str, Any]) -> bool:
        """Move one of these bundles, each of which takes something off a limit that the source is over."""
        targets = self._open(source)
        if not len(targets):
            others = np.delete(self.snapshot.target_block, source) == ALLOWED
            self.log.deny(source, self._no_room(limits) if others.any() else Reason.NO_TARGET, evidence)
            return False
        most = self.figures.remaining(targets).max(axis=0)
        placeable = free[(self.figures.part[free] <= most).all(axis=1)]
        evidence["bundles_that_fit_nowhere"] = len(free) - len(placeable)
        order = self._order(source, placeable, limits)
        evidence["fewest_moves"] = order.moves
        if not len(order.rows):
            reason = Reason.NOT_WORTH_MOVING if len(placeable) else self._no_room(limits)
            self.log.deny(source, reason, evidence)
            return False
        return self._place_first(source, placeable[order.rows], targets, limits, evidence)

    def _place_first(self, source: int, ordered: Ints, targets: Ints, limits: Ints, evidence: dict[str, Any]) -> bool:
        """Move the first of the bundles that one of the targets may take."""
        ceiling = max(int(self.model.score.max()), self.overloaded)
        lost: Counter[int] = Counter()
        for start in range(0, len(ordered), AT_ONCE):
            some = ordered[start : start + AT_ONCE]
            rules = self.targets.judge(some, targets)
            if not start:
                evidence["pairs"] = self._list_pairs(source, some, targets, rules)
            for row in np.flatnonzero((rules == ALLOWED).any(axis=1)).tolist():
                target = self.targets.best(int(some[row]), targets[rules[row] == ALLOWED], ceiling)
                if target is not None:
                    self._move(int(some[row]), source, target, evidence)
                    return True
                lost[-1] += 1
            lost.update(rules[rules != ALLOWED].tolist())
        self.log.deny(source, self._lost_by(lost, limits), evidence)
        return False

    def _open(self, source: int) -> Ints:
        """The brokers that might take anything: allowed to, within their own limits, and with moves left."""
        open_ = (self.snapshot.target_block == ALLOWED) & (self.left > 0) & ~self.figures.over_any()
        open_[source] = False
        return np.flatnonzero(open_)

    def _order(self, source: int, bundles: Ints, limits: Ints) -> SheddingOrder:
        relief = self.figures.part[bundles][:, limits]
        excess = self.figures.excess(source, limits)
        value = values(self.figures, source, bundles)
        order = shedding_order(relief, excess, self.figures.limit[source, limits], value)
        return order if self.fewest else order._replace(rows=strictly_by_value(relief, value))

    def _move(self, bundle: int, source: int, chosen: Target, evidence: Mapping[str, Any]) -> None:
        target = chosen.broker
        seen = {
            **self._seen(source),
            **evidence,
            "value_ppm": int(values(self.figures, source, np.array([bundle]))[0]),
            "target_rank_ppm": chosen.rank,
            "target_serves_the_topic": chosen.serves,
        }
        before = self.model.fractions((source, target))
        self.model.move(bundle, target)
        self.figures.move(bundle, source, target)
        self.targets.note_move(bundle, target)
        self.left[[source, target]] -= 1
        seen |= {
            "source_limits_after": self.figures.permille(source),
            "target_limits_after": self.figures.permille(target),
        }
        after = self.model.fractions((source, target))
        self.log.transfer(bundle, source, target, before, after, Reason.OVERLOADED, seen)

    def _no_room(self, limits: Ints) -> Reason:
        """Why no broker can take anything: all together are over such a limit, or no single one has enough left."""
        short = self.figures.short(limits, self.snapshot.eligible)
        return Reason.UNDER_PROVISIONED if short else Reason.TARGET_OVER_LIMIT

    def _lost_by(self, lost: Counter[int], limits: Ints) -> Reason:
        """The rule that most pairs lost by; -1 stands for those that would have become overloaded."""
        code = min(lost, key=lambda c: (-lost[c], c))
        reason = Reason.WOULD_NOT_IMPROVE if code < 0 else REASONS[code]
        return self._no_room(limits) if reason is Reason.TARGET_OVER_LIMIT else reason

    def _seen(self, at: int) -> dict[str, Any]:
        """What the broker is judged by: permille of its limits, rounds over one of them and rounds asked for."""
        return {
            "score": int(self.model.score[at]),
            "limits": self.figures.permille(at),
            "hits": int(self.hits[at]),
            "hits_needed": self.hits_needed,
        }

    def _list_pairs(self, source: int, bundles: Ints, targets: Ints, rules: Ints) -> list[dict[str, Any]]:
        """The first bundles in the order they are tried, each with its emptiest targets, those that may take it first.

        Fewer of them once the source has given something away.
        """
        most = PAIRS_LISTED_LATER if source in self.log.sources else PAIRS_LISTED
        bundles = bundles[: -(-most // min(TARGETS_LISTED, len(targets)))]
        fullness, model = self.figures.after(bundles, targets), self.model
        lost = rules[: len(bundles)] != ALLOWED
        order = np.lexsort((np.rint(fullness * SCORE_UNIT), lost), axis=1)[:, :TARGETS_LISTED]
        source_after = model.source_after(source, bundles)
        rows = []
        for row, bundle in enumerate(bundles.tolist()):
            columns = order[row]
            scores = model.target_after(np.array([bundle]), targets[columns])[0].tolist()
            for column, score in zip(columns.tolist(), scores, strict=True):
                code = int(rules[row, column])
                rows.append(
                    {
                        "bundle": self.snapshot.bundles[bundle],
                        "target": self.snapshot.brokers[targets[column]],
                        "source_after": int(source_after[row]),
                        "target_after": score,
                        "target_fullness": round(1000 * float(fullness[row, column])),
                        "lost_by": "" if code == ALLOWED else REASONS[code].value,
                    }
                )
        return rows[:most]
