"""When load has shifted so far that the next round should not wait: by traffic, lasting, of the same processes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from controller.policy.usage.model import UsageModel
from controller.policy.usage.shift import Shift, Work, Works, find_shift, work_of
from controller.policy.view.tabulate import Columns
from tests.policy.usage.test_usage_model import World

EVEN = {(name, 1): Work(40.0, 100.0) for name in "abc"}


def works(**used: float) -> Works:
    return {(name, 1): Work(cpu, 100.0) for name, cpu in used.items()}


def test_even_load_is_no_shift() -> None:
    assert find_shift(EVEN, [EVEN, EVEN]) is None
    assert find_shift({}, [EVEN]) is None
    assert find_shift(EVEN, []) is None


def test_a_rise_of_one_broker_is_a_shift_once_every_pane_shows_it() -> None:
    high = works(a=70, b=40, c=40)
    assert find_shift(EVEN, [EVEN, high]) is None
    found = find_shift(EVEN, [high, works(a=80, b=40, c=40)])
    assert found == Shift("a", 0.0, pytest.approx(0.4))


def test_a_fall_of_the_others_is_one_as_well() -> None:
    found = find_shift(EVEN, [works(a=40, b=40, c=5)] * 2)
    assert found is not None
    assert found.broker == "a"
    assert found.now == pytest.approx((40 - 85 / 3) / 30), "of a nearly idle cluster's level, 30 % stand for it"


def test_what_stood_above_the_level_in_the_last_round_already_is_none() -> None:
    high = works(a=70, b=40, c=40)
    assert find_shift(high, [high, high]) is None
    assert find_shift(high, [works(a=74, b=40, c=40)] * 2) is None
    assert find_shift(high, [works(a=90, b=40, c=40)] * 2) is not None


def test_brokers_count_by_what_they_can_carry() -> None:
    large = {("a", 1): Work(160.0, 400.0), ("b", 1): Work(40.0, 100.0), ("c", 1): Work(40.0, 100.0)}
    assert find_shift(large, [large | {("a", 1): Work(180.0, 400.0)}] * 2) is None
    assert find_shift(large, [large | {("b", 1): Work(80.0, 100.0)}] * 2) is not None


def test_a_limit_that_changes_is_none() -> None:
    smaller = {key: Work(one.used, 25.0 if key[0] == "a" else one.limit) for key, one in EVEN.items()}
    assert find_shift(EVEN, [smaller, smaller]) is None


def test_brokers_may_be_left_out() -> None:
    high = works(a=80, b=70, c=10)
    found = find_shift(EVEN, [high, high], except_for={"a"})
    assert found is not None
    assert found.broker == "b"
    assert find_shift(EVEN, [high, high], except_for={"a", "b"}) is None


def test_a_broker_that_is_drained_makes_no_shift_of_what_it_gives() -> None:
    drained = works(a=60, b=60, c=0)
    assert find_shift(EVEN, [drained] * 2) is not None
    assert find_shift(EVEN, [drained] * 2, absent={"c"}) is None


def test_bundles_that_are_known_to_be_dear_count_for_more() -> None:
    world = World({"a": [10, 10], "b": [30, 30], "c": [30, 30]})
    world.rounds(3)
    bundles = world.model.bundles
    dear = replace(world.model, bundles=replace(bundles, factor=np.where(bundles.carrier == 0, 3.0, 1.0)))
    known, unknown = (work_of(model, columns(a=20, b=60, c=60))["a", 1].used for model in (dear, world.model))
    assert known > 1.5 * unknown


def test_who_joins_leaves_or_restarts_is_no_shift() -> None:
    assert find_shift(EVEN, [works(a=40, b=40, c=40, d=0)] * 2) is None
    assert find_shift(EVEN, [works(a=60, b=60)] * 2) is None
    restarted = {**works(a=60, b=60), ("c", 2): Work(0.0, 100.0)}
    assert find_shift(EVEN, [restarted] * 2) is None
    assert find_shift(EVEN, [works(a=90)] * 2) is None, "one broker alone has nobody to give to"


def columns(**rates: float) -> Columns:
    """Averages of brokers with one core each, by messages/s; bytes follow from them."""
    rate = np.array(list(rates.values()))
    return {
        "broker": np.array(list(rates), object),
        "incarnation": np.ones(len(rates), np.int64),
        "cpu_limit": np.full(len(rates), 100.0),
        "msg_rate_in": rate,
        "msg_rate_out": rate,
        "throughput_in": 1000 * rate,
        "throughput_out": 1000 * rate,
    }


def test_work_follows_from_traffic_and_base_not_from_readings() -> None:
    world = World({"a": [10, 20], "b": [15, 15]}, base=5.0)
    world.rounds(6)
    model = world.model
    assert model.drivers is not None
    found = work_of(model, columns(a=0, b=100, c=100))
    assert set(found) == {("a", 1), ("b", 1)}, "nobody knows yet what the third one needs"
    base = {name: float(base) for name, base in zip(model.brokers.names, model.brokers.base, strict=True)}
    assert found["a", 1].used == pytest.approx(base["a"])
    twice = work_of(model, columns(a=0, b=200))
    assert twice["b", 1].used - base["b"] == pytest.approx(2 * (found["b", 1].used - base["b"]))
    assert work_of(UsageModel(), columns(a=1)) == {}


def test_a_broker_without_a_known_limit_is_left_out() -> None:
    world = World({"a": [10, 20], "b": [15, 15]})
    world.rounds(3)
    unknown = {**columns(a=10, b=10), "cpu_limit": np.array([np.nan, 100.0])}
    assert set(work_of(world.model, unknown)) == {("b", 1)}
