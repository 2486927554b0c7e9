"""Pulsar's broker filters: who is left, and what makes each of them fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.domain.errors import BallastError
from controller.pulsar.placement import filters
from controller.pulsar.placement.filters import BadBrokerVersion, IsolationPolicy


def test_a_broker_at_the_topic_limit_is_out_and_one_without_data_is_in() -> None:
    topics = {"a": 9, "b": 10, "c": 11}
    assert filters.by_max_topics(["a", "b", "c", "new"], topics, 10) == ["a", "new"]
    assert filters.by_max_topics(["a", "b", "c"], None, 10) == ["a", "b", "c"]  # the store is not ready


def test_the_modular_manager_keeps_a_broker_at_the_limit_and_everybody_when_nobody_is_left() -> None:
    assert filters.by_max_topics_modular(["a", "b", "c"], {"a": 9, "b": 10, "c": 11}, 10) == ["a", "b"]
    assert filters.by_max_topics_modular(["b", "c"], {"b": 12, "c": 11}, 10) == ["b", "c"]


@pytest.mark.parametrize(
    ("versions", "kept"),
    [
        ({"a": "2.9.9", "b": "2.10.0"}, ["b"]),  # numbers, not text
        ({"a": "4.0.0-rc.2", "b": "4.0.0-rc.10"}, ["b"]),
        ({"a": "4.0.0-rc.1", "b": "4.0.0-rc"}, ["a"]),
        ({"a": "4.0.0-1", "b": "4.0.0-alpha"}, ["b"]),  # words after numbers
        ({"a": "4.0.0-alpha", "b": "4.0.0"}, ["b"]),
        ({"a": "4.0.0+build.1", "b": "4.0.0+build.2"}, ["a", "b"]),
    ],
)
def test_the_newest_version_is_kept(versions: dict[str, str], kept: list[str]) -> None:
    assert filters.by_version(versions, prefer_later=True) == kept
    assert filters.by_version(versions, prefer_later=False) == list(versions)


@pytest.mark.parametrize("version", [None, "", "4", "4.0", "v4.0.0", "4.0.x", "04.0.0"])
def test_one_bad_version_fails_the_filter(version: str | None) -> None:
    with pytest.raises(BadBrokerVersion, match="bad-one"):
        filters.by_version({"good": "4.0.8", "bad-one": version}, prefer_later=True)


def test_brokers_of_another_load_manager_or_of_none_are_out() -> None:
    classes = {"a": "Modular", "b": "Extensible", "c": None}
    assert filters.by_load_manager_class(classes, "Modular") == ["a"]


POLICY = IsolationPolicy(primary=("prod-.*",), secondary=("spare",), min_limit=2)


def test_isolation_takes_secondaries_when_there_are_too_few_primaries_and_shared_ones_never() -> None:
    everyone = ["prod-1:8080", "prod-2:8080", "spare:8080", "shared:8080"]
    assert filters.by_isolation(everyone, POLICY) == ["prod-1:8080", "prod-2:8080"]
    assert filters.by_isolation(everyone[1:], POLICY) == ["prod-2:8080", "spare:8080"]
    assert filters.by_isolation(["shared:8080"], POLICY) == []


def test_isolation_matches_the_whole_host_without_its_port() -> None:
    assert filters.by_isolation(["prod-1:8080"], IsolationPolicy(("prod-1",))) == ["prod-1:8080"]
    assert filters.by_isolation(["prod-11:8080"], IsolationPolicy(("prod-1",))) == []
    assert filters.by_isolation(["prod-1:8080"], IsolationPolicy((".*:8080",))) == []


def test_without_a_policy_brokers_that_are_primary_somewhere_are_out_and_secondaries_are_not() -> None:
    everyone = ["prod-1:8080", "spare:8080", "shared:8080"]
    assert filters.by_isolation(everyone, None, [POLICY]) == ["spare:8080", "shared:8080"]
    only = filters.by_isolation(everyone, None, [POLICY], supports_domain=lambda broker: broker == "shared:8080")
    assert only == ["shared:8080"]


def test_anti_affinity_counts_domains_first_and_unnamed_brokers_as_one_domain() -> None:
    domains = {"east": ["a", "b"]}
    assert filters.by_anti_affinity("abcd", {"a": 1}, domains) == ["c", "d"]
    assert filters.by_anti_affinity("abcd", {"a": 1, "c": 1}, domains) == ["b", "d"]
    assert filters.by_anti_affinity("abcd", {"a": 1}) == ["b", "c", "d"]
    assert filters.by_anti_affinity("", {}, domains) == []


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3)), st.sets(st.sampled_from("abcdef"), min_size=1))
def test_anti_affinity_always_leaves_somebody_and_only_the_least(counts: dict[str, int], candidates: set[str]) -> None:
    domains = {"one": "ab", "two": "cd"}
    for home in (None, domains):
        kept = filters.by_anti_affinity(sorted(candidates), counts, home)
        assert kept
        assert set(kept) <= candidates
        assert len({counts.get(broker, 0) for broker in kept}) == 1


@pytest.mark.parametrize(
    ("counts", "current", "allowed"),
    [
        ({"a": 2, "b": 1, "c": 2}, "a", True),  # b has fewer
        ({"a": 1, "b": 1, "c": 1}, "a", False),  # it would be the same anywhere
        ({"a": 1, "b": 1}, "a", True),  # c has none
        ({"a": 1, "b": 2, "c": 3}, "a", True),  # Pulsar refuses only when all candidates are alike
    ],
)
def test_unloading_a_bundle_of_a_group(counts: dict[str, int], current: str, allowed: bool) -> None:
    assert filters.anti_affinity_allows_unload(current, ["a", "b", "c"], counts) is allowed


@pytest.mark.parametrize(
    ("counts", "current", "candidates", "allowed"),
    [
        ({"a": 2, "c": 1}, "a", ["c"], False),  # a's own count plays no part: it is no candidate, c is the only one
        ({"a": 2, "b": 1, "c": 1}, "a", ["b", "c"], False),
        ({"a": 2, "b": 1, "c": 2}, "a", ["b", "c"], True),  # candidates differ
        ({"a": 2, "c": 0}, "a", ["c"], True),
        ({"a": 2, "c": 1}, "a", ["a", "c"], True),
        ({}, "a", ["c"], True),
        ({}, "a", [], True),  # no namespace of the group is counted: nothing speaks against it
        ({"a": 2}, "a", [], False),
    ],
)
def test_a_broker_that_is_no_candidate_counts_as_having_none_of_the_group(
    counts: dict[str, int], current: str, candidates: list[str], allowed: bool
) -> None:
    assert filters.anti_affinity_allows_unload(current, candidates, counts) is allowed


def test_a_filter_that_fails_is_passed_over_in_placement() -> None:
    def fails(candidates: list[str]) -> list[str]:
        raise BallastError("no metadata")

    kept = filters.eligible(["a", "b"], [fails, lambda candidates: candidates[:1], fails])
    assert kept == ["a"]


def test_the_fewest_bundles_of_a_namespace() -> None:
    assert filters.by_least_bundles(["a", "b", "c"], {"a": 1, "b": 2}) == ["c"]
    assert filters.by_least_bundles([], {"a": 1}) == []
