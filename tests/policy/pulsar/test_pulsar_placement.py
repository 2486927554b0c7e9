"""Pulsar's modular placements and the pipeline in front of them, with every surprise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_data import (
    DEFAULT_STATS,
    BundleData,
    NamespaceBundleStats,
    TimeAverageBrokerData,
    next_history,
)
from controller.pulsar.load.time_averages import next_averages
from controller.pulsar.placement.broker_selection import BrokerSelection
from controller.pulsar.placement.filters import BadBrokerVersion
from controller.pulsar.placement.lookup import LookupPlacement
from controller.pulsar.placement.strategies import (
    INT_MAX,
    AvgPlacement,
    BrokerLoads,
    BundleToPlace,
    Draw,
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    PlacementStrategy,
    RoundRobinBrokerSelector,
)

KNOBS = PulsarKnobs()
BUNDLE = BundleToPlace(100.0, "content")


def loads(usage: list[float], rates: list[float] | None = None, bundles: list[int] | None = None) -> BrokerLoads:
    count = len(usage)
    return BrokerLoads(
        tuple(f"b{at}" for at in range(count)),
        np.array(usage),
        np.full(count, 200.0),
        np.array(bundles or [1] * count),
        np.array(rates or [0.0] * count, float),
    )


def everybody(brokers: BrokerLoads) -> np.ndarray:
    return np.arange(len(brokers.brokers))


def selection(
    brokers: BrokerLoads, placement: PlacementStrategy, knobs: PulsarKnobs = KNOBS, **given: list[int]
) -> BrokerSelection:
    count = len(brokers.brokers)
    topics = np.array(given.get("topics", [0] * count))
    spread = np.array(given.get("spread", [0] * count))
    return BrokerSelection(brokers, brokers.usage, topics, lambda namespace: spread, placement, knobs)


def test_least_long_term_message_rate_ignores_usage_below_the_threshold() -> None:
    placement = LeastLongTermMessageRate(KNOBS, Draw(1))
    brokers = loads([0.84, 0.0, 0.1], [10.0, 20.0, 30.0])
    assert placement.select(everybody(brokers), BUNDLE, brokers).broker == 0
    at_threshold = loads([0.85, 0.0], [10.0, 20.0])
    assert placement.select(everybody(at_threshold), BUNDLE, at_threshold).broker == 0
    over = loads([0.86, 0.0], [10.0, 20.0])
    assert placement.select(everybody(over), BUNDLE, over).broker == 1


def test_least_long_term_message_rate_draws_among_equals_and_among_all_where_all_are_overloaded() -> None:
    placement = LeastLongTermMessageRate(KNOBS, Draw(1))
    equal = loads([0.1, 0.1, 0.1], [5.0, 5.0, 9.0])
    assert placement.select(everybody(equal), BUNDLE, equal).among == (0, 1)
    full = loads([0.9, 0.99], [1.0, 2.0])
    assert placement.select(everybody(full), BUNDLE, full).among == (0, 1)
    assert placement.select(np.zeros(0, np.int64), BUNDLE, full).broker is None


def test_the_same_seed_draws_the_same_and_reaches_everybody() -> None:
    numbers = [Draw(at).below(7) for at in range(200)]
    assert numbers == [Draw(at).below(7) for at in range(200)]
    assert set(numbers) == set(range(7))


def test_resource_usage_takes_a_step_at_every_selection_and_starts_anew_after_a_restart() -> None:
    placement = LeastResourceUsageWithWeight(replace(KNOBS, load_balancer_history_resource_percentage=0.5), Draw(1))
    placement.select(np.arange(2), BUNDLE, loads([0.4, 0.8]))
    for _ in range(2):
        placement.select(np.arange(2), BUNDLE, loads([0.0, 0.8]))
    assert placement.history == {"b0": 0.1, "b1": 0.8}
    restarted = loads([0.3, 0.8], bundles=[0, 1])
    assert placement.select(np.arange(2), BUNDLE, restarted).broker == 0
    assert placement.history["b0"] == 0.3


def test_resource_usage_draws_among_all_where_nobody_is_far_below_the_mean() -> None:
    placement = LeastResourceUsageWithWeight(KNOBS, Draw(1))
    assert placement.select(np.arange(3), BUNDLE, loads([0.5, 0.45, 0.95])).among == (0, 1)
    assert placement.select(np.arange(2), BUNDLE, loads([0.5, 0.45])).among == (0, 1)
    assert placement.select(np.zeros(0, np.int64), BUNDLE, loads([])).broker is None


def test_round_robin_keeps_its_order_until_it_no_longer_fits_and_wraps() -> None:
    brokers = loads([0.0] * 4)
    placement = RoundRobinBrokerSelector()
    pick = lambda *at: placement.select(np.array(at, np.int64), BUNDLE, brokers).broker  # noqa: E731
    assert pick() is None
    assert placement.count == 0
    assert [pick(0, 1, 2) for _ in range(4)] == [0, 1, 2, 0]
    assert [pick(1, 2, 0) for _ in range(2)] == [1, 2]  # the same brokers in another order change nothing
    assert [pick(0, 1, 3) for _ in range(3)] == [0, 1, 3]
    assert pick(1, 3) == 3  # the count goes on, the order is new
    placement.count = INT_MAX
    assert pick(0, 1, 2) == INT_MAX % 3
    assert placement.count == 0


def test_average_placement_follows_the_plan_and_equal_data_crosses_plans() -> None:
    brokers = loads([0.0] * 4)
    placement = AvgPlacement(Draw(1))
    first, second = BundleToPlace(0.0, (1, 450.0)), BundleToPlace(0.0, (1, 450.0))
    placement.plan(first, 1)
    placement.plan(second, 3)
    assert placement.select(everybody(brokers), first, brokers).broker == 3
    assert placement.select(np.array([1]), BundleToPlace(0.0, (2, 450.0)), brokers).broker == 1


def test_average_placement_remembers_what_it_drew_while_that_is_a_candidate() -> None:
    brokers = loads([0.0] * 8)
    placement = AvgPlacement(Draw(1))
    drawn = placement.select(everybody(brokers), BUNDLE, brokers).broker
    assert all(placement.select(everybody(brokers), BUNDLE, brokers).broker == drawn for _ in range(5))
    others = np.array([at for at in range(8) if at != drawn])
    again = placement.select(others, BUNDLE, brokers).broker
    assert again != drawn
    assert placement.select(everybody(brokers), BUNDLE, brokers).broker == again
    assert placement.select(np.zeros(0, np.int64), BUNDLE, brokers).broker is None


def test_what_was_placed_counts_for_the_next() -> None:
    brokers = loads([0.0, 0.0], [0.0, 150.0])
    choose = selection(brokers, LeastLongTermMessageRate(KNOBS, Draw(1)))
    where = []
    for _ in range(3):
        where.append(choose.select(BUNDLE, "", np.ones(2, bool)).broker)
        choose.note_placement(BUNDLE, "", where[-1] or 0)
    assert where == [0, 0, 1]


@pytest.mark.covers("count-or-traffic")
def test_a_namespace_is_spread_before_rates_are_compared() -> None:
    brokers = loads([0.0] * 3, [1.0, 500.0, 900.0])
    lowest = LeastLongTermMessageRate(KNOBS, Draw(1))
    choose = selection(brokers, lowest, spread=[3, 1, 1])
    assert choose.select(BUNDLE, "t/ns", np.ones(3, bool)).broker == 1
    choose.note_placement(BUNDLE, "t/ns", 1)
    assert choose.select(BUNDLE, "t/ns", np.ones(3, bool)).broker == 2
    uneven = replace(KNOBS, load_balancer_distribute_bundles_evenly_enabled=False)
    assert selection(brokers, lowest, uneven, spread=[3, 1, 1]).select(BUNDLE, "t/ns", np.ones(3, bool)).broker == 0
    assert (
        selection(brokers, lowest, uneven, spread=[3, 1, 1]).select(BUNDLE, "pulsar/system", np.ones(3, bool)).broker
        == 1
    )


def test_the_topic_limit_holds_unless_everybody_is_over_it() -> None:
    brokers = loads([0.0] * 2, [0.0, 900.0])
    lowest = LeastLongTermMessageRate(KNOBS, Draw(1))
    choose = selection(brokers, lowest, topics=[50_000, 0])
    assert choose.select(BUNDLE, "", np.ones(2, bool)).broker == 0  # exactly at the limit
    choose.note_placement(BUNDLE, "", 0, topics=1)
    assert choose.select(BUNDLE, "", np.ones(2, bool)).broker == 1
    assert selection(brokers, lowest, topics=[60_000, 60_000]).select(BUNDLE, "", np.ones(2, bool)).broker == 0


def test_an_overloaded_choice_gives_everybody_a_second_chance() -> None:
    brokers = loads([0.95, 0.1], [1.0, 2.0])
    choose = selection(brokers, LeastLongTermMessageRate(KNOBS, Draw(1)), spread=[0, 5], topics=[0, 60_000])
    # the filters leave b0 alone, which is overloaded: the limit and the spread no longer count
    assert choose.select(BUNDLE, "t/ns", np.ones(2, bool)).broker == 1
    assert choose.select(BUNDLE, "t/ns", np.array([True, False])).broker == 0
    assert choose.select(BUNDLE, "t/ns", np.zeros(2, bool)).broker is None


def failing(names: list[str]) -> list[str]:
    raise BadBrokerVersion("b0", None)


def test_filters_narrow_the_candidates_and_one_that_fails_or_leaves_nobody_brings_all_back() -> None:
    brokers = loads([0.0] * 3, [3.0, 2.0, 1.0])
    lowest = LeastLongTermMessageRate(KNOBS, Draw(1))
    spread, full = np.zeros(3, np.int64), np.array([0, 0, 60_000])

    def chosen(**filters: Any) -> int | None:
        pipeline = BrokerSelection(brokers, brokers.usage, full, lambda namespace: spread, lowest, KNOBS, **filters)
        return pipeline.select(BUNDLE, "t/ns", np.ones(3, bool)).broker

    assert chosen() == 1  # b2 is over the topic limit
    assert chosen(filters=[lambda names: ["b0"]]) == 0
    assert chosen(filters=[lambda names: []]) == 2
    assert chosen(filters=[failing]) == 2
    assert chosen(anti_affinity=lambda names: ["b0"]) == 0
    assert chosen(anti_affinity=failing) == 1


def lookups(count: int = 3) -> tuple[LookupPlacement, np.ndarray]:
    brokers = loads([0.0] * count)
    return LookupPlacement(selection(brokers, LeastLongTermMessageRate(KNOBS, Draw(1)))), np.ones(count, bool)


def test_a_lookup_is_told_the_same_until_a_report_shows_the_bundle() -> None:
    answers, eligible = lookups()
    first = answers.assign("t/a/0x00000000_0x80000000", BUNDLE, eligible).broker
    assert all(answers.assign("t/a/0x00000000_0x80000000", BUNDLE, eligible).broker == first for _ in range(4))
    answers.forget("t/a/0x00000000_0x80000000")
    assert answers.assign("t/a/0x00000000_0x80000000", BUNDLE, eligible).broker != first  # its rate counts there


def test_a_destination_is_used_up_by_whoever_asks_first_for_that_range() -> None:
    answers, eligible = lookups()
    meant, other = "t/a/0x00000000_0x80000000", "t/b/0x00000000_0x80000000"
    answers.unload_to(meant, 2)
    assert answers.assign(meant, BUNDLE, eligible).broker == 2
    assert len(answers.assign(other, BUNDLE, eligible).among) > 1
    answers.forget(other)
    answers.unload_to(meant, 1)
    assert answers.assign(other, BUNDLE, eligible).broker == 1  # stolen: the note knows the range only
    assert len(answers.assign(meant, BUNDLE, eligible).among) > 1  # drawn, as if nobody had named a destination


def test_the_first_sample_overwrites_and_both_averages_saturate() -> None:
    data = BundleData.default()
    assert data.short_term.msg_rate_in == DEFAULT_STATS.msg_rate_in
    for _ in range(1_100):
        data = data.after(NamespaceBundleStats(msg_rate_in=10.0))
    assert (data.short_term.msg_rate_in, data.long_term.msg_rate_in) == (10.0, 10.0)
    data = data.after(NamespaceBundleStats(msg_rate_in=1_010.0))
    assert data.short_term.msg_rate_in == pytest.approx(110.0)
    assert data.long_term.msg_rate_in == pytest.approx(11.0)


def test_the_averages_of_a_round_are_those_of_the_plain_maths() -> None:
    rng = np.random.default_rng(3)
    names = ("t/a/0x00000000_0x80000000", "t/a/0x80000000_0xffffffff")
    plain = dict.fromkeys(names, BundleData.default())
    memory: dict[str, object] = {}
    for _ in range(30):
        rates = rng.uniform(0, 1e4, 2)
        averages = next_averages(memory, names, rates, rates * 100)
        memory = averages.to_memory()
        for name, rate in zip(names, rates.tolist(), strict=True):
            plain[name] = plain[name].after(NamespaceBundleStats(msg_rate_in=rate, msg_throughput_in=rate * 100))
    for at, name in enumerate(names):
        assert averages.short_msg_rate[at] == pytest.approx(plain[name].short_term.msg_rate_in, rel=1e-4)
        assert averages.short_throughput[at] == pytest.approx(plain[name].short_term.msg_throughput_in, rel=1e-4)
        assert averages.long_msg_rate[at] == pytest.approx(plain[name].long_term.msg_rate_in, rel=1e-4)


def test_a_bundle_that_comes_later_starts_anew_and_one_that_went_is_forgotten() -> None:
    first = next_averages({}, ("a", "c"), np.array([10.0, 30.0]), np.zeros(2))
    then = next_averages(first.to_memory(), ("a", "b"), np.array([20.0, 50.0]), np.zeros(2))
    assert then.short_msg_rate.tolist() == [15.0, 50.0]
    again = next_averages(then.to_memory(), ("c",), np.array([7.0]), np.zeros(1))
    assert (again.short_msg_rate.tolist(), again.samples.tolist()) == ([7.0], [1])


def test_a_broker_counts_bundles_without_data_with_the_default() -> None:
    data = {"known": BundleData.from_quota(1.0, 2.0, 3.0, 4.0)}
    sums = TimeAverageBrokerData.of(["known", "unknown"], data)
    assert sums.long_term["msg_rate_in"] == 51.0
    assert sums.short_term["msg_throughput_out"] == 50_004.0


def test_a_history_begins_with_what_is_seen_first() -> None:
    after = next_history(np.array([np.nan, 0.9]), np.array([0.5, 0.1]), 0.9)
    assert after.tolist() == pytest.approx([0.5, 0.82])
