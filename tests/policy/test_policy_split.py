"""Oversized bundles: the four limits, what stops a split, where the cut goes."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.published.clusters import ClusterBuilder, bundle_name, cluster, moves, splits
from controller.domain.decision import Reason
from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.settings.policy import MIB, SplitSettings
from controller.policy.split import find_exceeded_limit

BIG: dict[str, Any] = {"topics": 1_001.0}


def one(**bundle: Any) -> ClusterBuilder:
    return cluster().broker("a", cpu=20).broker("b", cpu=20).bundle("a", **{**BIG, **bundle})


def why_not(built: ClusterBuilder) -> Reason:
    """The reason of the only bundle's skip."""
    result = built.round()
    assert splits(result) == []
    (found,) = [d.reason for d in result.decisions if d.bundle is not None]
    return found


@pytest.mark.covers(
    "split-max-topics", "split-max-sessions", "split-max-msg-rate", "split-max-bandwidth", "split-any-limit"
)
@pytest.mark.parametrize(
    ("stats", "reason"),
    [
        ({"topics": 1_000}, None),
        ({"topics": 1_001}, Reason.SPLIT_TOPICS),
        ({"producers": 600, "consumers": 400}, None),
        ({"producers": 600, "consumers": 401}, Reason.SPLIT_SESSIONS),
        ({"msg_rate_in": 15_000, "msg_rate_out": 15_000}, None),
        ({"msg_rate_in": 15_000, "msg_rate_out": 15_001}, Reason.SPLIT_MSG_RATE),
        ({"throughput_in": 60 * MIB, "throughput_out": 40 * MIB}, None),
        ({"throughput_in": 60 * MIB, "throughput_out": 40 * MIB + 1}, Reason.SPLIT_BANDWIDTH),
        ({"topics": 1_001, "msg_rate_in": 1e9}, Reason.SPLIT_TOPICS),
    ],
)
def test_limits(stats: dict[str, float], reason: Reason | None) -> None:
    assert find_exceeded_limit(stats, SplitSettings()) is reason


STORED = SplitSettings(max_storage_bytes=100 * MIB)


@pytest.mark.covers("split-size")
@pytest.mark.parametrize(
    ("stats", "reason"),
    [
        ({"storage_bytes": 100 * MIB}, None),
        ({"storage_bytes": 100 * MIB + 1}, Reason.SPLIT_STORAGE),
        ({"storage_bytes": 1e12, "cache_bytes": 1e12, "throughput_in": 101 * MIB}, Reason.SPLIT_BANDWIDTH),
    ],
)
def test_stored_bytes_are_the_last_limit(stats: dict[str, float], reason: Reason | None) -> None:
    assert find_exceeded_limit(stats, STORED) is reason


@pytest.mark.covers("split-size")
def test_stored_bytes_are_no_limit_unless_they_are_given_one() -> None:
    assert find_exceeded_limit({"storage_bytes": 1e15}, SplitSettings()) is None
    assert find_exceeded_limit({"storage_bytes": 1e15}, SplitSettings(max_storage_bytes=0)) is None


@pytest.mark.covers("split-size")
def test_a_bundle_that_stores_too_much_is_cut_in_the_middle_and_the_evidence_says_by_how_much() -> None:
    built = one(topics=2.0, storage_bytes=150.0 * MIB).with_settings(split={"max_storage_bytes": 100 * MIB})
    (split,) = splits(built.round())
    assert split.reason is Reason.SPLIT_STORAGE
    assert split.boundary == Bundle.parse(bundle_name(0)).middle()
    assert split.evidence["permille_of_limit"][Reason.SPLIT_STORAGE.value] == 1500
    assert len(split.evidence["permille_of_limit"]) == 5
    assert len(splits(one().round())[0].evidence["permille_of_limit"]) == 4  # as before the limit was there


def test_of_a_single_topic_stored_bytes_cannot_be_parted() -> None:
    built = one(topics=1.0, storage_bytes=150.0 * MIB).with_settings(split={"max_storage_bytes": 100 * MIB})
    assert why_not(built) is Reason.UNSPLITTABLE


@pytest.mark.covers("split-max-sessions")
@pytest.mark.parametrize("off", [None, 0, -1])
def test_a_limit_can_be_off(off: int | None) -> None:
    assert find_exceeded_limit({"producers": 1e6}, SplitSettings(max_sessions=off)) is None


@pytest.mark.covers("split-in-two", "split-proposed-locally")
def test_a_split_names_the_middle_and_the_epoch_it_was_decided_on() -> None:
    (split,) = splits(one(epoch=9).round())
    assert (split.bundle, split.source, split.epoch) == (bundle_name(0), "a", 9)
    assert split.reason is Reason.SPLIT_TOPICS
    assert split.boundary == Bundle.parse(bundle_name(0)).middle()
    assert split.evidence["permille_of_limit"][Reason.SPLIT_TOPICS.value] == 1001


@pytest.mark.covers("split-any-limit", "split-single-topic")
def test_a_single_topic_cannot_be_parted() -> None:
    assert why_not(one(topics=1, msg_rate_in=40_000)) is Reason.UNSPLITTABLE


def test_a_single_hash_cannot_be_parted() -> None:
    assert why_not(one(name="t/ns/0x00000007_0x00000008")) is Reason.UNSPLITTABLE


@pytest.mark.covers("split-switch")
def test_the_switch() -> None:
    assert why_not(one().with_settings(split={"enabled": False})) is Reason.SWITCHED_OFF


def test_a_bundle_under_way_is_left_alone() -> None:
    assert why_not(one(state=State.SPLITTING)) is Reason.IN_FLIGHT


def test_system_bundles_are_not_split() -> None:
    assert why_not(one(namespace="pulsar/system")) is Reason.EXCLUDED


def test_a_dead_owner_is_not_asked() -> None:
    built = cluster().broker("a", alive=False).broker("b").bundle("a", **BIG)
    assert [d for d in built.round().decisions if d.bundle] == []


@pytest.mark.covers("namespace-is-the-unit", "split-max-bundles")
def test_the_namespace_maximum_counts_splits_of_this_round_the_worst_first() -> None:
    built = one().bundle("a", topics=3_000).bundle("b", topics=2_000)
    built.with_settings(split={"namespace_maximum_bundles": 5})
    result = built.round()
    assert [s.bundle for s in splits(result)] == [bundle_name(1), bundle_name(2)]
    (left_out,) = [d for d in result.decisions if d.bundle == bundle_name(0)]
    assert left_out.reason is Reason.BUNDLE_LIMIT


@pytest.mark.covers("split-max-bundles")
def test_the_namespace_maximum_counts_splits_of_the_strategy() -> None:
    built = cluster(strategy="steady").broker("a", cpu=85).broker("b", cpu=20).broker("c", cpu=20)
    built.bundle("a", cpu=85, topics=50).bundle("b", **BIG)
    built.with_settings(split={"max_msg_rate_per_s": None, "namespace_maximum_bundles": 3})
    result = built.round()
    assert [(s.bundle, s.reason) for s in splits(result)] == [(bundle_name(0), Reason.SPLIT_TO_BALANCE)]
    assert [d.reason for d in result.decisions if d.bundle == bundle_name(1)] == [Reason.BUNDLE_LIMIT]


@pytest.mark.covers("split-max-bundles")
def test_the_namespace_maximum_counts_splits_in_flight() -> None:
    built = one().bundle("b", state=State.SPLITTING)
    built.state.namespaces["t/ns"] = tuple(Bundle.parse(b["bundle"]) for b in built.bundles)
    assert why_not(built.with_settings(split={"namespace_maximum_bundles": 3})) is Reason.BUNDLE_LIMIT
    assert splits(built.with_settings(split={"namespace_maximum_bundles": 4}).round())


def test_a_bundle_that_moves_is_not_split_in_the_same_round() -> None:
    built = cluster().broker("a", cpu=90).broker("b").bundle("a", cpu=30, **BIG).bundle("a", cpu=60, topics=5)
    result = built.second_round()
    assert [m.bundle for m in moves(result)] == [bundle_name(0)]
    assert splits(result) == []
