"""Pulsar's TransferShedder by itself: what starts a cycle, what stops it, which bundles go and which come back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_stats import LoadStats
from controller.pulsar.reasons import UnloadLabel, UnloadReason
from controller.pulsar.shedding.transfer import (
    BrokerLoad,
    Cluster,
    Outcome,
    divide,
    find_bundles_for_unloading,
    is_transferable,
    may_shed,
    scheduler_runs,
)
from controller.pulsar.shedding.transfer_pair import TopBundle

NOW_MS = 10_000_000
KNOBS = PulsarKnobs(load_balancer_shedding_condition_hit_count_threshold=0)
SKIP = UnloadLabel.SKIP
Sizes = Mapping[str, tuple[float, list[float]]]


def cluster(brokers: Sizes, available: Collection[str] | None = None, **changes: Any) -> Cluster:
    """Brokers with a load and their bundles' bytes/s; their traffic is the bundles'. Bundles: n/a/0, n/a/1, …"""
    tops = {
        name: [TopBundle(f"n/{name}/{at}", s) for at, s in enumerate(sizes)] for name, (_, sizes) in brokers.items()
    }
    loads = [BrokerLoad(name, load, sum(sizes), sum(sizes), NOW_MS) for name, (load, sizes) in brokers.items()]
    built = Cluster(loads, list(brokers) if available is None else available, NOW_MS, {}, {}, tops.__getitem__)
    return replace(built, **changes)


def moved(outcome: Outcome) -> list[tuple[str, str, str | None]]:
    return [(move.bundle, move.source, move.target) for move in outcome.decisions]


UNEVEN: Sizes = {"cold": (0.05, [10, 10]), "warm": (0.5, [50, 50]), "hot": (0.95, [40, 40, 40, 40, 40])}


def test_the_smaller_bundles_go_from_the_fullest_to_the_emptiest_until_the_budget_is_spent() -> None:
    outcome = find_bundles_for_unloading(cluster(UNEVEN), 0, KNOBS)
    # half of the difference is 0.45 of 0.95: 94.7 of 200 bytes/s, so two of 40; a third fits no exchange
    assert moved(outcome) == [("n/hot/0", "hot", "cold"), ("n/hot/1", "hot", "cold")]
    assert (outcome.verdict, outcome.hits) == (None, 0)
    assert {move.reason for move in outcome.decisions} == {UnloadReason.OVERLOADED}


def test_hits_must_exceed_the_threshold_and_begin_anew_after_acting() -> None:
    knobs = PulsarKnobs()
    hits, acted = 0, []
    for _ in range(9):
        outcome = find_bundles_for_unloading(cluster(UNEVEN), hits, knobs)
        hits = outcome.hits
        acted.append(bool(outcome.decisions))
    assert acted == [False, False, False, True] * 2 + [False]


def test_an_even_cluster_loses_its_hits() -> None:
    even = cluster({"a": (0.4, [1, 1]), "b": (0.4, [1, 1])})
    outcome = find_bundles_for_unloading(even, 3, PulsarKnobs())
    assert (outcome.hits, outcome.verdict) == (0, (SKIP, UnloadReason.HIT_COUNT))


def test_the_registry_must_answer() -> None:
    outcome = find_bundles_for_unloading(replace(cluster(UNEVEN), available=None), 2, KNOBS)
    assert (outcome.verdict, outcome.hits) == ((UnloadLabel.FAILURE, UnloadReason.UNKNOWN), 2)


def test_one_silent_broker_stops_the_whole_cluster() -> None:
    outcome = find_bundles_for_unloading(cluster(UNEVEN, [*UNEVEN, "new"]), 2, KNOBS)
    assert (outcome.verdict, outcome.hits) == ((SKIP, UnloadReason.NO_LOAD_DATA), 2)


@pytest.mark.parametrize(("ago_s", "stopped"), [(0, True), (179, True), (180, False)])
def test_one_cooling_broker_stops_the_whole_cluster_until_its_data_are_late_enough(ago_s: int, stopped: bool) -> None:
    cooling = cluster(UNEVEN, unloaded_brokers={"cold": NOW_MS - ago_s * 1_000, "gone": NOW_MS})
    outcome = find_bundles_for_unloading(cooling, 0, KNOBS)
    assert (outcome.verdict == (SKIP, UnloadReason.COOL_DOWN)) is stopped
    assert outcome.cooled == (() if stopped else ("cold",))


def test_stale_data_are_left_out_of_the_mean_and_sorted_in_all_the_same() -> None:
    built = cluster({**UNEVEN, "stale": (0.0, [])})
    old = replace(built.loads[-1], updated_at_ms=NOW_MS - 1_800_001)
    outcome = find_bundles_for_unloading(replace(built, loads=[*built.loads[:-1], old]), 0, KNOBS)
    assert outcome.average == pytest.approx(0.5)
    assert {target for _, _, target in moved(outcome)[:2]} == {"stale"}  # the emptiest by what it said long ago


def test_nothing_but_stale_data_or_none_at_all() -> None:
    built = cluster(UNEVEN)
    stale = replace(built, loads=[replace(load, updated_at_ms=0) for load in built.loads], now_ms=NOW_MS * 10)
    assert find_bundles_for_unloading(stale, 0, KNOBS).verdict == (SKIP, UnloadReason.OUTDATED_DATA)
    assert find_bundles_for_unloading(replace(built, loads=[]), 0, KNOBS).verdict == (SKIP, UnloadReason.NO_BROKERS)


def test_bundles_unloaded_recently_excluded_or_owned_by_others_stay() -> None:
    for change in (
        {"unloaded_bundles": {"n/hot/0": NOW_MS}},
        {"is_owner": lambda bundle, broker: bundle != "n/hot/0"},
        {"transferable": lambda bundle, source, target: bundle != "n/hot/0"},
    ):
        outcome = find_bundles_for_unloading(cluster(UNEVEN, **change), 0, KNOBS)
        assert [bundle for bundle, _, _ in moved(outcome)] == ["n/hot/1", "n/hot/2"]
    knobs = replace(KNOBS, load_balancer_shedding_excluded_namespaces=("n/hot",))
    assert all(source != "hot" for _, source, _ in moved(find_bundles_for_unloading(cluster(UNEVEN), 0, knobs)))


def test_what_is_skipped_counts_as_remaining_so_that_the_last_bundle_may_go() -> None:
    two: Sizes = {"cold": (0.0, []), "hot": (0.9, [10, 50])}
    outcome = find_bundles_for_unloading(cluster(two, unloaded_bundles={"n/hot/0": NOW_MS}), 0, KNOBS)
    assert moved(outcome) == []  # 50 is above the budget of 30
    light: Sizes = {"cold": (0.0, []), "hot": (0.9, [500, 10])}
    outcome = find_bundles_for_unloading(cluster(light, unloaded_bundles={"n/hot/0": NOW_MS}), 0, KNOBS)
    assert moved(outcome) == [("n/hot/1", "hot", "cold")]  # although the other one is not in play


def test_one_bundle_of_two_stays_on_the_fullest() -> None:
    tiny: Sizes = {"cold": (0.0, []), "hot": (0.9, [1, 1])}
    knobs = replace(KNOBS, load_balancer_broker_load_target_std=0.1)
    many = cluster(tiny)
    outcome = find_bundles_for_unloading(many, 0, knobs)
    assert moved(outcome) == [("n/hot/0", "hot", "cold")]


@pytest.mark.parametrize(("sizes", "reason"), [([], "NoLoadData"), ([5], "NoBundles"), ([90, 90], "NoBundles")])
def test_why_a_cycle_came_to_nothing(sizes: list[float], reason: str) -> None:
    outcome = find_bundles_for_unloading(cluster({"cold": (0.1, []), "hot": (0.9, sizes)}), 0, KNOBS)
    assert outcome.verdict == (SKIP, UnloadReason(reason))
    assert outcome.exhausted


SWAP: Sizes = {
    "cold": (0.1, [1e6, 2e6, 3e6, 4e6, 5e6]),
    "hot": (10.0, [100e6, 180e6, 220e6, 250e6, 250e6]),
}


@pytest.mark.parametrize("debug", [True, False])
def test_a_bundle_too_large_goes_when_smaller_ones_come_back(debug: bool) -> None:
    knobs = replace(KNOBS, load_balancer_debug_mode_enabled=debug)
    outcome = find_bundles_for_unloading(cluster(SWAP), 0, knobs)
    back = [bundle for bundle, source, _ in moved(outcome) if source == "cold"]
    assert [bundle for bundle, source, _ in moved(outcome) if source == "hot"] == ["n/hot/0", "n/hot/1", "n/hot/2"]
    assert back == ["n/cold/0", "n/cold/1", "n/cold/2", "n/cold/3"]
    # what came back is reckoned in debug mode only
    expected = LoadStats.of([0.1, 10.0]).after(10.0, 0.1, (500e6 - (10e6 if debug else 0)) * 10 / 1e9).std
    assert outcome.std_after == pytest.approx(expected)


def test_what_comes_back_is_not_looked_up_among_the_recently_unloaded_and_has_no_owner_check() -> None:
    recent = {f"n/cold/{at}": NOW_MS for at in range(5)}
    built = cluster(SWAP, unloaded_bundles=recent, is_owner=lambda bundle, broker: broker == "hot")
    assert any(source == "cold" for _, source, _ in moved(find_bundles_for_unloading(built, 0, KNOBS)))


def test_the_search_for_what_may_come_back_goes_on_where_it_ended() -> None:
    sizes: Sizes = {"cold": (0.1, [20, 1, 20]), "hot": (1.0, [40, 60, 60, 60])}
    outcome = find_bundles_for_unloading(cluster(sizes), 0, replace(KNOBS, load_balancer_debug_mode_enabled=True))
    back = [bundle for bundle, source, _ in moved(outcome) if source == "cold"]
    assert len(back) == len(set(back))


def test_without_transfer_bundles_go_nowhere_in_particular_and_nothing_comes_back() -> None:
    knobs = replace(KNOBS, load_balancer_transfer_enabled=False)
    outcome = find_bundles_for_unloading(cluster(SWAP), 0, knobs)
    assert moved(outcome) == [("n/hot/0", "hot", None), ("n/hot/1", "hot", None)]


def test_no_more_pairs_than_allowed_and_each_broker_once() -> None:
    many: Sizes = {f"b{at:02d}": (0.0 if at < 10 else 5.0, [10] * 5) for at in range(20)}
    outcome = find_bundles_for_unloading(cluster(many), 0, KNOBS)
    assert {move.source for move in outcome.decisions} == {"b19", "b18", "b17"}
    assert {move.target for move in outcome.decisions} == {"b00", "b01", "b02"}


def test_an_idle_broker_in_a_cluster_with_little_spread_is_filled_and_an_outlier_relieved() -> None:
    idle: Sizes = {"idle": (0.02, [1]), **{f"b{at}": (0.3, [40, 60]) for at in range(9)}}
    outcome = find_bundles_for_unloading(cluster(idle), 0, KNOBS)
    assert outcome.std < 0.25
    assert {(move.target, move.reason) for move in outcome.decisions} == {("idle", UnloadReason.UNDERLOADED)}
    full: Sizes = {**{f"b{at:02d}": (0.5, [10, 10]) for at in range(99)}, "hot": (0.95, [4, 5, 5, 6])}
    outcome = find_bundles_for_unloading(cluster(full), 0, KNOBS)
    assert {(move.source, move.reason) for move in outcome.decisions} == {("hot", UnloadReason.OVERLOADED)}


def test_a_cluster_that_uses_nothing_has_no_budget_to_exceed() -> None:
    """0 / 0 is not a number, and nothing is greater: all but one go."""
    built = cluster({"a": (0.0, []), "b": (0.0, [5, 6, 7])})
    assert math.isnan(divide(0.0, 0.0))
    assert [move.bundle for move in find_bundles_for_unloading(built, 0, KNOBS).decisions] == ["n/b/0", "n/b/1"]
    assert divide(1.0, 0.0) == math.inf
    assert divide(-1.0, 0.0) == -math.inf


@pytest.mark.parametrize(
    ("eligible", "target", "transfer", "allowed"),
    [
        (["src", "dst"], "dst", True, True),
        (["src", "other"], "dst", True, False),
        (["dst"], "dst", False, True),
        (["src", "dst"], None, True, True),
        (["src"], None, True, False),
        ([], None, False, False),
        (None, "dst", True, False),  # a filter failed
    ],
)
def test_the_filters_must_leave_the_target(
    eligible: list[str] | None, target: str | None, transfer: bool, allowed: bool
) -> None:
    knobs = replace(KNOBS, load_balancer_transfer_enabled=transfer)
    assert is_transferable("src", target, eligible, knobs) is allowed
    assert not is_transferable("src", target, eligible, knobs, allowed=False)


def test_policies_hold_bundles_back_unless_switched_on() -> None:
    on = replace(KNOBS, load_balancer_shedding_bundles_with_policies_enabled=True)
    assert [may_shed(a, b, KNOBS) for a, b in ((0, 0), (1, 0), (0, 1))] == [True, False, False]
    assert all(may_shed(a, b, on) for a, b in ((0, 0), (1, 0), (0, 1), (1, 1)))


def test_the_scheduler_asks_on_the_leader_of_more_than_one_broker_when_switched_on() -> None:
    assert scheduler_runs(KNOBS, True, 2)
    assert not scheduler_runs(KNOBS, False, 2)
    assert not scheduler_runs(KNOBS, True, 1)
    assert not scheduler_runs(replace(KNOBS, load_balancer_enabled=False), True, 2)
    assert not scheduler_runs(replace(KNOBS, load_balancer_shedding_enabled=False), True, 2)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_mean_and_spread_are_those_of_the_loads(loads: list[float]) -> None:
    stats = LoadStats.of(loads)
    assert stats.average == pytest.approx(float(np.mean(loads)), abs=1e-9)
    # rounding may make the variance of equal loads negative: NaN, as in Java, and never above a target
    assert math.isnan(stats.std) or stats.std == pytest.approx(float(np.std(loads)), abs=1e-5)


@given(
    st.lists(st.tuples(st.floats(0.01, 2), st.lists(st.floats(0, 100), max_size=12)), min_size=2, max_size=12),
    st.booleans(),
)
def test_decisions_name_a_bundle_once_and_leave_the_fullest_one(sizes: list[Any], debug: bool) -> None:
    built = cluster({f"b{at}": (load, sorted(bundles)) for at, (load, bundles) in enumerate(sizes)})
    outcome = find_bundles_for_unloading(built, 0, replace(KNOBS, load_balancer_debug_mode_enabled=debug))
    names = [move.bundle for move in outcome.decisions]
    assert len(names) == len(set(names))
    assert all(move.source != move.target for move in outcome.decisions)
    for broker in {move.source for move in outcome.decisions}:
        gone = [move for move in outcome.decisions if move.source == broker]
        assert len(gone) <= len(built.top_bundles(broker))
    assert (outcome.verdict is None) is bool(outcome.decisions)
