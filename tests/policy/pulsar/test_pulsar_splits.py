"""Splits of both of Pulsar's managers and where they cut, with every place that its names do not tell of."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.domain.errors import BadRecord, BallastError, ConfigError
from controller.domain.ids import RING_END, Bundle
from controller.domain.settings.pulsar import PulsarKnobs
from controller.pulsar.load.load_data import MIB, NamespaceBundleStats
from controller.pulsar.reasons import SplitReason
from controller.pulsar.splitting import boundaries as cut
from controller.pulsar.splitting import split_strategy, split_task

KNOBS = PulsarKnobs()
BUNDLE = "tenant/namespace/0x00000000_0x80000000"
OTHER = "tenant/namespace/0x80000000_0xffffffff"


def around(
    count: int = 1,
    owned: bool = True,
    cuts: Callable[[str], Sequence[int] | None] = lambda bundle: [Bundle.parse(bundle).middle()],
    splitting: Sequence[str] = (),
) -> split_strategy.Surroundings:
    return split_strategy.Surroundings("b0", lambda bundle: owned, lambda namespace: count, cuts, splitting)


def cycles(
    stats: Mapping[str, NamespaceBundleStats], knobs: PulsarKnobs, where: split_strategy.Surroundings, count: int
) -> list[split_strategy.SplitOutcome]:
    hits: Mapping[str, int] = {}
    outcomes = []
    for _ in range(count):
        outcomes.append(split_strategy.find_bundles_to_split(stats, hits, knobs, where))
        hits = outcomes[-1].hits
    return outcomes


BUSY = NamespaceBundleStats(topics=1_001)


def test_a_bundle_splits_in_the_cycle_that_exceeds_the_hit_count() -> None:
    found = cycles({BUNDLE: BUSY}, KNOBS, around(), 5)
    assert [len(outcome.decisions) for outcome in found] == [0, 0, 0, 1, 0]
    (decision,) = found[3].decisions
    assert decision.children == ("0x00000000_0x40000000", "0x40000000_0x80000000")
    assert decision.reason is SplitReason.TOPICS
    assert found[4].hits == {BUNDLE: 1}  # counting begins anew


def test_one_calm_cycle_takes_all_hits_away_and_a_vanished_bundle_too() -> None:
    hits = cycles({BUNDLE: BUSY}, KNOBS, around(), 3)[-1].hits
    calm = split_strategy.find_bundles_to_split({BUNDLE: NamespaceBundleStats(topics=5)}, hits, KNOBS, around())
    assert calm.hits == {}
    assert split_strategy.find_bundles_to_split({OTHER: BUSY}, hits, KNOBS, around()).hits == {OTHER: 1}


def test_a_bundle_that_is_held_back_stays_armed() -> None:
    held = cycles({BUNDLE: BUSY}, KNOBS, around(count=128), 6)
    assert not any(outcome.decisions for outcome in held)
    freed = split_strategy.find_bundles_to_split({BUNDLE: BUSY}, held[-1].hits, KNOBS, around(count=127))
    assert len(freed.decisions) == 1


@pytest.mark.parametrize(
    ("stats", "reason"),
    [
        (NamespaceBundleStats(topics=1_000), None),
        (NamespaceBundleStats(topics=1_001, msg_rate_in=40_000), SplitReason.TOPICS),
        (NamespaceBundleStats(topics=2, consumer_count=600, producer_count=400), None),
        (NamespaceBundleStats(topics=2, consumer_count=600, producer_count=401), SplitReason.SESSIONS),
        (NamespaceBundleStats(topics=2, msg_rate_in=15_000, msg_rate_out=15_000), None),
        (NamespaceBundleStats(topics=2, msg_rate_in=15_000, msg_rate_out=15_001), SplitReason.MSG_RATE),
        (NamespaceBundleStats(topics=2, msg_throughput_in=50 * MIB, msg_throughput_out=50 * MIB), None),
        (
            NamespaceBundleStats(topics=2, msg_throughput_in=50 * MIB, msg_throughput_out=51 * MIB),
            SplitReason.BANDWIDTH,
        ),
    ],
)
def test_limits_must_be_exceeded_and_the_first_one_names_the_reason(
    stats: NamespaceBundleStats, reason: SplitReason | None
) -> None:
    assert split_strategy.too_big(stats, KNOBS) is reason


def test_sessions_are_not_looked_at_with_a_limit_of_zero() -> None:
    knobs = replace(KNOBS, load_balancer_namespace_bundle_max_sessions=0)
    crowded = NamespaceBundleStats(topics=2, consumer_count=9_999)
    assert split_strategy.too_big(crowded, knobs) is None
    assert split_task.find_bundles_to_split([("b", {BUNDLE: crowded})], {}, knobs, lambda namespace: 1) == {}


AT_ONCE = replace(KNOBS, load_balancer_namespace_bundle_split_condition_hit_count_threshold=0)


@pytest.mark.parametrize("cuts", [None, [], [10, 20], [0], [0x80000000]])
def test_anything_but_one_boundary_inside_is_a_failure(cuts: list[int] | None) -> None:
    (outcome,) = cycles({BUNDLE: BUSY}, AT_ONCE, around(cuts=lambda bundle: cuts), 1)
    assert (len(outcome.decisions), outcome.failures) == (0, 1)
    assert outcome.hits == {BUNDLE: 1}


def test_lookups_that_fail_are_counted_and_leave_the_bundle_armed() -> None:
    def fails(name: str) -> int:
        raise BallastError(name)

    where = around()._replace(namespace_bundles=fails)
    (outcome,) = cycles({BUNDLE: BUSY, OTHER: BUSY}, AT_ONCE, where, 1)
    assert (outcome.decisions, outcome.failures) == ((), 2)


@pytest.mark.parametrize("bundle", ["tenant/namespace/0x00000000_0x00000001", "no bundle at all"])
def test_a_bundle_that_cannot_be_cut_is_a_failure(bundle: str) -> None:
    (outcome,) = cycles({bundle: BUSY}, AT_ONCE, around(), 1)
    assert (outcome.failures, outcome.hits) == (1, {})


def test_bundles_of_others_and_with_a_single_topic_are_passed_over() -> None:
    (outcome,) = cycles({BUNDLE: BUSY}, AT_ONCE, around(owned=False), 1)
    assert (outcome.decisions, outcome.failures, outcome.hits) == ((), 0, {})
    (outcome,) = cycles({BUNDLE: NamespaceBundleStats(topics=1, msg_rate_in=1e9)}, AT_ONCE, around(), 1)
    assert outcome.decisions == ()


def test_a_full_cycle_does_not_even_count_what_comes_behind() -> None:
    knobs = replace(AT_ONCE, load_balancer_max_number_of_bundles_to_split_per_cycle=1)
    (outcome,) = cycles({BUNDLE: BUSY, OTHER: BUSY}, knobs, around(), 1)
    assert [decision.bundle for decision in outcome.decisions] == [BUNDLE]
    assert outcome.hits == {}


def test_splits_planned_in_a_cycle_count_for_the_namespaces_limit() -> None:
    (outcome,) = cycles({BUNDLE: BUSY, OTHER: BUSY}, AT_ONCE, around(count=127), 1)
    assert [decision.bundle for decision in outcome.decisions] == [BUNDLE]


@pytest.mark.parametrize(
    ("splitting", "held"),
    [
        ("tenant/namespace/0x00000000_0x40000000", True),  # shares the lower bound
        ("tenant/namespace/0x40000000_0x80000000", True),  # shares the upper bound
        ("tenant/namespace/0x80000000_0xffffffff", False),  # touches it, but shares none
        ("tenant/other/0x00000000_0x40000000", False),
        ("tenant/namespace2/0x00000000_0x40000000", True),  # a string prefix is all that Pulsar looks at
    ],
)
def test_a_neighbour_that_is_being_split_holds_a_bundle_back(splitting: str, held: bool) -> None:
    (outcome,) = cycles({BUNDLE: BUSY}, AT_ONCE, around(splitting=[splitting]), 1)
    assert (outcome.decisions == ()) is held


def test_the_modular_manager_judges_rates_by_long_term_averages_alone() -> None:
    bursting = NamespaceBundleStats(topics=2, msg_rate_in=1e9, msg_throughput_in=1e12)
    stats = [("b0", {BUNDLE: bursting}), ("b1", {OTHER: NamespaceBundleStats(topics=2)})]
    assert split_task.find_bundles_to_split(stats, {}, KNOBS, lambda namespace: 1) == {}
    averages = {OTHER: split_task.LongTerm(msg_rate=30_001)}
    assert split_task.find_bundles_to_split(stats, averages, KNOBS, lambda namespace: 1) == {OTHER: "b1"}


def test_the_modular_manager_splits_at_once_without_a_limit_a_cycle_but_within_the_namespaces() -> None:
    bundles = {f"tenant/namespace/0x{at:08x}_0x{at + 1:08x}": BUSY for at in range(40)}
    found = split_task.find_bundles_to_split([("b0", bundles)], {}, KNOBS, lambda namespace: 100)
    assert list(found) == list(bundles)[:28]
    assert split_task.find_bundles_to_split([("b0", {BUNDLE: BUSY})], {}, KNOBS, lambda namespace: 128) == {}


def test_the_modular_manager_leaves_a_bundle_alone_whose_namespace_cannot_be_counted() -> None:
    def fails(namespace: str) -> int:
        raise BallastError(namespace)

    assert split_task.find_bundles_to_split([("b0", {BUNDLE: BUSY})], {}, KNOBS, fails) == {}
    assert split_task.checks_splits(KNOBS, 2)
    assert not split_task.checks_splits(KNOBS, 1)


# boundaries -----------------------------------------------------------------------------------------------------------


def test_neighbouring_hashes_are_cut_at_the_lower_one_itself() -> None:
    assert cut.topic_count_equally_divide(cut.SplitRequest(0, RING_END, hashes=[5, 6])) == [5]


def test_equal_hashes_count_once_in_the_sum_that_opens_the_gate_and_twice_in_the_walk() -> None:
    topics = ["plumless", "buckeroo"]  # the same CRC-32
    loads = {topic: cut.TopicLoad(rate, 0) for topic, rate in zip(topics, (10.0, 1_000.0), strict=True)}
    request = cut.SplitRequest(0, RING_END, topics, loads=loads, max_msg_rate=500)
    assert cut.flow_or_qps_equally_divide(request) is None  # one topic as far as the map can tell
    topics.append("third")
    loads["third"] = cut.TopicLoad(400, 0)
    found = cut.flow_or_qps_equally_divide(request._replace(topics=topics, loads=loads))
    assert found is not None
    assert len(found) == 2  # the double stands for two topics of 1,000


def test_flow_leaves_idle_and_unknown_topics_and_calm_bundles_alone() -> None:
    loads = {"a": cut.TopicLoad(600, 0), "b": cut.TopicLoad(600, 0), "idle": cut.TopicLoad(0, 0)}
    request = cut.SplitRequest(0, RING_END, ["a", "b", "idle", "unknown"], loads=loads, max_msg_rate=1_000)
    found = cut.flow_or_qps_equally_divide(request)
    assert found is not None
    assert len(found) == 1
    assert cut.flow_or_qps_equally_divide(request._replace(difference_percentage=20.01)) is None
    assert cut.flow_or_qps_equally_divide(request._replace(topics=["a", "idle"])) is None


def test_positions_must_be_given_and_lie_inside() -> None:
    request = cut.SplitRequest(10, 20, ["a", "b"])
    with pytest.raises(BadRecord):
        cut.specified_positions_divide(request)
    assert cut.specified_positions_divide(request._replace(positions=[10, 20, 25])) is None
    assert cut.specified_positions_divide(request._replace(positions=[19, 11])) == [11, 19]
    assert cut.specified_positions_divide(request._replace(positions=[12], topics=["a"])) is None
    assert cut.specified_positions_divide(request._replace(positions=[12], topics=[]), force=True) == [12]


def test_an_unknown_algorithm_falls_back() -> None:
    request = cut.SplitRequest(0, 100, hashes=[10, 20, 30, 40])
    assert cut.boundaries("nonsense", request, "topic_count_equally_divide") == [25]
    assert cut.boundaries("nonsense", request, "nonsense") == [50]


@given(st.integers(0, RING_END - 2), st.integers(2, 1_000), st.integers(2, 20))
def test_equal_parts_cover_the_range(lower: int, width: int, parts: int) -> None:
    upper = min(lower + width, RING_END)
    if upper - lower < parts:
        with pytest.raises(ConfigError):
            cut.equal_parts(lower, upper, parts)
        return
    found = cut.equal_parts(lower, upper, parts)
    assert len(found) == parts
    assert (found[0][0], found[-1][1]) == (lower, upper)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(found))
    assert len({b - a for a, b in found[:-1]}) <= 1


@given(st.lists(st.floats(0, 2_000), min_size=2, max_size=40), st.integers(0, 1_000))
def test_flow_cuts_ascend_inside_the_ring_and_part_what_is_above_the_limit(rates: list[float], seed: int) -> None:
    loads = {f"topic-{seed}-{at}": cut.TopicLoad(rate, rate) for at, rate in enumerate(rates)}
    request = cut.SplitRequest(0, RING_END, list(loads), loads=loads, max_msg_rate=1_000)
    found = cut.flow_or_qps_equally_divide(request)
    assert found is None or (found == sorted(set(found)) and all(0 < at <= RING_END for at in found))
    if found is None:
        assert sum(rates) < 1_100 or sum(rate > 0 for rate in rates) < 2
