"""The snapshot: who owns what, what a bundle costs, what is under way counted as done."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.published.clusters import ClusterBuilder, bundle_name, cluster, loads
from controller.domain.errors import BadRecord
from controller.domain.load import BUNDLE_FIELDS, RESOURCES, TAIL
from controller.domain.ownership import State
from controller.policy.view.snapshot import Snapshot, build

CPU, MEMORY, DIRECT, IN, OUT, DISK = range(len(RESOURCES))


def cpu_of(snapshot: Snapshot) -> dict[str, float]:
    """CPU utilisation in percent by broker."""
    return dict(zip(snapshot.brokers, np.round(snapshot.utilisation[:, CPU] * 100, 6).tolist(), strict=True))


def three() -> ClusterBuilder:
    return cluster().broker("a", cpu=60).broker("b", cpu=20).broker("c", cpu=10)


@pytest.mark.covers("unit-of-move")
def test_bundles_and_brokers_are_sorted_and_costed_by_their_share() -> None:
    snapshot = cluster().broker("b", cpu=20).broker("a", cpu=60).bundle("a", cpu=45).bundle("a", cpu=15).snapshot()
    assert snapshot.brokers == ("a", "b")
    assert snapshot.bundles == (bundle_name(0), bundle_name(1))
    assert snapshot.owner.tolist() == [0, 0]
    assert snapshot.cost[:, CPU].tolist() == pytest.approx([45.0, 15.0])


@pytest.mark.covers("traffic-as-proxy")
def test_cpu_is_attributed_half_by_messages_and_half_by_bytes() -> None:
    built = cluster().broker("a", cpu=80)
    # all of the messages and a quarter of the bytes
    built.bundle("a", msg_rate_in=8_000, throughput_in=2e6)
    assert built.snapshot().cost[0, CPU] == pytest.approx(0.5 * 80 + 0.5 * 20)


def test_cpu_goes_by_bytes_alone_where_no_messages_are_counted() -> None:
    built = cluster().broker("a", cpu=80, msg_rate_in=0, msg_rate_out=0).bundle("a", throughput_in=2e6)
    assert built.snapshot().cost[0, CPU] == pytest.approx(20)


@pytest.mark.covers("report-disk-io", "traffic-as-proxy")
def test_other_resources_have_their_own_drivers() -> None:
    built = cluster().broker(
        "a", cpu=0, throughput_in=10e6, throughput_out=30e6, storage_bytes=6e9, cache_bytes=2e9,
        memory_usage=4e9, memory_limit=8e9, direct_memory_usage=1e9, direct_memory_limit=2e9,
        disk_io_usage=50e6, disk_io_limit=100e6,
    )  # fmt: skip
    built.bundle("a", throughput_in=5e6, throughput_out=3e6, storage_bytes=1e9, cache_bytes=1e9)
    cost = built.snapshot().cost[0]
    assert cost[[MEMORY, DIRECT, IN, OUT, DISK]].tolist() == pytest.approx([1e9, 0.2e9, 5e6, 3e6, 25e6])


def test_the_tail_is_no_bundle() -> None:
    built = cluster().broker("a", cpu=60).bundle("a", cpu=20)
    built.bundle("a", cpu=40, name=f"t/ns/{TAIL}", journaled=False)
    built.bundles[-1]["bundle"] = TAIL
    assert built.snapshot().bundles == (bundle_name(0),)


@pytest.mark.parametrize("state", [State.TRANSFERRING, State.RELEASING])
def test_a_move_under_way_counts_as_done(state: State) -> None:
    snapshot = three().bundle("a", cpu=30, owner="a", to="b", state=state).snapshot()
    assert cpu_of(snapshot) == {"a": 30, "b": 50, "c": 10}
    assert snapshot.owner.tolist() == [1]
    assert snapshot.in_flight.tolist() == [True]


def test_a_bundle_seen_on_two_brokers_within_the_window_counts_in_full_for_its_owner() -> None:
    built = three().bundle("a", cpu=30, owner="b", reports=9, topics=0)
    built.bundle("b", cpu=30, name=bundle_name(0), reports=3, topics=0)
    snapshot = built.snapshot()
    # a's average holds 9/12 of it, b's 3/12
    assert cpu_of(snapshot) == {"a": 37.5, "b": 42.5, "c": 10}
    assert snapshot.cost[0, CPU] == pytest.approx(30)
    assert snapshot.totals.sum(axis=0) == pytest.approx(three().snapshot().totals.sum(axis=0))


def test_load_of_a_dead_owner_is_added_where_the_bundle_went() -> None:
    built = cluster().broker("a", cpu=40, alive=False).broker("b", cpu=20).bundle("a", cpu=30, owner="b")
    assert cpu_of(built.snapshot())["b"] == 50
    del built.brokers["a"]  # not even a row of its own is left: the cluster's mean cost stands in
    assert cpu_of(built.snapshot())["b"] == pytest.approx(50)


def test_the_journal_wins_over_the_reporter_and_the_reporter_over_nobody() -> None:
    built = three().bundle("a", cpu=10, owner="c").bundle("b", cpu=10, journaled=False)
    snapshot = built.snapshot()
    assert [snapshot.brokers[i] for i in snapshot.owner] == ["c", "b"]
    assert snapshot.epoch.tolist() == [3, 0]


def test_a_free_or_retired_bundle_has_no_owner() -> None:
    built = three().bundle("a", cpu=10, owner=None, state=State.FREE)
    snapshot = built.bundle("a", cpu=10, owner=None, state=State.RETIRED).snapshot()
    assert snapshot.owner.tolist() == [-1, -1]
    assert snapshot.unowned.tolist() == [True, True]
    assert cpu_of(snapshot)["a"] == 60


def test_only_the_registered_incarnation_counts_whichever_row_comes_first() -> None:
    built = three()
    built.brokers["old"] = {**built.brokers["a"], "cpu_usage": 99.0, "incarnation": 1}
    built.broker("a", cpu=5, incarnation=2)
    assert cpu_of(built.snapshot())["a"] == 5
    built.brokers = dict(reversed(built.brokers.items()))
    assert cpu_of(built.snapshot())["a"] == 5


@pytest.mark.covers("report-network")
def test_unknown_limits_and_usages_are_unknown_not_zero() -> None:
    built = cluster().broker("a", cpu=50, bandwidth_in_usage=5.0, bandwidth_in_limit=-1000.0, disk_io_usage=-1.0)
    snapshot = built.snapshot()
    assert np.isnan(snapshot.utilisation[0, [IN, OUT, DISK]]).all()
    assert snapshot.score.tolist() == [5_000]


def test_a_usage_far_beyond_any_limit_is_the_highest_score() -> None:
    score = cluster().broker("a", cpu=1e18, cores=1e-5).broker("b", cpu=99).snapshot().score
    assert score[0] > score[1] > 0


def test_an_empty_cluster_is_a_snapshot_too() -> None:
    snapshot = cluster().snapshot()
    assert snapshot.brokers == snapshot.bundles == ()
    assert loads(0).snapshot().score.tolist() == [0]


def test_a_missing_or_short_column_is_named() -> None:
    built = loads(50)
    brokers, bundles = built.columns()
    short = {**bundles, BUNDLE_FIELDS[0]: bundles[BUNDLE_FIELDS[0]][:-1]}
    with pytest.raises(BadRecord, match="bundle_load have"):
        build(built.state, brokers, short, built.at_ms, built.settings)
    del brokers["cpu_limit"]
    with pytest.raises(BadRecord, match="broker_load lacks cpu_limit"):
        build(built.state, brokers, bundles, built.at_ms, built.settings)
