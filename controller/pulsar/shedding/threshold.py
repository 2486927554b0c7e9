"""ThresholdShedder: brokers well above the cluster's mean usage shed. It was Pulsar's default until 2026.

Usage is a historical average that the leader keeps for each broker. Surprises: it lags behind (with 0.9 per cycle its
half-life is 6.6 cycles) while the grace period is per bundle, so a broker relieved long ago keeps shedding its other
bundles; and clusters such as 12, 2, 1, 1 % or five at 50 % and one at 0 % never shed (PIP-220).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import Ints, LoadArrays, Shedding, enough, nothing_movable, quantise
from controller.pulsar.load.load_data import MIB, Floats, next_history
from controller.pulsar.shedding.overload import ADDITIONAL_THRESHOLD_PERCENT_MARGIN

LOWER_BOUNDARY_THRESHOLD_MARGIN = 0.5  # the share of the threshold that the hottest broker sheds for the idlest


class ThresholdResult(NamedTuple):
    """`history`: [B] after the cycle. `mean`: its mean in the last pass of the cycle."""

    shedding: Shedding
    history: Floats
    mean: float


def shed_threshold(load: LoadArrays, history: Floats, knobs: PulsarKnobs) -> ThresholdResult:
    """One cycle. `history`: [B] fractions from the previous cycle, NaN for a broker without one."""
    history, mean = _average(load, history, knobs)
    if mean == 0:
        return ThresholdResult(Shedding(), history, mean)
    shedding = _upper_boundary(load, history, mean, knobs)
    if not shedding.rows and knobs.lower_boundary_shedding_enabled:
        # Surprise: computing the mean again advances the history a second time in the same cycle
        history, mean = _average(load, history, knobs)
        shedding = _lower_boundary(load, history, mean, knobs, shedding)
    return ThresholdResult(shedding, history, mean)


def _average(load: LoadArrays, history: Floats, knobs: PulsarKnobs) -> tuple[Floats, float]:
    history = next_history(history, load.usage, knobs.load_balancer_history_resource_percentage)
    # summed one by one as in Java: numpy's sum adds pairwise, and the last digit decides if a threshold is just met
    return history, float(np.cumsum(history)[-1]) / len(history) if len(history) else 0.0


def _upper_boundary(load: LoadArrays, history: Floats, mean: float, knobs: PulsarKnobs) -> Shedding:
    """What the brokers at or above mean + threshold shed.

    Surprise: Pulsar's documentation promises 5 % below the mean, but the goal is mean + threshold - 5 %.
    """
    threshold = knobs.load_balancer_broker_threshold_shedder_percentage / 100.0
    least = knobs.load_balancer_bundle_unload_min_throughput_threshold * MIB
    chosen: dict[int, Ints] = {}
    reasons: dict[int, Reason] = {}
    evidence: dict[int, dict[str, Any]] = {}
    hot = np.flatnonzero(~(history < mean + threshold)).tolist()
    for at in hot:
        needed = load.throughput[at] * (history[at] - mean - threshold + ADDITIONAL_THRESHOLD_PERCENT_MARGIN)
        evidence[at] = _evidence(history[at], threshold, needed)
        if needed < least:
            reasons[at] = Reason.NOT_WORTH_MOVING
        elif len(rows := _select(load, at, needed)):
            chosen[at] = rows
        else:
            reasons[at] = Reason.NO_BUNDLES if load.bundle_count[at] <= 1 else nothing_movable(load, at)
    return Shedding(Reason.ABOVE_MEAN, chosen, reasons, evidence, frozenset(hot))


def _lower_boundary(load: LoadArrays, history: Floats, mean: float, knobs: PulsarKnobs, upper: Shedding) -> Shedding:
    """If some broker is well below the mean, the hottest broker with more than one bundle sheds a little."""
    threshold = knobs.load_balancer_broker_threshold_shedder_percentage / 100.0
    least = knobs.load_balancer_bundle_unload_min_throughput_threshold * MIB
    everybody = frozenset(range(len(load.brokers)))  # the number of bundles of each matters
    fits = (history > mean - threshold) & (load.bundle_count > 1)
    if not fits.any() or not (history < mean - threshold).any():
        return Shedding(upper.cause, {}, upper.reasons, upper.evidence, everybody)
    at = int(np.argmax(np.where(fits, history, -np.inf)))  # the first of equals
    needed = load.throughput[at] * threshold * LOWER_BOUNDARY_THRESHOLD_MARGIN
    evidence = {**upper.evidence, at: {**_evidence(history[at], threshold, needed), "pass": "lower_boundary"}}
    rows = np.zeros(0, np.int64) if least > needed else _select(load, at, needed)  # equality passes
    if len(rows):
        return Shedding(Reason.UNDERLOADED, {at: rows}, upper.reasons, evidence, everybody)
    why = Reason.NOT_WORTH_MOVING if least > needed else nothing_movable(load, at)
    return Shedding(upper.cause, {}, {**upper.reasons, at: why}, evidence, everybody)


def _select(load: LoadArrays, at: int, needed: float) -> Ints:
    """The broker's rows to shed. A broker with one bundle keeps it."""
    if load.bundle_count[at] <= 1:
        return np.zeros(0, np.int64)
    return enough(*load.heaviest_first(at, load.short_throughput), needed)


def _evidence(history: float, threshold: float, needed: float) -> dict[str, Any]:
    return {
        "history": quantise(history),
        "threshold": quantise(threshold),
        "throughput_to_shed": round(max(-(2.0**62), min(2.0**62, float(needed)))),
    }
