"""What one round's readings teach: every broker's surprise is shared out among its base, its speed and its bundles.

What is known of a broker's usage as a whole is kept beside what is known of its parts: the same bundles with the same
traffic teach nothing new about each of them, however often they are seen. Only what arrived, left or changed its
traffic does. So the parts' variances are as they would be if they were independent, and `BrokerStates.pinned` says what
is left of them in the sum.

A reading may not show a sudden change yet (`readings.py`), and what more traffic costs is known less well than what the
usual traffic costs. So after such a change this round's reading says less about the broker, unless a surprise of it is
being held back already.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from controller.policy.usage.bursts import LEAST_SPIKE, LONGEST, NOISE_ROUNDS, count_spikes, recall, rounds_of_spikes
from controller.policy.usage.departed import Departed, Shown, blame_bundles
from controller.policy.usage.model import (
    BASE_SPREAD,
    LARGEST_FACTOR,
    SMALLEST_FACTOR,
    SPEED_SPREAD,
    BrokerStates,
    BundleStates,
    UsageModel,
)
from controller.policy.usage.seen import Seen, sum_by, weigh
from controller.policy.view.costs import Floats

SURPRISE = 5.0  # standard deviations that chance does not make
RISE_PATIENCE = 2  # rounds of a rise that nothing explains and that stays as it is, where no longer one came and went
SAME = 0.8  # of the larger one: two rises that differ no more are the same
FALL_PATIENCE = 2  # rounds of a fall that nothing explains: there is room sooner than there is trouble
FORGETTING = 0.02  # a round, of the uncertainty of brokers' states
TREND_KEPT, TREND_TOLD = 0.7, 5.0  # a trend of so many standard deviations: what was learned no longer holds
RELEARNED = 0.2  # the spread of factors then
LATE = 0.5  # the part of a sudden change that a reading may not show yet
CERTAIN = 0.01  # of a variance, that one lesson leaves at least
SLOWEST = 8.0
PLAUSIBLE = 0.25  # the variance of what work costs from now on, as a share of it: seldom more than half as much again
TINY = 1e-9
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """[M] each: a bundle's share in what is expected of its reporter, now and in the round before."""

    load: Floats  # on the usual broker, with the usual factor
    there: Floats  # the same at this broker's speed
    before: Floats  # as `there` was; 0 where the bundle has just arrived
    variance: Floats  # of the factor

    @classmethod
    def of(cls, model: UsageModel, seen: Seen, unit: Floats) -> Rows:
        """Of all reports."""
        bundles, load = model.bundles, weigh(seen.rows, unit)
        speed = model.brokers.speed[seen.reporter]
        stayed = bundles.carrier[seen.bundle] == seen.reporter
        before = np.where(stayed, bundles.carried[seen.bundle], 0.0)
        return cls(load, load * speed, before * speed, bundles.variance[seen.bundle])


@dataclass(frozen=True, eq=False)
class Parts:
    """[B] variances of what is expected of a broker, by what they come from."""

    bundles: Floats
    base: Floats
    speed: Floats

    @property
    def total(self) -> Floats:
        """Of them all, as if they were independent."""
        return self.bundles + self.base + self.speed

    def at_least(self, least: Floats, work: Floats, most_base: Floats) -> Parts:
        """Each part at `least` [B], where there is anything to it. With little `work` [B] a large base is likely, and
        work that costs many times as much is not. A fall cannot be one of the base by more than `most_base` [B]."""
        likely = np.minimum(least, PLAUSIBLE * work**2)
        bundles, speed = (np.where(part > 0, np.maximum(part, likely), 0.0) for part in (self.bundles, self.speed))
        return Parts(bundles, np.maximum(self.base, np.minimum(least, most_base**2)), speed)


def learn(model: UsageModel, seen: Seen, unit: Floats, full: Bools, misread: Bools) -> UsageModel:
    """The model after this round. `full`: [B] whose usage is at its limit, so that it says "at least"; `misread`: [B]
    whose traffic is not believed."""
    rows, departed = Rows.of(model, seen, unit), Departed.of(model, seen)
    found = Surprise.of(model, seen, rows, departed, unit, full)
    gave, at_work = model.brokers.gave + departed.sum(model), model.brokers.speed * found.work
    shown = Shown.of(model, gave, at_work, found.amount, found.noise, ~(found.silent | full))
    if shown.dear.any():
        model = blame_bundles(model, seen, departed, shown, rows.there, found.amount)
        rows = Rows.of(model, seen, unit)
        found = Surprise.of(model, seen, rows, departed, unit, full)
    brokers = model.brokers
    surprise, parts, doubt, reading = found.amount, found.parts, found.doubt, found.reading
    stays = seen.minute_apart & ~misread & _is_same_rise(brokers.passing, surprise)
    spiked = _find_spiked(model, seen, surprise)
    brokers, held, lasted = _hold_back(brokers, surprise, found.deviation, found.silent, misread, stays, spiked)
    silent = found.silent | held
    brokers = replace(brokers, gave=np.where(shown.waits, gave, 0.0), blame=shown.blame)
    trend = np.where(silent | full, brokers.trend, TREND_KEPT * brokers.trend + found.deviation)
    chance = ~lasted & (np.abs(surprise) <= SURPRISE * np.sqrt(parts.total + reading))
    outdated = ~silent & (~chance | (np.abs(trend) > TREND_TOLD))
    tie = rows.variance * (brokers.pinned[seen.reporter] * rows.before + (rows.there - rows.before))
    if outdated.any():
        least, most_base = np.where(chance, 0.0, (surprise / 2) ** 2), np.where(surprise < 0, brokers.base, np.inf)
        rows, parts = _reopen(seen, rows, parts, outdated, least, found.work, most_base)
        tie = np.where(outdated[seen.reporter], rows.variance * rows.there, tie)
        doubt = np.where(outdated, parts.total, doubt)
        brokers = replace(brokers, pinned=np.where(outdated, 1.0, brokers.pinned))
    doubt = np.minimum(doubt, parts.total)
    brokers = replace(brokers, trend=np.where(outdated, 0.0, trend))
    weight = np.where(silent, 0.0, 1 / (doubt + reading))
    taught = Taught(surprise * weight, np.where(full, 0.0, weight))  # "at least" makes nothing more certain
    left = np.where(silent | full, doubt, doubt * reading / (doubt + reading))
    bundles = taught.bundles(model.bundles, seen, rows, tie)
    brokers = taught.brokers(brokers, parts, found.work, np.nan_to_num(seen.limit))
    certain = sum_by(seen.reporter, rows.there**2 * bundles.variance[seen.bundle], len(brokers.names))
    after = Parts(certain, brokers.base_variance, found.work**2 * brokers.speed_variance)
    rest = seen.usage - brokers.base - brokers.speed * _work(bundles, seen, rows, unit)
    unexplained = lasted & ~full & (np.abs(rest) > SURPRISE * found.noise)  # no part can change that far at once
    pinned = np.clip(left / np.maximum(after.total, TINY), 0.0, 1.0)
    passing = np.where(unexplained, rest, brokers.passing)
    return replace(
        model, brokers=replace(brokers, passing=passing, pinned=pinned, error=np.sqrt(left)), bundles=bundles
    )


@dataclass(frozen=True, eq=False)
class Surprise:
    """[B] how far usage is from what was expected, and how uncertain both are.

    `silent`: nothing is learned there. `work`: CPU of the traffic on the usual broker. `noise`: standard deviation of a
    reading; `reading`: its variance, with what it may not show yet. `doubt`: variance of what was expected, made up of
    `parts`. `deviation`: the amount in standard deviations of both.
    """

    amount: Floats
    silent: Bools
    work: Floats
    noise: Floats
    reading: Floats
    parts: Parts
    doubt: Floats
    deviation: Floats

    @classmethod
    def of(cls, model: UsageModel, seen: Seen, rows: Rows, departed: Departed, unit: Floats, full: Bools) -> Surprise:
        """Of this round."""
        brokers, work = model.brokers, _work(model.bundles, seen, rows, unit)
        expected = brokers.base + brokers.speed * work
        heard = np.isfinite(seen.usage)
        amount = np.where(heard, seen.usage - expected, 0.0)
        amount = np.where(full, np.maximum(amount, 0.0), amount)
        noise = model.noise * np.maximum(expected, np.nan_to_num(seen.usage))
        reading = noise**2 + (LATE * seen.unshown) ** 2 + TINY
        of_bundles = sum_by(seen.reporter, rows.there**2 * rows.variance, len(brokers.names))
        parts = Parts(of_bundles, brokers.base_variance, work**2 * brokers.speed_variance)
        doubt = _doubt(model, seen, rows, departed, parts)
        silent = ~heard | (full & (amount <= 0))
        return cls(amount, silent, work, noise, reading, parts, doubt, amount / np.sqrt(doubt + reading))


def _work(bundles: BundleStates, seen: Seen, rows: Rows, unit: Floats) -> Floats:
    """[B] CPU of brokers' traffic on the usual broker."""
    unnamed = weigh(seen.unnamed, unit)
    return sum_by(seen.reporter, rows.load * bundles.factor[seen.bundle], len(unnamed)) + unnamed


@dataclass(frozen=True, eq=False)
class Taught:
    """[B] what a unit of covariance with the sum changes an estimate by, and a unit of its square a variance."""

    lesson: Floats
    certainty: Floats

    def bundles(self, bundles: BundleStates, seen: Seen, rows: Rows, tie: Floats) -> BundleStates:
        """The bundles afterwards. `tie`: [M] covariance of each factor with its broker's sum."""
        lesson, certainty = self.lesson[seen.reporter], self.certainty[seen.reporter]
        factor, variance = bundles.factor.copy(), bundles.variance.copy()
        carried, carrier = bundles.carried.copy(), bundles.carrier.copy()
        found = factor[seen.bundle] + tie * lesson
        factor[seen.bundle] = np.clip(found, SMALLEST_FACTOR, LARGEST_FACTOR)
        variance[seen.bundle] = np.maximum(rows.variance - tie * tie * certainty, CERTAIN * rows.variance)
        carried[seen.bundle], carrier[seen.bundle] = rows.load, seen.reporter
        return replace(bundles, factor=factor, variance=variance, carried=carried, carrier=carrier)

    def brokers(self, brokers: BrokerStates, parts: Parts, work: Floats, limit: Floats) -> BrokerStates:
        """The brokers afterwards."""
        of_base, of_speed = parts.base * brokers.pinned, parts.speed * brokers.pinned
        by_work = np.where(work > 0, 1.0 / np.maximum(work, TINY), 0.0)
        base_variance = np.maximum(parts.base - of_base**2 * self.certainty, TINY)
        speed_variance = np.where(
            work > 0, np.maximum(parts.speed - of_speed**2 * self.certainty, 0.0) * by_work**2, brokers.speed_variance
        )
        return replace(
            brokers,
            base=np.maximum(brokers.base + of_base * self.lesson, 0.0),
            base_variance=base_variance + FORGETTING * (BASE_SPREAD * limit) ** 2,
            speed=np.clip(brokers.speed + of_speed * by_work * self.lesson, 1 / SLOWEST, SLOWEST),
            speed_variance=speed_variance + FORGETTING * SPEED_SPREAD**2,
        )


def _doubt(model: UsageModel, seen: Seen, rows: Rows, departed: Departed, parts: Parts) -> Floats:
    """[B] variance of the sum of a broker's parts: what was left of it, and what its bundles' changes add."""
    brokers, bundles, count = model.brokers, model.bundles, len(model.brokers.names)
    change = rows.there - rows.before
    still = brokers.pinned[seen.reporter] * rows.before
    arrived = sum_by(seen.reporter, change * (change + 2 * still) * rows.variance, count)
    left, load = departed.broker, departed.load
    gone = sum_by(left, load * load * (1 - 2 * brokers.pinned[left]) * bundles.variance[departed.bundle], count)
    drift = FORGETTING * (parts.base + parts.speed)
    known = np.maximum(np.nan_to_num(brokers.error) ** 2 + arrived + gone + drift, TINY)
    return np.where(np.isnan(brokers.error), parts.total, known)


def _hold_back(
    brokers: BrokerStates,
    surprise: Floats,
    deviation: Floats,
    silent: Bools,
    misread: Bools,
    stays: Bools,
    spiked: Bools,
) -> tuple[BrokerStates, Bools, Bools]:
    """[B] whose surprise is not learned from yet, as nothing explains it and it may end as it began; and whose has
    lasted. `stays`: [B] whose rise was there a minute ago, too; `spiked`: whose rise is a spike if it is over now."""
    beyond = ~silent & ~np.isnan(brokers.error) & ((np.abs(deviation) > SURPRISE) | misread)
    fell = beyond & (deviation < 0) & ~misread
    over = np.where(beyond | silent, 0.0, brokers.above)
    stood_until_now = np.where(fell, brokers.stood, 0.0)
    memory, needed = recall(brokers.burst, brokers.since, over + stood_until_now, NOISE_ROUNDS)
    soon = np.maximum(RISE_PATIENCE, rounds_of_spikes(brokers) + 1)
    needed = np.where(stays & (memory.burst == 0), np.minimum(needed, soon), needed)
    above = np.where(beyond, brokers.above + 1, 0.0)
    held = beyond & (above < np.where(fell, FALL_PATIENCE, needed))
    lasted = beyond & ~held
    stood = np.where(lasted & ~fell, above, np.where((brokers.stood > 0) & ~fell, brokers.stood + 1, 0.0))
    states = replace(
        brokers,
        passing=np.where(held, surprise, 0.0),
        above=np.where(held, above, 0.0),
        stood=np.where(stood <= LONGEST, stood, 0.0),
        burst=memory.burst,
        since=memory.since,
        spikes=count_spikes(brokers.spikes, np.where(spiked, over + stood_until_now, 0.0)),
    )
    return states, held, lasted


def _find_spiked(model: UsageModel, seen: Seen, surprise: Floats) -> Bools:
    """[B] whose rise was so large that it was a spike if it is over now, and is over in truth: what is no longer clear,
    since bundles have moved, may still be there."""
    passing = model.brokers.passing
    height = np.where(passing > 0, passing, -surprise)
    return np.asarray((height >= LEAST_SPIKE * seen.limit) & (surprise < height / 2))


def _is_same_rise(before: Floats, now: Floats) -> Bools:
    """[B] whether both are rises of about the same size. A window that has a part of a spike of a minute, and the next
    one that has the rest of it, seldom are."""
    smaller = np.minimum(before, now)
    return np.asarray((smaller > 0) & (smaller >= SAME * np.maximum(before, now)))


def _reopen(
    seen: Seen, rows: Rows, parts: Parts, outdated: Bools, least: Floats, work: Floats, most_base: Floats
) -> tuple[Rows, Parts]:
    """What was learned of some brokers no longer holds: their parts are as uncertain again as they were once, and each
    at `least` [B], as any of them may be the cause. `work`, `most_base`: as of `Parts.at_least`."""
    again = outdated[seen.reporter]
    variance = np.where(again, np.maximum(rows.variance, RELEARNED**2), rows.variance)
    of_bundles = sum_by(seen.reporter, rows.there**2 * variance, len(outdated))
    wider = replace(parts, bundles=of_bundles).at_least(least, work, most_base)
    grow = np.where(of_bundles > 0, wider.bundles / np.maximum(of_bundles, TINY), 1.0)
    return replace(rows, variance=variance * grow[seen.reporter]), wider
