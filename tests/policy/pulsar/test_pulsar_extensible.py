"""Pulsar's extensible manager: its cases, and every place where it behaves other than its names and documents say."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.conformance.extensible import kinds as conformance_extensible
from benchmarks.conformance.runner import find_adapter, run_case, withhold
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.channel.states import ServiceUnitState
from controller.pulsar.load.bundle_stats import compare_stats
from controller.pulsar.load.extensible import BrokerLoadData, BrokerSample, clear, next_load
from controller.pulsar.load.load_data import NamespaceBundleStats, ResourceUsage
from controller.pulsar.load.report_trigger import Reported, clears_load, may_tombstone, needs_report, percent_change
from controller.pulsar.load.topk import bundles_to_write, names, partition_sort, top_bundles
from controller.pulsar.placement import extensible as placement

CASES = json.loads((Path(__file__).parents[2] / "data" / "pulsar_cases.json").read_text())
EXTENSIBLE = [case for case in CASES if find_adapter(withhold(case)[0], conformance_extensible.ADAPTERS) is not None]
KNOBS = PulsarKnobs()
S = ServiceUnitState


@pytest.mark.covers("manager-extensible")
@pytest.mark.parametrize("case", EXTENSIBLE, ids=[f"{case['id']}-{case['strategy']}" for case in EXTENSIBLE])
def test_a_case(case: dict[str, Any]) -> None:
    outcome, text = run_case(case)
    assert outcome == "pass", text


def test_the_cases_of_the_extensible_manager_are_found() -> None:
    kinds = {"filter", "report-sequence", "report-tombstone", "report-trigger", "shed-transfer", "split", "topk"}
    channel = {"state-channel", "state-class", "state-conflict", "state-transition"}
    assert {case["kind"] for case in EXTENSIBLE} >= kinds | channel | {"split-boundary"}
    assert len(EXTENSIBLE) >= 170


# what is reported -----------------------------------------------------------------------------------------------------


def full(percent: float, **others: float) -> BrokerSample:
    usages = {"cpu": ResourceUsage(percent, 100)}
    return BrokerSample({**usages, **{name: ResourceUsage(value, 100) for name, value in others.items()}}, 10, 20, 1, 2)


def test_the_first_update_is_raw_and_heap_counts_with_its_weight() -> None:
    knobs = replace(
        KNOBS,
        load_balancer_cpu_resource_weight=0.5,
        load_balancer_memory_resource_weight=0.5,
        load_balancer_history_resource_percentage=0.75,
    )
    first = next_load(BrokerLoadData(), full(10, memory=400), knobs, 1)
    assert first.weighted_max_ema == pytest.approx(2.0)
    assert first.max_resource_usage == pytest.approx(0.1)  # without weights, and without heap
    second = next_load(first, full(300), knobs, 2)
    assert second.weighted_max_ema == pytest.approx(1.875)
    assert second.msg_throughput_ema == pytest.approx(30)


def test_a_broker_that_has_said_nothing_looks_full_and_is_so_again_after_a_bundle_has_moved() -> None:
    assert (BrokerLoadData().weighted_max_ema, BrokerLoadData().max_resource_usage) == (1.0, 1.0)
    data = next_load(BrokerLoadData(reported_at_ms=5), full(10), KNOBS, 1)
    assert clear(data) == BrokerLoadData(reported_at_ms=5)
    assert next_load(clear(data), full(30), KNOBS, 2).weighted_max_ema == pytest.approx(0.3, abs=1e-6)


def test_reports_are_due_by_change_above_the_threshold_by_time_or_by_force() -> None:
    last = Reported(0.5, 100, 1_000, 10)
    assert not needs_report(last, replace(last, msg_rate=110), 0, KNOBS)
    assert needs_report(last, replace(last, msg_rate=110.1), 0, KNOBS)
    assert needs_report(last, replace(last, throughput=880), 0, KNOBS)
    assert needs_report(last, replace(last, bundles=12), 0, KNOBS)
    assert not needs_report(last, replace(last, usage=0.56), 0, KNOBS)  # 12 %, but 6 points
    assert needs_report(last, replace(last, usage=0.61), 0, KNOBS)
    assert not needs_report(last, last, 15 * 60_000, KNOBS)
    assert needs_report(last, last, 15 * 60_000 + 1, KNOBS)
    assert needs_report(last, last, 0, KNOBS, force=True)


def test_from_nothing_to_something_is_an_infinite_change() -> None:
    assert percent_change(0, 0) == 0
    assert math.isinf(percent_change(0, 1e-9))
    assert percent_change(200, 100) == 50


@pytest.mark.parametrize(
    ("state", "source", "destination", "clears"),
    [
        (S.RELEASING, "me", "you", True),
        (S.RELEASING, "you", "me", False),
        (S.SPLITTING, "me", None, True),
        (S.OWNED, None, "me", True),
        (S.OWNED, "me", "you", False),
        (S.ASSIGNING, "me", "me", False),
        (S.FREE, "me", None, False),
        (S.DELETED, "me", None, False),
    ],
)
def test_a_broker_forgets_its_average_when_a_bundle_leaves_or_joins_it(
    state: ServiceUnitState, source: str | None, destination: str | None, clears: bool
) -> None:
    assert clears_load(state, source, destination, "me") is clears
    assert not clears_load(state, source, destination, "me", failed=True)


def test_one_tombstone_in_ten_seconds() -> None:
    assert not may_tombstone(1_000, 10_999)
    assert may_tombstone(1_000, 11_000)


# top bundles ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 50), max_size=60), st.integers(1, 70))
def test_partition_sort_brings_the_largest_to_the_front_in_order(values: list[int], k: int) -> None:
    items = list(values)
    partition_sort(items, min(k, len(items)), lambda a, b: (a > b) - (a < b))
    assert items[:k] == sorted(values, reverse=True)[:k]
    assert sorted(items) == sorted(values)


def test_small_differences_count_as_none_and_add_up() -> None:
    a, b, c = (NamespaceBundleStats(msg_throughput_in=rate) for rate in (0.0, 100_000.0, 200_000.0))
    assert (compare_stats(a, b), compare_stats(b, c), compare_stats(a, c)) == (0, 0, -1)
    later = NamespaceBundleStats(msg_throughput_in=100_000, msg_rate_in=100.1)
    assert compare_stats(a, later) == -1  # the next measure decides
    assert compare_stats(NamespaceBundleStats(topics=600), NamespaceBundleStats(cache_size=10**9)) == 1


def test_top_bundles_ascend_and_leave_out_what_pulsar_needs_where_it_is() -> None:
    def rate(value: float) -> NamespaceBundleStats:
        return NamespaceBundleStats(msg_rate_in=value)

    stats = {
        "t/a/0x00000000_0x80000000": rate(1_000),
        "t/a/0x80000000_0xffffffff": rate(9_000),
        "t/b/0x00000000_0xffffffff": rate(5_000),
        "pulsar/system/0x00000000_0xffffffff": rate(99_000),
        "pulsar/broker-1:8080/0x00000000_0xffffffff": rate(99_000),
        "pulsar/cluster/broker-1:8080/0x00000000_0xffffffff": rate(99_000),
        "sla-monitor/cluster/broker-1:8080/0x00000000_0xffffffff": rate(99_000),
    }
    assert names(top_bundles(stats, 2)) == ["t/b/0x00000000_0xffffffff", "t/a/0x80000000_0xffffffff"]
    assert names(top_bundles(stats, 9, excluded_namespaces=["t/a"])) == ["t/b/0x00000000_0xffffffff"]
    assert top_bundles(stats, 0) == []


def test_the_leader_writes_the_top_k_for_each_broker_or_all() -> None:
    data = {str(at): NamespaceBundleStats(msg_rate_in=at * 1_000.0) for at in range(10)}
    assert set(bundles_to_write(data, 2, 3, compare_stats)) == set("456789")
    assert set(bundles_to_write(data, 2, 0, compare_stats)) == set("89")
    assert list(bundles_to_write(data, 0, 3, compare_stats)) == list(data)


# placement ------------------------------------------------------------------------------------------------------------

LOADS = {"1": 0.1, "2": 0.3, "3": 0.6}


def select(candidates: Iterable[str], loads: Mapping[str, float], knobs: PulsarKnobs, seed: int) -> placement.Choice:
    return placement.select(candidates, loads, knobs, Random(seed).randrange)


def test_only_brokers_far_enough_below_the_mean_are_drawn_from() -> None:
    knobs = replace(KNOBS, load_balancer_average_resource_usage_difference_threshold_percentage=5)
    for seed in range(20):
        assert select(LOADS, LOADS, knobs, seed).broker == "1"


def test_without_one_all_candidates_are_drawn_from_even_those_without_data_and_the_overloaded() -> None:
    level = {"1": 0.95, "2": 0.95}
    chosen = {select(["1", "2", "new"], level, KNOBS, seed).broker for seed in range(50)}
    assert chosen == {"1", "2", "new"}
    assert select(["new", "newer"], {}, KNOBS, 1).among == ("new", "newer")


def test_brokers_without_data_are_left_out_of_mean_and_choice_when_one_is_best() -> None:
    assert select([*LOADS, "new"], LOADS, KNOBS, 3).among == ("1",)
    assert select(["2", "3"], LOADS, KNOBS, 3).among == ("2",)  # the mean is that of the candidates


def test_a_seed_is_one_choice_and_nobody_is_chosen_from_nobody() -> None:
    assert select([], LOADS, KNOBS, 1) == (None, ())
    level = dict.fromkeys("abcdef", 0.5)
    assert select(level, level, KNOBS, 4) == select(reversed(list(level)), level, KNOBS, 4)
    assert len({select(level, level, KNOBS, seed).broker for seed in range(60)}) == 6
