"""Pulsar's modular manager: its cases, and every place where it behaves other than its names and documents say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.conformance.modular import kinds as conformance_modular
from benchmarks.conformance.runner import find_adapter, run_case, withhold
from controller.domain.decision import Reason
from controller.domain.errors import ConfigError
from controller.domain.settings.pulsar import KNOBS_BY_PULSAR_NAME, PulsarKnobs, from_pulsar
from controller.pulsar.java_order import hash_code, hash_map_order
from controller.pulsar.load.arrays import LoadArrays, Shedding
from controller.pulsar.load.load_data import MIB, LocalBrokerData, ResourceUsage
from controller.pulsar.shedding.average import HitCounts, shed_average
from controller.pulsar.shedding.overload import shed_overload
from controller.pulsar.shedding.simple import shed_simple
from controller.pulsar.shedding.threshold import shed_threshold
from controller.pulsar.shedding.uniform import DELTA, INT_MAX, shed_uniform, walk

CASES = json.loads((Path(__file__).parents[2] / "data" / "pulsar_cases.json").read_text())
MODULAR = [case for case in CASES if find_adapter(withhold(case)[0], conformance_modular.ADAPTERS) is not None]
KNOBS = PulsarKnobs()


@pytest.mark.covers("manager-modular")
@pytest.mark.parametrize("case", MODULAR, ids=[f"{case['id']}-{case['strategy']}" for case in MODULAR])
def test_a_case(case: dict[str, Any]) -> None:
    outcome, text = run_case(case)
    assert outcome == "pass", text


def test_the_cases_of_the_modular_manager_are_found() -> None:
    assert {case["kind"] for case in MODULAR} >= {"shed", "shed-sequence", "shed-state", "place", "place-state", "hash"}
    assert len(MODULAR) >= 40


def test_a_wrong_expectation_fails() -> None:
    case = next(case for case in MODULAR if case["kind"] == "shed" and case["expected"].get("unload"))
    wrong = {**case, "expected": {"unload": {"nobody": ["nothing"]}}}
    assert run_case(wrong)[0] == "fail"


def load(
    usage: list[float],
    bundles: list[list[float]],
    *,
    rates: list[list[float]] | None = None,
    throughput: list[float] | None = None,
    msg_rate: list[float] | None = None,
    barred: tuple[str, ...] = (),
) -> LoadArrays:
    """Brokers b0, b1, … with their bundles' bytes/s (and messages/s); totals are the sums where not given."""
    rates = rates or [[0.0] * len(held) for held in bundles]
    names = tuple(f"b{at}-{n}" for at, held in enumerate(bundles) for n in range(len(held)))
    return LoadArrays(
        brokers=tuple(f"b{at}" for at in range(len(usage))),
        usage=np.array(usage),
        msg_rate=np.array([sum(held) for held in rates] if msg_rate is None else msg_rate, float),
        throughput=np.array([sum(held) for held in bundles] if throughput is None else throughput, float),
        bundle_count=np.array([len(held) for held in bundles]),
        bundles=names,
        holder=np.array([at for at, held in enumerate(bundles) for _ in held], np.int64),
        short_msg_rate=np.array([rate for held in rates for rate in held], float),
        short_throughput=np.array([size for held in bundles for size in held], float),
        barred=np.array([name in barred for name in names], bool),
    )


def shed(arrays: LoadArrays, shedding: Shedding) -> dict[str, list[str]]:
    return {arrays.brokers[at]: [arrays.bundles[row] for row in rows] for at, rows in shedding.rows.items()}


def test_percentages_are_32_bit() -> None:
    mean = sum(ResourceUsage(usage, 100).percent() / 100 for usage in (10, 20, 30)) / 3
    assert mean == 0.2000000063578288


def test_a_percentage_without_a_limit_is_0_and_none_is_capped() -> None:
    assert ResourceUsage().percent() == 0
    assert ResourceUsage(5, 0).percent() == 0
    assert ResourceUsage(140, 100).percent() == pytest.approx(140)


def test_heap_counts_in_no_maximum_and_the_misspelt_weight_only_beside_1() -> None:
    data = LocalBrokerData(memory=ResourceUsage(99, 100), cpu=ResourceUsage(10, 100), bandwidth_in=ResourceUsage(4, 10))
    assert data.max_resource_usage() == pytest.approx(0.4)
    assert data.max_resource_usage_with_weight(replace(KNOBS, load_balancer_memory_resource_weight=1.0)) < 0.5
    misspelt = from_pulsar({"loadBalancerBandwithInResourceWeight": 0.5})
    assert data.max_resource_usage_with_weight(misspelt) == pytest.approx(0.2)
    both = from_pulsar({"loadBalancerBandwithInResourceWeight": 0.5, "loadBalancerBandwidthInResourceWeight": 0.75})
    assert data.max_resource_usage_with_weight(both) == pytest.approx(0.3)


@pytest.mark.covers("overload-threshold", "shed-part", "how-far-over")
def test_overload_sheds_as_many_as_it_takes_and_at_equality() -> None:
    arrays = load([0.95, 0.85, 0.84], [[10.0] * 10, [5.0, 5.0], [9.0, 9.0]])
    # 15 % of 100 bytes/s is more than one bundle of 10; the part is 95 % - 85 % + 5 %, not (95 - 85) / 95
    assert shed(arrays, shed_overload(arrays, KNOBS)) == {"b0": ["b0-0", "b0-1"], "b1": ["b1-0"]}


def test_overload_keeps_a_sole_bundle_and_says_why_nothing_is_shed() -> None:
    arrays = load([0.99, 0.99, 0.99], [[10.0], [1.0, 2.0], []], barred=("b1-0", "b1-1"))
    found = shed_overload(arrays, KNOBS)
    assert not found.rows
    assert found.reasons == {0: Reason.NO_BUNDLES, 1: Reason.GRACE_PERIOD, 2: Reason.NO_BUNDLES}


@pytest.mark.covers("memory-signal", "manager-simple")
def test_simple_counts_heap_without_weights() -> None:
    arrays = load([0.1, 0.1], [[10.0] * 10, [1.0]])
    assert not shed_overload(arrays, KNOBS).rows
    found = shed_simple(arrays, np.array([0.95, 0.2]), KNOBS)
    assert shed(arrays, found) == {"b0": ["b0-0", "b0-1"]}


@pytest.mark.covers("rolling-average")
def test_threshold_goes_on_by_its_history_after_the_broker_is_relieved() -> None:
    size = 100.0 * MIB
    first = load([0.9, 0.1], [[size] * 4, [size]])
    result = shed_threshold(first, np.array([np.nan, np.nan]), KNOBS)
    assert shed(first, result.shedding) == {"b0": ["b0-0", "b0-1"]}
    relieved = load([0.5, 0.5], [[size] * 2, [size]])
    again = shed_threshold(relieved, result.history, KNOBS)
    assert again.history.tolist() == pytest.approx([0.86, 0.14])
    assert shed(relieved, again.shedding) == {"b0": ["b0-0"]}


def test_threshold_never_sheds_where_the_mean_is_too_near() -> None:
    for usage in ([0.12, 0.02, 0.01, 0.01], [0.5] * 5 + [0.0]):
        arrays = load(usage, [[100.0 * MIB] * 2] * len(usage))
        assert not shed_threshold(arrays, np.full(len(usage), np.nan), KNOBS).shedding.rows


def test_threshold_lower_boundary_takes_the_history_on_twice() -> None:
    knobs = replace(KNOBS, lower_boundary_shedding_enabled=True)
    arrays = load([0.5] * 5 + [0.0], [[100.0 * MIB] * 3] * 5 + [[]])
    result = shed_threshold(arrays, np.array([0.6] * 5 + [0.0]), knobs)
    assert result.history[0] == pytest.approx((0.6 * 0.9 + 0.05) * 0.9 + 0.05)
    assert result.shedding.cause is Reason.UNDERLOADED
    assert shed(arrays, result.shedding) == {"b0": ["b0-0"]}  # 300 MiB/s * 10 % * 0.5: the first of equals gives one


def test_threshold_leaves_small_traffic_alone() -> None:
    arrays = load([0.9, 0.1], [[6.0 * MIB] * 2, [1.0 * MIB]])
    result = shed_threshold(arrays, np.full(2, np.nan), KNOBS)
    assert result.shedding.reasons == {0: Reason.NOT_WORTH_MOVING}


def test_threshold_does_nothing_at_a_mean_of_0() -> None:
    idle = load([0.0, 0.0], [[60.0 * MIB] * 2, []])
    knobs = replace(KNOBS, load_balancer_broker_threshold_shedder_percentage=0)
    result = shed_threshold(idle, np.full(2, np.nan), knobs)
    assert result.mean == 0
    assert not result.shedding.rows


def test_uniform_adds_1000_of_whatever_unit_and_passes_over_what_is_too_large() -> None:
    rows = np.arange(5)
    assert walk(rows, np.array([9000.0, 3000.0, 1500.0, 400.0, 0.0]), 2000, -1).tolist() == [1, 4]
    assert walk(rows, np.array([9000.0, 2500.0, 1500.0, 400.0, 0.0]), 2000, -1).tolist() == [1, 3, 4]
    assert walk(rows, np.array([9000.0, 2500.0, 1500.0, 400.0, 0.0]), 2000, 1).tolist() == [1]


def test_uniform_takes_idle_bundles_until_the_budget_is_1000_below_0() -> None:
    rows = np.arange(3)
    assert walk(rows, np.array([3000.0, 0.0, 0.0]), 2000, -1).tolist() == [0, 1, 2]
    assert walk(rows, np.array([3000.0, 1.0, 0.0]), 2000, -1).tolist() == [0, 2]


def test_uniform_does_not_recognise_a_minimum_above_2_31() -> None:
    huge = 4.0 * 2**31
    # the true ratio is 1.25; with the least held at 2^31 - 1 it is 5, above 4
    arrays = load([0.5, 0.5], [[2.0] * 8, [1.0] * 8], throughput=[huge * 1.25, huge])
    assert shed_uniform(arrays, KNOBS).rows.keys() == {0}
    below = load([0.5, 0.5], [[2.0] * 8, [1.0] * 8], throughput=[2.0**31 * 1.2, 2.0**31 * 0.9])
    assert not shed_uniform(below, KNOBS).rows


def test_uniform_takes_nothing_with_a_budget_that_wraps_in_32_bits() -> None:
    rows, values = np.array([0, 1]), np.array([5.0, 1.0])
    assert list(walk(rows, values, INT_MAX - DELTA, -1)) == [0, 1]
    assert list(walk(rows, values, INT_MAX - DELTA + 1, -1)) == []


def test_uniform_prefers_messages_and_relieves_one_broker() -> None:
    arrays = load([0.1] * 3, [[100.0] * 4] * 3, rates=[[5000.0] * 4, [4000.0] * 4, [1000.0] * 4])
    assert shed(arrays, shed_uniform(arrays, replace(KNOBS, max_unload_percentage=0.7))) == {"b0": ["b0-0", "b0-1"]}


def cycles(arrays: LoadArrays, count: int, knobs: PulsarKnobs = KNOBS) -> list[dict[str, list[str]]]:
    hits, result = HitCounts(), []
    for _ in range(count):
        found = shed_average(arrays, hits, knobs)
        hits = found.hits
        result.append(shed(arrays, found.shedding))
    return result


def test_average_moves_a_sole_bundle() -> None:
    arrays = load([0.9, 0.1], [[0.0], []], rates=[[2000.0], []], msg_rate=[20_000.0, 0.0])
    assert cycles(arrays, 2) == [{}, {"b0": ["b0-0"]}]


def test_average_takes_throughput_where_the_hot_broker_has_fewer_messages() -> None:
    arrays = load([0.9, 0.1], [[2.0 * MIB] * 8, []], rates=[[10.0] * 8, []], msg_rate=[80.0, 50_000.0])
    assert cycles(arrays, 2)[1] == {"b0": ["b0-0"]}  # 16 MiB/s * 0.2


def test_average_clears_the_hits_of_a_pair_that_found_nothing_worth_moving() -> None:
    arrays = load([0.9, 0.1], [[1.0] * 2, []])
    hits = shed_average(arrays, HitCounts(), KNOBS).hits
    found = shed_average(arrays, hits, KNOBS)
    assert found.shedding.reasons == {0: Reason.NOT_WORTH_MOVING}
    assert found.hits == HitCounts()


def test_average_counts_survive_a_change_of_partner() -> None:
    first = load([0.9, 0.1, 0.2], [[0.0] * 2, [], []], rates=[[900.0] * 2, [], []], msg_rate=[20_000.0, 0.0, 0.0])
    hits = shed_average(first, HitCounts(), KNOBS).hits
    assert hits.high == {"b0": 1, "b1": 1}
    swapped = replace(first, usage=np.array([0.9, 0.2, 0.1]))
    found = shed_average(swapped, hits, KNOBS)
    assert {first.brokers[c]: first.brokers[h] for h, c in found.destination.items()} == {"b2": "b0"}


def test_average_takes_less_than_a_point_for_equal() -> None:
    arrays = load([0.505, 0.500, 0.10], [[1.0] * 2, [1.0] * 2, []])
    pairs = shed_average(arrays, HitCounts(), KNOBS).pairs
    assert [(p.cold, p.hot) for p in pairs] == [(2, 1)]  # b1 stands behind b0, though b0 is fuller


def test_average_is_walked_in_the_order_it_is_told() -> None:
    arrays = load([0.505, 0.500, 0.10], [[1.0] * 2, [1.0] * 2, []])
    pairs = shed_average(arrays, HitCounts(), KNOBS, [1, 0, 2]).pairs
    assert [(p.cold, p.hot) for p in pairs] == [(2, 0)]


def test_a_hash_map_of_java_is_walked_by_the_hashes_of_its_texts() -> None:
    assert hash_code("Aa") == hash_code("BB") == 65 * 31 + 97
    assert hash_code("\U0001f600") == 0xD83D * 31 + 0xDE00  # two units of UTF-16
    names = ["1", "10", "2", "p"]  # bins 1, 15, 2 and 0 of 16
    assert [names[at] for at in hash_map_order(names)] == ["p", "1", "2", "10"]
    many = [chr(ord("a") + at) for at in range(13)]  # the thirteenth doubles the table: 97 is bin 1 of 32, 109 bin 13
    assert hash_map_order([*many[::-1], "Q"])[-1] == 13  # 81 is bin 17 of 32, but bin 1 of 16
    assert hash_map_order(["BB", "Aa"]) == [0, 1]


def test_average_forgets_everything_once_no_pair_is_far_apart() -> None:
    arrays = load([0.5, 0.45], [[1.0] * 2, []])
    assert shed_average(arrays, HitCounts({"gone": 1}, {"gone": 7}), KNOBS).hits == HitCounts()


def test_knobs_have_pulsars_names_and_types() -> None:
    assert KNOBS_BY_PULSAR_NAME["loadBalancerCPUResourceWeight"] == "load_balancer_cpu_resource_weight"
    assert from_pulsar({"loadBalanceSheddingDelayInSeconds": 7}).load_balance_shedding_delay_in_seconds == 7
    assert from_pulsar({"maxUnloadPercentage": 1}).max_unload_percentage == 1.0
    assert from_pulsar({"minUnloadMessage": 7.0}).min_unload_message == 7
    excluded = from_pulsar({"loadBalancerSheddingExcludedNamespaces": "a/b, c/d"})
    assert excluded.load_balancer_shedding_excluded_namespaces == ("a/b", "c/d")
    with pytest.raises(ConfigError, match=r"minUnloadMessage = 7\.5"):
        from_pulsar({"minUnloadMessage": 7.5})
    with pytest.raises(ConfigError, match="loadBalancerSheddingEnable"):
        from_pulsar({"loadBalancerSheddingEnable": True})
    with pytest.raises(ConfigError, match="minUnloadMessage = 'many'"):
        from_pulsar({"minUnloadMessage": "many"})
    with pytest.raises(ConfigError, match="loadBalancerSheddingEnabled = 1"):
        from_pulsar({"loadBalancerSheddingEnabled": 1})
