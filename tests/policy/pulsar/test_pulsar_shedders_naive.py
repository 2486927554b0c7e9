"""The vectorised shedders against the plainest possible loops, on random clusters with ties and idle bundles."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.arrays import LoadArrays
from controller.pulsar.load.load_data import MIB
from controller.pulsar.shedding.average import HitCounts, shed_average
from controller.pulsar.shedding.overload import shed_overload
from controller.pulsar.shedding.threshold import shed_threshold
from controller.pulsar.shedding.uniform import shed_uniform

Unloads = dict[int, list[int]]


def random_cluster(rng: random.Random) -> LoadArrays:
    brokers = rng.randint(1, 8)
    count = rng.randint(0, 60)
    holder = np.array([rng.randrange(brokers) for _ in range(count)], np.int64)
    rates = np.array([rng.choice([0.0, 500.0, rng.uniform(0, 4e4)]) for _ in range(count)], float)
    sizes = np.array([rng.choice([0.0, 2.0 * MIB, rng.uniform(0, 90.0 * MIB)]) for _ in range(count)], float)
    return LoadArrays(
        brokers=tuple(f"b{at}" for at in range(brokers)),
        usage=np.array([rng.choice([0.1, 0.85, rng.random()]) for _ in range(brokers)]),
        msg_rate=np.bincount(holder, rates, brokers),
        throughput=np.bincount(holder, sizes, brokers),
        bundle_count=np.bincount(holder, minlength=brokers).astype(np.int64),
        bundles=tuple(f"t/ns/{at}" for at in range(count)),
        holder=holder,
        short_msg_rate=rates,
        short_throughput=sizes,
        barred=np.array([rng.random() < 0.1 for _ in range(count)], bool),
    )


def candidates(load: LoadArrays, broker: int, by_rate: bool) -> list[tuple[float, int]]:
    """(value, row) from the largest down."""
    rows = [at for at in range(len(load.bundles)) if load.holder[at] == broker and not load.barred[at]]
    first, second = (load.short_msg_rate, load.short_throughput)[:: 1 if by_rate else -1]
    return [(float(first[at]), at) for at in sorted(rows, key=lambda at: (-first[at], -second[at], at))]


def until_enough(load: LoadArrays, broker: int, need: float) -> list[int]:
    marked, taken = 0.0, []
    for value, row in candidates(load, broker, by_rate=False) if load.bundle_count[broker] > 1 else []:
        if marked < need or not taken:
            taken.append(row)
            marked += value
    return taken


def naive_overload(load: LoadArrays, knobs: PulsarKnobs) -> Unloads:
    result = {}
    limit = knobs.load_balancer_broker_overloaded_threshold_percentage / 100
    for at, usage in enumerate(load.usage):
        if not usage < limit:
            result[at] = until_enough(load, at, load.throughput[at] * (usage - limit + 0.05))
    return {at: rows for at, rows in result.items() if rows}


def naive_threshold(load: LoadArrays, history: dict[int, float], knobs: PulsarKnobs) -> Unloads:
    """One cycle; the history is changed in place."""

    def mean() -> float:
        weight = knobs.load_balancer_history_resource_percentage
        total = 0.0
        for at, usage in enumerate(load.usage):
            history[at] = history[at] * weight + (1 - weight) * usage if at in history else usage
            total += history[at]
        return total / len(load.brokers)

    limit = knobs.load_balancer_broker_threshold_shedder_percentage / 100
    least = knobs.load_balancer_bundle_unload_min_throughput_threshold * MIB
    average = mean()
    result: Unloads = {}
    if average == 0:
        return result
    for at in range(len(load.brokers)):
        need = load.throughput[at] * (history[at] - average - limit + 0.05)
        if not history[at] < average + limit and need >= least:
            result[at] = until_enough(load, at, need)
    result = {at: rows for at, rows in result.items() if rows}
    if not result and knobs.lower_boundary_shedding_enabled:
        average = mean()
        hottest, most = None, average - limit
        for at in range(len(load.brokers)):
            if history[at] > most and load.bundle_count[at] > 1:
                hottest, most = at, history[at]
        if hottest is not None and any(value < average - limit for value in history.values()):
            need = load.throughput[hottest] * limit * 0.5
            if least <= need and (rows := until_enough(load, hottest, need)):
                result = {hottest: rows}
    return result


def naive_uniform(load: LoadArrays, knobs: PulsarKnobs) -> Unloads:
    def extremes(values: list[float]) -> tuple[int, float, float]:
        most, least, top = -1.0, float(2**31 - 1), 0
        for at, value in enumerate(values):
            if value > most:
                most, top = value, at
            least = min(least, value)
        return top, most, 1.0 if abs(least) <= 1e-6 else least

    for by_rate, values in ((True, load.msg_rate.tolist()), (False, load.throughput.tolist())):
        top, most, least = extremes(values)
        gap, ratio = (most - least) * 100 / least, most / least
        over = gap > 50 if by_rate else ratio > 4
        if not over:
            continue
        budget = int((most - least) * knobs.max_unload_percentage)
        minimum = knobs.min_unload_message if by_rate else knobs.min_unload_message_throughput
        taken: list[int] = []
        for value, row in candidates(load, top, by_rate) if load.bundle_count[top] > 1 and budget >= minimum else []:
            full = 0 <= knobs.max_unload_bundle_num_per_shedding <= len(taken)
            if not full and value <= budget + 1000:
                taken.append(row)
                budget -= int(value)
        return {top: taken} if taken else {}
    return {}


def naive_average(load: LoadArrays, knobs: PulsarKnobs) -> tuple[Unloads, dict[int, int]]:
    """The bundles of pairs that act at once: every threshold of hits is 1. Usages here are points apart or equal."""
    order = sorted(range(len(load.brokers)), key=lambda at: load.usage[at])
    result: Unloads = {}
    where = {}
    for i in range(len(order) // 2):
        cold, hot = order[i], order[-1 - i]
        if load.usage[hot] * 100 - load.usage[cold] * 100 < knobs.load_balancer_avg_shedder_low_threshold:
            continue
        by_rate = True
        budget = (load.msg_rate[hot] - load.msg_rate[cold]) * knobs.max_unload_percentage
        if not budget > knobs.min_unload_message:
            by_rate = False
            budget = (load.throughput[hot] - load.throughput[cold]) * knobs.max_unload_percentage
            if not budget > knobs.min_unload_message_throughput:
                continue
        taken = []
        for value, row in candidates(load, hot, by_rate):
            if 0 < value <= budget:
                taken.append(row)
                budget -= value
        if taken:
            result[hot], where[hot] = taken, cold
    return result, where


@pytest.mark.covers("shed-part", "busiest-first", "traffic-as-proxy")
@pytest.mark.parametrize("seed", range(150))
def test_the_shedders_agree_with_plain_loops(seed: int) -> None:
    rng = random.Random(seed)
    load = random_cluster(rng)
    knobs = PulsarKnobs(
        max_unload_percentage=rng.choice([0.2, 0.5]),
        max_unload_bundle_num_per_shedding=rng.choice([-1, 1, 3]),
        lower_boundary_shedding_enabled=rng.random() < 0.5,
    )
    assert as_lists(shed_overload(load, knobs).rows) == naive_overload(load, knobs)
    assert as_lists(shed_uniform(load, knobs).rows) == naive_uniform(load, knobs)
    history: dict[int, float] = {}
    kept = np.full(len(load.brokers), np.nan)
    for _ in range(3):
        result = shed_threshold(load, kept, knobs)
        assert as_lists(result.shedding.rows) == naive_threshold(load, history, knobs)
        kept = result.history
        assert kept.tolist() == list(history.values())
        load = replace(load, usage=np.array([rng.random() for _ in load.brokers]))


@pytest.mark.parametrize("seed", range(100))
def test_average_agrees_with_plain_loops(seed: int) -> None:
    rng = random.Random(seed)
    load = random_cluster(rng)
    load = replace(load, usage=np.array(rng.sample(range(0, 100, 2), len(load.brokers))) / 100)
    knobs = PulsarKnobs(
        max_unload_percentage=rng.choice([0.2, 0.5]),
        load_balancer_avg_shedder_hit_count_high_threshold=1,
        load_balancer_avg_shedder_hit_count_low_threshold=1,
    )
    result = shed_average(load, HitCounts(), knobs)
    unloads, where = naive_average(load, knobs)
    assert as_lists(result.shedding.rows) == unloads
    assert dict(result.destination) == where


def test_the_random_clusters_give_each_shedder_something_to_do() -> None:
    clusters = [random_cluster(random.Random(seed)) for seed in range(150)]
    knobs = PulsarKnobs()
    fresh = [np.full(len(load.brokers), np.nan) for load in clusters]
    assert sum(bool(shed_overload(load, knobs).rows) for load in clusters) > 30
    assert sum(bool(shed_uniform(load, knobs).rows) for load in clusters) > 30
    assert sum(bool(shed_threshold(load, h, knobs).shedding.rows) for load, h in zip(clusters, fresh, strict=True)) > 30


def as_lists(rows: object) -> Unloads:
    return {at: held.tolist() for at, held in dict(rows).items()}  # type: ignore[call-overload]
