"""AvgShedder (PIP-364): the fullest broker gives to the emptiest, the second fullest to the second emptiest, and so on.

Hits are counted for each broker of a pair with a large enough gap. When one of the counters reaches its threshold, the
pair sheds and its counters start from zero. The destinations are remembered for the placement (`AvgPlacement`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any, NamedTuple

import numpy as np

from controller.domain.decision import Reason
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import Ints, LoadArrays, Shedding, nothing_movable, quantise
from controller.pulsar.load.load_data import Floats


@dataclass(frozen=True, slots=True)
class HitCounts:
    """Consecutive cycles by broker id. Surprise: a broker's count survives a change of its partner."""

    high: Mapping[str, int] = field(default_factory=dict)
    low: Mapping[str, int] = field(default_factory=dict)


class Pair(NamedTuple):
    """Indices of brokers; `gap` in percentage points."""

    cold: int
    hot: int
    gap: float


class AverageResult(NamedTuple):
    """`destination`: hot broker -> the cold one meant to receive its bundles. `pairs`: those that counted as hits."""

    shedding: Shedding
    hits: HitCounts
    destination: Mapping[int, int]
    pairs: tuple[Pair, ...]


def shed_average(
    load: LoadArrays, hits: HitCounts, knobs: PulsarKnobs, walk: Sequence[int] | None = None
) -> AverageResult:
    """One cycle. `walk`: the brokers in the order before the scores are sorted; None: the order of `load`."""
    scores = load.usage * 100
    counts = _Counts(dict(hits.high), dict(hits.low))
    pairs = _pairs(load.brokers, scores, counts, knobs, walk)
    if not pairs:
        return AverageResult(Shedding(), HitCounts(), {}, ())
    chosen: dict[int, Ints] = {}
    reasons: dict[int, Reason] = {}
    evidence: dict[int, Mapping[str, Any]] = {}
    destination: dict[int, int] = {}
    acting: set[int] = set()
    for pair in pairs:
        names = load.brokers[pair.cold], load.brokers[pair.hot]
        seen = {"gap_points": round(pair.gap, 2), "partner": names[0], "hits": counts.of(names[1])}
        if not counts.full(names, knobs):
            reasons[pair.hot], evidence[pair.hot] = Reason.HIT_COUNT, seen
            continue
        counts.clear(names)
        acting.add(pair.hot)
        rows, why, extra = _select(load, pair, knobs)
        evidence[pair.hot] = {**seen, **extra}
        if len(rows):
            chosen[pair.hot], destination[pair.hot] = rows, pair.cold
        else:
            reasons[pair.hot] = why
    shedding = Shedding(Reason.ABOVE_MEAN, chosen, reasons, evidence, frozenset(acting))
    return AverageResult(shedding, HitCounts(counts.high, counts.low), destination, tuple(pairs))


class _Counts:
    """The two hit counters while a cycle changes them."""

    def __init__(self, high: dict[str, int], low: dict[str, int]) -> None:
        self.high, self.low = high, low

    def note(self, names: tuple[str, str], gap: float, knobs: PulsarKnobs) -> None:
        """Count a pair's gap. Below low it clears both counters, below high only the low one grows, else both grow."""
        low, high = knobs.load_balancer_avg_shedder_low_threshold, knobs.load_balancer_avg_shedder_high_threshold
        if gap < low:
            self.clear(names)
            return
        for name in names:  # an odd middle broker is both names, so its count grows twice
            self.low[name] = self.low.get(name, 0) + 1
            if gap < high:
                self.high.pop(name, None)
            else:
                self.high[name] = self.high.get(name, 0) + 1

    def full(self, names: tuple[str, str], knobs: PulsarKnobs) -> bool:
        """Whether any of the pair's four counters has reached its threshold."""
        high = knobs.load_balancer_avg_shedder_hit_count_high_threshold
        low = knobs.load_balancer_avg_shedder_hit_count_low_threshold
        return any(self.high.get(name, 0) >= high or self.low.get(name, 0) >= low for name in names)

    def clear(self, names: tuple[str, str]) -> None:
        for name in names:
            self.high.pop(name, None)
            self.low.pop(name, None)

    def of(self, name: str) -> int:
        """The larger of a broker's counters, for the evidence."""
        return max(self.high.get(name, 0), self.low.get(name, 0))


def _pairs(
    brokers: tuple[str, ...], scores: Floats, counts: _Counts, knobs: PulsarKnobs, walk: Sequence[int] | None
) -> list[Pair]:
    """Pairs with a gap of at least the low threshold, starting with lowest and highest; hits are counted for all pairs.

    Surprise: Pulsar compares int(difference), so brokers less than a point apart count as equal. That is not an order:
    the initial order decides which of them comes first, a hash map's order in Pulsar and `walk` here.
    """
    values = scores.tolist()
    order = sorted(
        range(len(brokers)) if walk is None else walk, key=cmp_to_key(lambda a, b: int(values[a] - values[b]))
    )
    found = []
    for i in range((len(order) + 1) // 2):  # an odd middle broker is paired with itself: its gap is 0
        cold, hot = order[i], order[len(order) - 1 - i]
        gap = values[hot] - values[cold]
        counts.note((brokers[cold], brokers[hot]), gap, knobs)
        if not gap < knobs.load_balancer_avg_shedder_low_threshold:
            found.append(Pair(cold, hot, gap))
    return found


def _select(load: LoadArrays, pair: Pair, knobs: PulsarKnobs) -> tuple[Ints, Reason, dict[str, Any]]:
    """The hot broker's bundles to move, the reason if there are none, and the figures behind the choice.

    The measure is messages/s, or bytes/s if too few messages would move: the budget is even negative where the hot
    broker has fewer messages than the cold one. Surprise: Pulsar moves a sole bundle too, and only logs a warning.
    """
    cold, hot, _ = pair
    by_rate = float(load.msg_rate[hot] - load.msg_rate[cold]) * knobs.max_unload_percentage
    by_throughput = float(load.throughput[hot] - load.throughput[cold]) * knobs.max_unload_percentage
    seen = {"score": quantise(load.usage[hot]), "partner_score": quantise(load.usage[cold])}
    if by_rate > knobs.min_unload_message:
        values, budget, seen["msg_rate_to_shed"] = load.short_msg_rate, by_rate, round(by_rate)
    elif by_throughput > knobs.min_unload_message_throughput:
        values, budget, seen["throughput_to_shed"] = load.short_throughput, by_throughput, round(by_throughput)
    else:
        return np.zeros(0, np.int64), Reason.NOT_WORTH_MOVING, seen
    rows = _within(*load.heaviest_first(hot, values), budget)
    return rows, nothing_movable(load, hot), seen


def _within(rows: Ints, values: Floats, budget: float) -> Ints:
    """The rows, from the largest value down, that are above 0 and fit into the rest of the budget."""
    falling = (-values).tolist()
    taken: list[int] = []
    at = bisect_left(falling, -budget)  # the first that fits; no earlier one ever will
    while at < len(falling) and falling[at] < 0:
        taken.append(at)
        budget += falling[at]
        at = max(at + 1, bisect_left(falling, -budget))
    return rows[taken]
