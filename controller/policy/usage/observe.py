"""One round's lesson: every broker's usage against what its base and its bundles' traffic were expected to cost.

The difference is shared out by how uncertain each part is (a Kalman filter with a diagonal covariance). Usage at its
limit says "at least": it raises estimates and never lowers one, and it makes nothing more certain. A difference that
cannot be chance is as likely in the base (something else runs there), in the speed (the machine became slow) and in the
bundles; which of them it was shows when bundles move. Only what is known of the very process counts: a restarted broker
starts anew (`bases.py`).

Deterministic: sums in the order of rows, no BLAS, no transcendental functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from types import MappingProxyType

import numpy as np

from controller.domain.load import RESOURCE_SCALES, RESOURCES
from controller.policy.usage.bases import begin_bases, raise_bases
from controller.policy.usage.bursts import PATIENCE, find_spikes, follow, reprice
from controller.policy.usage.departed import describe_evidence
from controller.policy.usage.drivers import DRIVER_COLUMNS, DRIVERS, Drivers, cost_of, learn_drivers
from controller.policy.usage.figures import Figure
from controller.policy.usage.lesson import SLOWEST, TINY, Bools, learn
from controller.policy.usage.model import FACTOR_SPREAD, UsageModel
from controller.policy.usage.network import BYTES, follow_networks
from controller.policy.usage.noise import follow_noise
from controller.policy.usage.readings import follow_readings
from controller.policy.usage.seen import CPU, FULL, Seen, sum_by, sums_by, weigh
from controller.policy.view.costs import Floats
from controller.policy.view.estimates import NETWORKS, PERMILLE, Estimates
from controller.policy.view.frame import MOVING, NOBODY, Frame, Ints, count_held
from controller.policy.view.median import median

LEAST_USUAL = 0.1  # of a broker's usage
LEAST_TOLD = 0.1  # of all traffic: brokers with less say little of what it costs
MISREAD, LEAST_READ = 5.0, 0.05  # times what a broker uses; which counts as so much of its limit at least
OUTLIER = 4.0  # medians: a larger step is no wandering
WANDER_PACE = 0.15
MOST_STEPS = 4.0  # times the usual variance, that one round counts for: a single jump is no wandering
LEAST_WANDER = 0.01  # of the mean usage, that counts as usual
RECONNECT_MS = 180_000  # after a move
LARGEST = 2.0**53  # of an estimate in whole units: a sum of a few still fits


def observe(
    model: UsageModel,
    frame: Frame,
    by_traffic: bool = False,
    figures: Mapping[str, Figure] = MappingProxyType({}),
    *,
    grace_ms: int,
) -> tuple[UsageModel, Estimates]:
    """The model after this round, and what it makes of the frame. `by_traffic`: readings are not believed where traffic
    has suddenly changed. `figures`: see `follow_readings`. `grace_ms`: for so long a bundle that moved stays."""
    seen = Seen.of(frame)
    model = model.aligned(frame.brokers, frame.bundles).forget_ended(frame.broker("incarnation"))
    full = seen.usage >= FULL * seen.limit
    misread, read = _misread(model, seen), model.brokers.reading
    seen = _as_before(model, seen, misread) if misread.any() else seen
    model, seen = follow_readings(model, seen, by_traffic, figures)
    telling = _telling(model, seen, full)
    usual = np.maximum(seen.usage - _peculiar(model, seen), LEAST_USUAL * seen.usage)
    spread = _spread_of_bundles(seen)
    before = model.drivers
    model = raise_bases(model, seen)
    drivers = learn_drivers(model.drivers, seen.traffic[telling], usual[telling], spread[telling])
    bundles = reprice(model.bundles, _change_of_unit(before, drivers, seen))
    model = begin_bases(replace(model, rounds=model.rounds + 1, drivers=drivers, bundles=bundles), seen)
    model = follow_noise(model, seen, read)
    if drivers is not None:
        model = learn(model, seen, drivers.unit, full, misread)
    model, correction, network_spike = follow_networks(model, frame, seen)
    return _estimate(model, frame, seen, (correction, network_spike), grace_ms)


def _telling(model: UsageModel, seen: Seen, full: Bools) -> Bools:
    """[B] whose usage says what traffic costs. At its limit it says "at least", which is the first price where hardly
    anything else was seen."""
    below = np.isfinite(seen.usage) & ~full
    totals = seen.traffic.sum(axis=0)
    told = float((seen.traffic[below].sum(axis=0) / np.where(totals > 0, totals, 1.0)).max())
    return below if model.drivers is not None or told >= LEAST_TOLD else below | full


def _misread(model: UsageModel, seen: Seen) -> Bools:
    """[B] whose traffic should suddenly cost a multiple of what they use, unlike that of others. That is not believed
    before it has lasted; then it is learned as cheap bundles."""
    heard = np.isfinite(seen.usage)
    if model.drivers is None or not heard.any():
        return np.zeros(len(heard), bool)
    expected = weigh(seen.traffic, model.drivers.unit) + _peculiar(model, seen)
    carried = model.bundles.carried * model.bundles.factor
    there = model.bundles.carrier >= 0
    before = sum_by(model.bundles.carrier[there].astype(np.int64), carried[there], len(heard))
    misread = heard & (model.brokers.above < PATIENCE - 1)
    half = (int(heard.sum()) - 1) // 2
    for usual in (seen.usage, before):  # the same contradiction to both, and not the cluster's
        times = expected / np.maximum(np.maximum(usual, LEAST_READ * seen.limit), TINY)
        middle = np.partition(times[heard], half)[half]
        misread &= times > MISREAD * max(1.0, float(middle))
    return misread


def _as_before(model: UsageModel, seen: Seen, misread: Bools) -> Seen:
    """With the traffic of the round before for the bundles of these brokers [B]."""
    assert model.drivers is not None
    cost, bundles = weigh(seen.rows, model.drivers.unit), model.bundles
    stayed = misread[seen.reporter] & (bundles.carrier[seen.bundle] == seen.reporter) & (cost > 0)
    ratio = np.where(stayed, bundles.carried[seen.bundle] / np.where(cost > 0, cost, 1.0), 1.0)
    of_bundle = np.ones(len(bundles.names))
    of_bundle[seen.bundle[stayed]] = ratio[stayed]
    rows = seen.rows * ratio[:, None]
    change = sums_by(seen.reporter, rows - seen.rows, len(misread))
    return replace(seen, rows=rows, full=seen.full * of_bundle[:, None], traffic=np.maximum(seen.traffic + change, 0.0))


def _change_of_unit(before: Drivers | None, after: Drivers | None, seen: Seen) -> float:
    """How many times as much the same traffic is thought to cost as in the round before."""
    if before is None or after is None:
        return 1.0
    totals = seen.traffic.sum(axis=0)
    old, new = cost_of(totals, before.unit), cost_of(totals, after.unit)
    return new / old if old > 0 and new > 0 else 1.0


def _peculiar(model: UsageModel, seen: Seen) -> Floats:
    """[B] CPU that brokers use more than usual for their traffic, as their bundles are known to cost more or less.

    Balanced brokers use the same whatever their traffic is; without this they would seem to have a large base.
    """
    if model.drivers is None:
        return np.zeros(len(seen.usage))
    more = weigh(seen.rows, model.drivers.unit) * (model.bundles.factor[seen.bundle] - 1)
    return sum_by(seen.reporter, more, len(seen.usage))


def _spread_of_bundles(seen: Seen) -> Floats:
    """[B] how far what a broker's bundles cost together may be from the average: the less, the more they are."""
    count, totals = len(seen.usage), seen.traffic.sum(axis=0)
    parts = (seen.rows / np.where(totals > 0, totals, 1.0)).sum(axis=1)
    together = sum_by(seen.reporter, parts, count)
    alone = np.sqrt(sum_by(seen.reporter, parts * parts, count))
    return FACTOR_SPREAD * np.where(together > 0, alone / np.where(together > 0, together, 1.0), 1.0)


def _estimate(
    model: UsageModel, frame: Frame, seen: Seen, of_networks: tuple[Ints, Ints], grace_ms: int
) -> tuple[UsageModel, Estimates]:
    unit = model.drivers.unit if model.drivers is not None else np.zeros(len(DRIVER_COLUMNS))
    heard = np.bincount(seen.bundle, minlength=len(frame.bundles)) > 0
    load = weigh(seen.full, unit)
    before = model.bundles.usual
    returning = _may_return(frame)
    bundles, lasting = follow(model.bundles, load, heard.astype(np.float64), returning)
    model = replace(model, bundles=bundles)
    load = np.where(returning & (bundles.above < 0), bundles.usual, load)
    cost = load * bundles.factor
    error = load * np.sqrt(bundles.variance)
    owner, count = frame.bundle("owner"), len(frame.brokers)
    moved = np.where(before >= 0, bundles.factor * (bundles.usual - before), 0.0)
    model = _follow_steps(model, _sum_by_owner(owner, moved, count), seen.usage)
    brokers = model.brokers
    work = _sum_by_owner(owner, cost, count) + weigh(seen.unnamed, unit)
    base = np.where(np.isnan(brokers.base), 0.0, brokers.base)
    used = base + brokers.speed * work + brokers.passing
    speed = brokers.speed + np.where(work > 0, np.maximum(brokers.passing, 0.0) / np.where(work > 0, work, 1.0), 0.0)
    speed = np.minimum(speed, SLOWEST)
    scale = RESOURCE_SCALES[CPU]
    passing = _sum_by_owner(owner, cost * (1 - lasting), count) * brokers.speed + brokers.passing
    burst = np.zeros((count, len(RESOURCES)), np.int64)
    burst[:, CPU] = _whole(passing * scale)
    correction, network_spike = of_networks
    for column, name in enumerate(NETWORKS):
        at = RESOURCES.index(name)
        amount = _sum_by_owner(owner, seen.full[:, DRIVERS.index(BYTES[name])] * (1 - lasting), count)
        burst[:, at] = _whole(amount * RESOURCE_SCALES[at]) + network_spike[:, column]
    return model, Estimates(
        brokers=_whole_columns((used, scale), (np.nan_to_num(brokers.error), scale), (base, scale), (speed, PERMILLE)),
        burst=burst,
        correction=correction,
        bundles=_whole_columns((cost, scale), (error, scale), (lasting, PERMILLE), (bundles.burst, 1)),
        rounds=model.rounds,
        wander_permille=round(PERMILLE * sqrt(max(0.0, model.wander or 0.0))),
        cpu_settled=_whole(speed * _settled(frame, cost, grace_ms) * scale),
        cpu_read=_whole(np.nan_to_num(seen.usage) * scale),
        cpu_spike=_whole(np.where(find_spikes(brokers, seen.limit), brokers.passing, 0.0) * scale),
        network_spike=network_spike,
        base_tested=describe_evidence(brokers),
        held=count_held(owner, count),
    )


def _may_return(frame: Frame) -> Bools:
    """[N] that have just moved: if they carry clearly less than usual, their clients are still coming back."""
    moved_at_ms = frame.bundle("moved_at_ms")  # 0: never
    return np.asarray((moved_at_ms > 0) & (frame.at_ms - moved_at_ms <= RECONNECT_MS))


def _sum_by_owner(owner: Ints, values: Floats, count: int) -> Floats:
    """[count] sums of what bundles have [N], by owner; those that nobody owns are left out."""
    return np.asarray(np.bincount(owner - NOBODY, values, count + 1)[1:], np.float64)


def _settled(frame: Frame, cost: Floats, grace_ms: int) -> Floats:
    """[B] of brokers' work, the part for bundles that neither moved lately nor move now."""
    owner, moved_at_ms = frame.bundle("owner"), frame.bundle("moved_at_ms")  # 0: never moved
    stayed = (moved_at_ms == 0) | (frame.at_ms - moved_at_ms >= grace_ms)
    stayed &= frame.bundle("status") != MOVING
    return _sum_by_owner(owner[stayed], cost[stayed], len(frame.brokers))


def _follow_steps(model: UsageModel, change: Floats, usage: Floats) -> UsageModel:
    """How far brokers' loads wander. Noise goes back what it came: of two steps in a row its part cancels out, as the
    covariance of noise is half its variance, and negative."""
    known = np.isfinite(usage)
    mean = float(usage[known].mean()) if known.any() else 0.0
    if mean <= 0:
        return model
    middle = median(change[known])
    step = np.where(known, (change - middle) / mean, np.nan)
    most = OUTLIER * median(np.abs(step[known])) + TINY
    step = np.clip(step, -most, most)
    both = np.isfinite(step) & np.isfinite(model.brokers.step)
    wander = model.wander
    if both.any():
        now = float((step[both] ** 2).mean() + 2 * (step[both] * model.brokers.step[both]).mean())
        if wander is None:
            wander = now
        else:
            most = MOST_STEPS * max(wander, LEAST_WANDER**2)
            wander += WANDER_PACE * (min(max(now, -most), most) - wander)
    return replace(model, wander=wander, brokers=replace(model.brokers, step=step))


def _whole(values: Floats) -> Ints:
    return np.rint(np.clip(values, -LARGEST, LARGEST)).astype(np.int64)


def _whole_columns(*columns: tuple[Floats, int]) -> Ints:
    """[rows x columns] of each column times its scale; one column after the other in memory."""
    result = np.empty((len(columns), len(columns[0][0])), np.int64)
    for at, (values, scale) in enumerate(columns):
        result[at] = _whole(values * scale)
    return result.T
