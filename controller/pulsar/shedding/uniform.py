"""UniformLoadShedder: the broker with the most traffic sheds when it is too far above the one with the least.

It compares only messages/s or bytes/s, never usage, and relieves one broker per cycle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import Ints, LoadArrays, Shedding, nothing_movable
from controller.pulsar.load.load_data import Floats

EPS = 1e-6
DELTA = 1_000  # Surprise: messages/s in one branch, bytes/s in the other
INT_MAX = 2**31 - 1


class _Extremes(NamedTuple):
    """The broker with the most, its value, and the value of the broker with the least."""

    broker: int
    most: float
    least: float


def shed_uniform(load: LoadArrays, knobs: PulsarKnobs) -> Shedding:
    """What the broker with the most messages/s sheds, else the one with the most bytes/s; never both."""
    if not load.brokers:
        return Shedding()
    rate, throughput = _extremes(load.msg_rate), _extremes(load.throughput)
    gap_pct = (rate.most - rate.least) * 100 / rate.least
    ratio = throughput.most / throughput.least
    gap_limit = knobs.load_balancer_msg_rate_difference_shedder_threshold
    ratio_limit = knobs.load_balancer_msg_throughput_multiplier_difference_shedder_threshold
    if gap_limit > 0 and gap_pct > gap_limit:
        seen = {"by": "msg_rate", "gap_pct": round(gap_pct), "most": round(rate.most), "least": round(rate.least)}
        return _shed(load, load.short_msg_rate, rate, knobs.min_unload_message, knobs, seen)
    if ratio_limit > 0 and ratio > ratio_limit:
        seen = {"by": "throughput", "ratio_pct": round(ratio * 100), "most": round(throughput.most)}
        seen["least"] = round(throughput.least)
        return _shed(load, load.short_throughput, throughput, knobs.min_unload_message_throughput, knobs, seen)
    return Shedding()


def _extremes(values: Floats) -> _Extremes:
    """The extremes; the first broker wins a tie.

    Surprise: the least starts at 2^31 - 1 and stays there if every broker has more. A least of 0 counts as 1, to avoid
    a division by zero.
    """
    least = min(float(values.min()), float(INT_MAX))
    return _Extremes(int(np.argmax(values)), float(values.max()), 1.0 if abs(least) <= EPS else least)


def _shed(
    load: LoadArrays, values: Floats, found: _Extremes, minimum: int, knobs: PulsarKnobs, seen: dict[str, Any]
) -> Shedding:
    at = found.broker
    budget = _to_int((found.most - found.least) * knobs.max_unload_percentage)
    evidence = {at: {**seen, "to_shed": budget}}
    if load.bundle_count[at] <= 1:
        return Shedding(reasons={at: Reason.NO_BUNDLES}, evidence=evidence, looked_into=frozenset({at}))
    if budget < minimum:
        return Shedding(reasons={at: Reason.NOT_WORTH_MOVING}, evidence=evidence, looked_into=frozenset({at}))
    rows = walk(*load.heaviest_first(at, values), budget, knobs.max_unload_bundle_num_per_shedding)
    if not len(rows):
        return Shedding(reasons={at: nothing_movable(load, at)}, evidence=evidence, looked_into=frozenset({at}))
    return Shedding(Reason.ABOVE_MEAN, {at: rows}, {}, evidence, frozenset({at}))


def walk(rows: Ints, values: Floats, budget: int, most_bundles: int) -> Ints:
    """The rows to take, from the largest value down, within the budget. `most_bundles` of -1: no limit.

    Surprises: a bundle may exceed the rest of the budget by DELTA; bundles that are too large are skipped; idle bundles
    are taken as long as the budget is above -DELTA (later versions of Pulsar leave them out); and sums have 32 bits, so
    a budget within DELTA of the largest int overflows and nothing is taken.
    """
    taken: list[int] = []
    if budget + DELTA > INT_MAX:
        return np.zeros(0, np.int64)
    for row, value in zip(rows.tolist(), values.tolist(), strict=True):
        if len(taken) >= most_bundles != -1 or budget + DELTA < 0:
            break
        if value <= budget + DELTA:
            budget -= int(value)
            taken.append(row)
    return np.array(taken, np.int64)


def _to_int(value: float) -> int:
    """Java's cast to int: truncated, clamped to 32 bits, 0 for NaN."""
    return 0 if value != value else int(max(-(2.0**31), min(float(INT_MAX), value)))
