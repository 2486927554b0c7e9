"""Utilisation as it would be after the moves chosen so far. Work is conserved: what leaves one broker arrives at
another, at what it costs there (invariant I7).

Only resources with a weight > 0 count (C of them). A broker's score is its largest weighted utilisation, without what
is not expected to last; of an *urgent* one, overloaded or far above the level right now, and not by a spike of the kind
that it has had before, with all of it. A target is judged by all that it carries now, and never by much less than its
reading says. The *level* is what every broker would have if all work were shared out by capacity: the largest of the
resources' means over the brokers that take part; it is the same after every move. What a score may be wrong by grows
with every move, by what is not known of the bundle, at both ends, and counts for more at a target from which hardly
anything could leave again. A broker that is clearly above the level by what no bundle there accounts for (its base, or
bytes of others in its network) is *occupied*: it gives what it has, and gets nothing. Where isolation parts the brokers
into pools that can share nothing, each pool has a level of its own and is a *part* of the model: a view with that
level, of the same brokers.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from math import sqrt

import numpy as np

from controller.domain.load import SCORE_UNIT
from controller.domain.overrides import AVOID
from controller.policy.overrides import match_override
from controller.policy.placement.rules import pools_of, track_placement
from controller.policy.strategies.steady.usage import CPU, Usage
from controller.policy.view.costs import Floats, costs, unit_costs
from controller.policy.view.frame import Ints
from controller.policy.view.reason_codes import ALLOWED
from controller.policy.view.snapshot import Bools, Snapshot

OCCUPIED = 0.25  # of the level: so far above it what others use is out of reach
AS_READ = 0.9  # of a reading: a target counts with so much of it, whatever was expected
FAR = 0.5  # of the level: a rise so far above it is acted on before it has lasted, unless such rises are known to pass
PRESSING = 0.45  # of the level: relieving a broker so far above it, by what lasts, may take many small moves
MARGIN_ERRORS = 0.5  # standard deviations of an estimate that count against a move
LOCKED_ERRORS = 1.25  # and so many more at a target from which nothing could leave again
RESERVE_ERRORS = 3.0  # of its estimate: a target whose movable bundles use less than this is one of those, in part
MOST_TIMES = 100.0  # what bundles of an occupied broker may cost, of what they are thought to
LEAST_LEVEL = 0.30  # deviations are measured against the level, but a nearly idle cluster's noise is not worth a move


class Model:
    """See the module's text."""

    def __init__(self, snapshot: Snapshot, usage: Usage, overloaded: float) -> None:
        """`overloaded`: the score from which a broker counts as overloaded."""
        self.snapshot, self.usage, self._overloaded = snapshot, usage, overloaded
        self._counted = _counted(snapshot, usage)
        self._resources: list[int] = self._counted.tolist()
        weights = snapshot.weights[self._counted]
        limit = usage.limit[:, self._counted]
        now = usage.now[:, self._counted]
        known = np.isfinite(limit) & np.isfinite(now)
        per_unit = np.where(known, weights / np.where(known, limit, 1.0), 0.0)
        speed = np.where(self._counted == CPU, usage.speed[:, None], 1.0)
        self.rate: Floats = per_unit * speed  # [B x C] of a unit of work
        self.now: Floats = per_unit * np.maximum(np.where(known, now, 0.0), 0.0)
        lasting = np.maximum(self.now - per_unit * usage.passing[:, self._counted], 0.0)
        at_stake: Floats = (self.now - per_unit * usage.spike[:, self._counted]).max(axis=1, initial=0.0)
        passing = np.where(usage.known_bursts[:, None], np.maximum(usage.spike, usage.passing), usage.spike)
        stays: Floats = (self.now - per_unit * passing[:, self._counted]).max(axis=1, initial=0.0)
        self.full: Bools = stays >= overloaded  # what is known to pass does not count
        self.urgent: Bools = self.full  # [B] judged by all that they carry, lasting or not
        self.used: Floats = np.where(self.urgent[:, None], self.now, lasting)
        self.score: Floats = self.used.max(axis=1, initial=0.0)
        read = np.where(self._counted == CPU, AS_READ * usage.read[:, None] * per_unit, 0.0)
        expected = np.maximum(self.now, self.used)
        self.busy: Floats = np.maximum(expected, read)  # what a target is judged by
        self.peak: Floats = self.busy.max(axis=1, initial=0.0)  # [B] the largest of that
        self.only_read: Floats = self.peak - expected.max(axis=1, initial=0.0)  # [B] of that, what was not expected
        self._cpu: Ints = np.flatnonzero(self._counted == CPU)  # where it is among those that count
        cpu = self._cpu
        self.base: Floats = per_unit[:, cpu].sum(axis=1) * usage.base
        self.foreign: Floats = (per_unit * usage.foreign[:, self._counted]).max(axis=1, initial=0.0)
        self.error: Floats = per_unit[:, cpu].sum(axis=1) * usage.error
        self._variance: Floats = self.error**2  # [B] of scores, after the moves chosen so far
        self._reserve: Floats = per_unit[:, cpu].sum(axis=1) * usage.settled  # [B] what may leave, after those moves
        self._cpu_rate: Floats = self.rate[:, cpu].sum(axis=1)
        self.takes_part: Bools  # [B], and what follows from who does: set by `_share`
        self.occupied: Bools  # [B] whom something other than their bundles keeps above the level
        self.size: Floats
        self.level: float
        self.norm: float
        self.able: Bools = snapshot.eligible & ~usage.impossible  # [B] to give, at least
        self.closed: Bools = usage.slow | usage.blind | (snapshot.target_block != ALLOWED)  # [B] that get nothing
        self.totals: Floats = snapshot.totals.copy()
        self.owner: Ints = snapshot.owner.copy()
        self._avoided = _avoided(snapshot)
        self.placement_state = track_placement(snapshot)
        self.blamed: Bools  # [B] whose bundles may be what keeps them busy: set by `_blame_bundles`
        self.set_levels()
        far = at_stake > self.levels + FAR * self.norms
        bursting = (far | (at_stake >= overloaded)) & ~self.full & usage.known_bursts
        self.judged_by_bundles: Bools = usage.explained | bursting  # [B] whose bundles a stored round has to name
        self._judge_by_all(far)
        self._blame_bundles()

    def _blame_bundles(self) -> None:
        """What keeps the CPU of an occupied broker busy may be its bundles all the same, if they cost a multiple of
        others: that shows when some have left. They are moved as if it were so, few at a time."""
        usage = self.usage
        by_base = self.base > self.levels + OCCUPIED * self.norms
        blamed = self.occupied & by_base & ~usage.proven
        for model in (self, *self._parts):
            model.blamed = blamed
        if not blamed.any():
            return
        work = usage.now[:, CPU] - usage.base
        times = np.where(blamed & (work > 0), usage.now[:, CPU] / np.where(work > 0, work, 1.0), 1.0)
        times = np.append(np.clip(times, 1.0, MOST_TIMES), 1.0)[self.snapshot.owner]
        cost = list(usage.cost)
        cost[CPU] = cost[CPU] * times
        for model in (self, *self._parts):
            model.usage = replace(usage, cost=tuple(cost), cost_error=usage.cost_error * times)

    def _judge_by_all(self, far: Bools) -> None:
        """Those far above the level right now are urgent as well, unless their bundles have had such bursts before."""
        sudden = far & ~self.full & ~self.usage.known_bursts
        if sudden.any():
            self.urgent = self.full | sudden
            self.used = np.where(sudden[:, None], self.now, self.used)
            self.score = self.used.max(axis=1, initial=0.0)
            self.set_levels()

    @property
    def pressing(self) -> Bools:
        """[B] urgent, or clearly above the level by what lasts."""
        return np.asarray(self.urgent | (self.score > self.levels + PRESSING * self.norms))

    def set_levels(self) -> None:
        """Compute the levels again: what moves from one pool to another changes both."""
        self._share(self.able)
        self.levels: Floats = np.full(len(self.score), self.level)
        self.norms: Floats = np.full(len(self.score), self.norm)
        self._parts: list[Model] = []
        for pool in pools_of(self.snapshot):
            part = copy(self)
            part._parts = []
            part.able = self.able & pool
            part._share(part.able)
            self.takes_part = np.where(pool, part.takes_part, self.takes_part)
            self.levels[pool], self.norms[pool] = part.level, part.norm
            self._parts.append(part)
        self.occupied = self.able & ~self.takes_part
        self.short: Bools = (
            self.levels >= self._overloaded
        )  # [B] the brokers of pools that are too small for their load
        for part in self._parts:
            part.short = self.short

    @property
    def parts(self) -> list[Model]:
        """Of which each is balanced by itself; what moves in one is seen by all."""
        return self._parts or [self]

    def bound_by(self, broker: int) -> int:
        """The resource, of those that count, that the broker has least left of."""
        return int(np.argmax(self.used[broker]))

    def _share(self, able: Bools) -> None:
        """Who of them shares the work, and the level that this gives them: less without those that are occupied, more
        without those that are below it and may not get anything, unless that is all of them."""
        self.takes_part, shut = able, np.zeros(len(able), bool)
        while True:
            self.level, self.size = self._level(self.takes_part & ~shut)
            self.norm = max(self.level, LEAST_LEVEL)
            shares = self.takes_part & (self.foreign <= self.level + OCCUPIED * self.norm)
            low = shares & (shut | (self.closed & (self.score < self.level)))
            if not (shares & ~self.closed).any():
                low[:] = False
            if (shares == self.takes_part).all() and (low == shut).all():
                self.occupied = able & ~shares
                return
            self.takes_part, shut = shares, low

    def _level(self, part: Bools) -> tuple[float, Floats]:
        """The level, and each broker's capacity for the resource that sets it, 1.0 on average."""
        if not part.any() or not len(self._counted):
            return 0.0, np.ones(len(part))
        capacity = np.where(self.rate > 0, 1.0 / np.where(self.rate > 0, self.rate, 1.0), 0.0)
        all_of_it = capacity[part].sum(axis=0)
        means = (self.used * capacity)[part].sum(axis=0) / np.maximum(all_of_it, 1e-300)
        widest = int(np.argmax(means))
        mean = capacity[part][:, widest].mean()
        return float(means[widest]), capacity[:, widest] / mean if mean > 0 else np.ones(len(part))

    def deviation(self) -> Floats:
        """[B] how far above its level each is, as a fraction of it."""
        return np.asarray((self.score - self.levels) / self.norms)

    def without_cpu(self) -> Floats:
        """[B] scores by all resources but CPU."""
        return np.asarray(np.delete(self.used, self._cpu, axis=1).max(axis=1, initial=0.0))

    def doubt(self, errors: float) -> Floats:
        """[B] how much lower each score may be, at so many standard deviations. Only CPU is estimated: the less it has
        to do with a score, the less doubt there is."""
        by_cpu = self.used[:, self._cpu].sum(axis=1) / np.maximum(self.score, 1e-9)
        return np.asarray(errors * self.error * by_cpu)

    def doubt_of_moves(self, broker: int) -> float:
        """How much of the standard deviation of a broker's score comes from the moves chosen so far."""
        by_cpu = float(self.used[broker, self._cpu].sum()) / max(float(self.score[broker]), 1e-9)
        return (sqrt(float(self._variance[broker])) - float(self.error[broker])) * by_cpu

    def fillable(self) -> Floats:
        """[B] what part of the level its bundles could bring it: all of it but its base."""
        return np.asarray(np.clip(1.0 - self.base / np.maximum(self.levels, 1e-12), 0.0, 1.0))

    def work(self, bundles: Ints) -> Floats:
        """[C x n] of bundles as they are now, in units of the usual broker."""
        return np.stack([self.usage.cost[at][bundles] for at in self._resources])

    def relief(self, bundles: Ints, work: Floats, source: int) -> Floats:
        """[C x n] what each bundle takes with it of what its source is judged by, of its work [C x n]."""
        return work if self.urgent[source] else work * self.usage.lasting[bundles]

    def on(self, broker: int, relief: Floats) -> Floats:
        """[C x n] of a broker's utilisation that goes with the relief [C x n]."""
        return np.asarray(relief * self.rate[broker][:, None])

    def without(self, source: int, taken: Floats) -> Floats:
        """[n] the source's score without each part [C x n] of its utilisation."""
        return np.asarray((self.used[source][:, None] - taken).max(axis=0, initial=0.0))

    def with_(self, targets: Ints, work: Floats) -> Floats:
        """[n x t] each target's score with each piece of work [C x n], all of its present load counted."""
        busy, rate = self.busy[targets].T, self.rate[targets].T
        return highest(busy[:, None, :] + work[:, :, None] * rate[:, None, :])

    def excess(self, broker: int) -> float:
        """How far it is above the level; or above its base, if bundles have shown that they are not to blame for it."""
        base = float(self.base[broker]) if self.usage.proven[broker] else 0.0
        return float(self.score[broker]) - max(self.level, base)

    def is_overloaded(self, broker: int) -> bool:
        """After the moves chosen so far."""
        return bool(self.score[broker] >= self._overloaded)

    def margin(self, broker: Ints | int, variance: Floats) -> Floats:
        """The safety margin on a source's score, for what is not known of it and of bundles that come or go.

        `variance`: theirs. Returns the shape that the two have together.
        """
        return np.asarray(MARGIN_ERRORS * self._deviation(broker, variance))

    def margin_at_target(self, broker: Ints | int, variance: Floats) -> Floats:
        """The same of a target. One from which nothing could leave again stays as high as it turns out to be, whereas
        one that is too low can be filled up at any time."""
        deviation = self._deviation(broker, variance)
        locked = np.clip(1.0 - self._reserve[broker] / np.maximum(RESERVE_ERRORS * deviation, 1e-12), 0.0, 1.0)
        return np.asarray((MARGIN_ERRORS + LOCKED_ERRORS * locked) * deviation)

    def _deviation(self, broker: Ints | int, variance: Floats) -> Floats:
        return np.asarray(np.sqrt(self._variance[broker] + variance * self._cpu_rate[broker] ** 2))

    def gain_with_margin(self, source: int, source_after: Floats, target_after: Floats) -> Floats:
        """How much lower the higher of two brokers gets; both scores are given with their margins."""
        before = float(self.score[source]) + MARGIN_ERRORS * sqrt(float(self._variance[source]))
        return np.asarray(before - np.maximum(source_after, target_after))

    def variance(self, bundles: Ints) -> Floats:
        """[n] of what each bundle is thought to cost on a usual broker."""
        return np.asarray(self.usage.cost_error[bundles] ** 2)

    def avoided(self, bundles: Ints, targets: Ints) -> Bools:
        """[n x t], or [1 x 1] where nothing is: whether an operator said that the bundle should not go there."""
        if not self._avoided:
            return np.zeros((1, 1), bool)
        return np.array([[(b, t) in self._avoided for t in targets.tolist()] for b in bundles.tolist()], bool)

    def forbidden(self, bundles: Ints, targets: Ints, swap: bool = False) -> Ints | None:
        """[n x t] by which rule of placement the bundle must not go there, else ALLOWED; None: there are no rules."""
        return None if self.placement_state is None else self.placement_state.codes(bundles, targets, swap)

    def move(self, bundle: int, target: int) -> None:
        """Take a bundle from its owner to the target. Numbers so few are quicker without numpy."""
        source, usage = int(self.owner[bundle]), self.usage
        work = [float(usage.cost[at][bundle]) for at in self._resources]
        share, error = float(usage.lasting[bundle]), float(usage.cost_error[bundle])
        lasting = [amount * share for amount in work]
        self._add(source, -1.0, work, work if self.urgent[source] else lasting)
        self._add(target, 1.0, work, lasting)
        for broker in (source, target):
            self._variance[broker] += (error * float(self._cpu_rate[broker])) ** 2
        self._reserve[source] -= sum(work[at] for at in self._cpu.tolist()) * self._cpu_rate[source]
        fields = self.snapshot.fields[bundle]
        self.totals[source] -= fields
        self.totals[target] += fields
        self.owner[bundle] = target
        if self.placement_state is not None:
            self.placement_state.move(bundle, target)

    def _add(self, broker: int, sign: float, work: list[float], judged: list[float]) -> None:
        """Add work [C], or take it away, and what is judged of it."""
        rates = [sign * rate for rate in self.rate[broker].tolist()]
        used = [max(u + j * r, 0.0) for u, j, r in zip(self.used[broker].tolist(), judged, rates, strict=True)]
        parts = zip(self.busy[broker].tolist(), work, rates, used, strict=True)
        busy = [max(b + w * r, u) for b, w, r, u in parts]
        self.used[broker], self.busy[broker] = used, busy
        self.score[broker], self.peak[broker] = max(used, default=0.0), max(busy, default=0.0)


def _counted(snapshot: Snapshot, usage: Usage) -> Ints:
    """Indices of the resources that count; of all but the first only those that are known of any broker, and of which
    bundles use something: what none of them uses, such as the heap in a line, no move shifts. Brokers' totals tell, as
    a stored round names few bundles."""
    known: Bools = np.asarray((np.isfinite(usage.limit) & np.isfinite(usage.now)).any(axis=0))
    every = np.arange(len(snapshot.brokers))
    by_all = costs(unit_costs(snapshot.usage, snapshot.totals), every, np.ones(len(every)), snapshot.totals)
    known &= by_all.any(axis=0)
    weighted = np.flatnonzero(snapshot.weights > 0)
    return np.append(weighted[:1], weighted[1:][known[weighted[1:]]])


def _avoided(snapshot: Snapshot) -> frozenset[tuple[int, int]]:
    """Bundle and broker of every pair that an override forbids."""
    index = {broker: at for at, broker in enumerate(snapshot.brokers)}
    return frozenset(
        (at, index[str(wish.broker)])
        for wish in snapshot.frame.overrides
        if wish.kind == AVOID and wish.broker in index
        for at in match_override(snapshot, wish).tolist()
    )


def highest(of_each: Floats) -> Floats:
    """The largest along the first axis, the resources'. It is the first as numpy takes several times as long over a
    short last one."""
    return np.asarray(of_each.max(axis=0))


def in_units(score: float) -> int:
    """A score as evidence shows it, in 1 / SCORE_UNIT."""
    return round(score * SCORE_UNIT)


def all_in_units(scores: Floats) -> list[int]:
    """The same of a few."""
    return [round(score * SCORE_UNIT) for score in scores.tolist()]
