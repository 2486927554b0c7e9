"""The limits of `weighted`: every one by itself, providers of one's own, and who may be a target."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.published.case import set_cpu
from benchmarks.published.clusters import ClusterBuilder, bundle_name, moves, reason_of, sources
from controller.domain.decision import Reason
from controller.domain.errors import ConfigError
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.overrides import AVOID, Override
from controller.domain.settings.policy import PolicySettings, ShedSettings
from controller.policy.round import replay_round
from controller.policy.view.snapshot import Snapshot
from tests.policy.strategies.weighted_clusters import weighted, with_latencies

# what is limited, the columns of brokers that are under such a limit, those of a bundle, the knob and a limit of 100
FIGURES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "cpu": ({}, {}, {"cpu_threshold": 0.4}),
    "memory": ({"memory_limit": 200.0}, {"storage_bytes": 30.0}, {"memory_threshold": 0.5}),
    "direct_memory": ({"direct_memory_limit": 200.0}, {}, {"memory_threshold": 0.5}),
    "disk_io": ({"disk_io_limit": 200.0}, {}, {"disk_io_threshold": 0.5}),
    "bandwidth_in": ({"bandwidth_in_limit": 200.0}, {"throughput_in": 30.0}, {"bandwidth_threshold": 0.5}),
    "bandwidth_out": ({}, {"throughput_out": 30.0}, {"bandwidth_out_threshold_bytes_per_s": 100}),
    "topics": ({}, {"topics": 30.0}, {"max_topics_per_broker": 100}),
    "partitions": ({}, {"partitions": 30.0}, {"max_partitions_per_broker": 100}),
    "offload": ({}, {"storage_bytes": 30.0}, {"offload_threshold_bytes": 100}),
    "unacked": ({}, {"unacked": 30.0}, {"max_unacked_messages_per_broker": 100}),
    "rpc_queue": ({}, {}, {"max_active_rpc_queue_ms": 100.0}),
}
OFF = {name: None for _, _, knob in FIGURES.values() for name in knob}


def one_over(figure: str) -> tuple[ClusterBuilder, dict[str, dict[str, float]]]:
    """`a` has 120 of the figure where 100 are allowed, in four bundles; `b` has nothing. And their latencies."""
    columns, part, _ = FIGURES[figure]
    built = weighted()
    for name, used in (("a", 120.0), ("b", 0.0)):
        usage = {f"{figure}_usage": used} if figure in RESOURCES[1:] else {}
        totals = {field: 4 * value if used else 0.0 for field, value in part.items()}
        built.broker(name, cpu=48.0 if used else 0.0, **{"topics": 0.0, **columns, **usage, **totals})
    for _ in range(4):
        built.bundle("a", cpu=12.0, **{"topics": 1.0, **part})
    return built, {"rpc_queue_ms": {"a": 120.0, "b": 0.0}, "metadata_latency_ms": {"a": 1.0, "b": 1.0}}


class TestLimits:
    @pytest.mark.covers(
        "weighted-cpu",
        "weighted-memory",
        "weighted-bandwidth-in",
        "weighted-bandwidth-out",
        "weighted-max-topics",
        "weighted-max-partitions",
        "weighted-offload",
        "weighted-unacked",
        "weighted-rpc-queue",
        "caps-trigger",
        "memory-signal",
        "max-or-average",
    )
    @pytest.mark.parametrize("figure", FIGURES)
    def test_each_limit_makes_a_source_of_who_is_over_it(self, figure: str) -> None:
        built, latencies = one_over(figure)
        result = with_latencies(built.with_settings(weighted={**OFF, **FIGURES[figure][2]}), **latencies)
        (move,) = moves(result)
        assert (move.bundle, move.source, move.target) == (bundle_name(0), "a", "b")
        assert move.evidence["limits"][figure] == 1200
        assert move.evidence["source_limits_after"][figure] == 900
        assert move.evidence["target_limits_after"][figure] == 300
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash

    @pytest.mark.covers("weighted-providers")
    @pytest.mark.parametrize("figure", FIGURES)
    def test_without_the_limit_or_without_somebody_who_looks_it_is_none(self, figure: str) -> None:
        built, latencies = one_over(figure)
        assert moves(with_latencies(built.with_settings(weighted=OFF), **latencies)) == []
        of_another = "Topics" if figure != "topics" else "Cpu"
        names = (f"controller.policy.weighted.providers.{of_another}Provider",)
        built, latencies = one_over(figure)
        built.with_settings(weighted={**OFF, **FIGURES[figure][2], "load_awareness_providers": names})
        assert moves(with_latencies(built, **latencies)) == []

    def test_what_nobody_reports_forbids_nothing(self) -> None:
        built, latencies = one_over("cpu")
        built.with_settings(weighted={**OFF, "cpu_threshold": 0.4, "max_active_rpc_queue_ms": 100.0})
        assert len(moves(built.second_round())) == 1
        built, latencies = one_over("cpu")
        latencies["rpc_queue_ms"] = {"a": 1.0, "b": float("nan")}
        built.with_settings(weighted={**OFF, "cpu_threshold": 0.4, "max_active_rpc_queue_ms": 100.0})
        result = with_latencies(built, **latencies)
        assert moves(result) == []
        assert reason_of(result, "a") is Reason.TARGET_OVER_LIMIT

    @pytest.mark.covers("how-far-over")
    @pytest.mark.parametrize("figure", FIGURES)
    def test_at_the_limit_is_not_over_it(self, figure: str) -> None:
        ((knob, hundred),) = FIGURES[figure][2].items()  # a limit of 100, where `a` has 120
        for limit, over in ((121, False), (120, False), (119, True)):
            built, latencies = one_over(figure)
            built.with_settings(weighted={**OFF, knob: type(hundred)(limit * hundred / 100)})
            found = moves(with_latencies(built, **latencies))
            assert bool(found) is over

    @pytest.mark.covers("absolute-or-relative", "limits-alone", "idle-broker-filled")
    def test_nobody_sheds_because_another_has_less(self) -> None:
        built = weighted().broker("a", cpu=84).broker("b", cpu=0)
        for _ in range(12):
            built.bundle("a", cpu=7)
        for _ in range(20):
            result = built.later().round()
            assert moves(result) == []
            assert {reason_of(result, broker) for broker in "ab"} == {Reason.WITHIN_LIMITS}

    def test_a_source_gives_no_more_than_brings_it_back(self) -> None:
        built = weighted().broker("a", cpu=99).broker("b", cpu=0)
        for _ in range(33):
            built.bundle("a", cpu=3)
        result = built.second_round()
        assert len(moves(result)) == 5  # 99 - 15 = 84
        assert moves(result)[-1].after["a"] == pytest.approx(0.84)
        assert [m.evidence["fewest_moves"] for m in moves(result)] == [5, 4, 3, 2, 1]

    def test_the_budget_of_a_round_holds(self) -> None:
        built = weighted(shed=ShedSettings(max_moves_per_round=2)).broker("a", cpu=99).broker("b", cpu=0)
        for _ in range(33):
            built.bundle("a", cpu=3)
        assert len(moves(built.second_round())) == 2
        none = replace(built.settings, shed=ShedSettings(max_moves_per_round=0))
        assert reason_of(replace_settings(built, none).later().round(), "a") is Reason.BUDGET_SPENT


def replace_settings(built: ClusterBuilder, changed: PolicySettings) -> ClusterBuilder:
    built.settings = changed
    return built


class TestWhere:
    def full(self, *others: float, cores: tuple[float, ...] = (1.0,) * 9) -> ClusterBuilder:
        """`a` at 95 % in five bundles; b, c, … with these percentages of their cores."""
        built = weighted().broker("a", cpu=95)
        for _ in range(5):
            built.bundle("a", cpu=19)
        for name, percent, size in zip("bcdefghij", others, cores, strict=False):
            built.broker(name, cpu=percent, cores=size)
        return built

    @pytest.mark.covers("target-capacity")
    def test_the_one_with_the_most_left_for_its_size(self) -> None:
        (move,) = moves(self.full(30, 40, cores=(1.0, 8.0)).second_round())
        assert move.target == "c"  # 30 + 19 = 49 % of one core; 40 + 19 / 8 = 42 % of eight

    @pytest.mark.covers("target-not-overloaded")
    def test_nobody_is_brought_over_its_limits_and_the_skip_says_so(self) -> None:
        result = self.full(70, 67).second_round()
        assert moves(result) == []
        assert reason_of(result, "a") is Reason.TARGET_OVER_LIMIT
        assert moves(self.full(70, 61).second_round())[0].target == "c"

    def test_a_target_keeps_a_little_free_of_what_fluctuates(self) -> None:
        assert moves(self.full(64).second_round()) == []  # 83 % of 85
        assert moves(self.full(61).second_round())  # 80 %

    def test_a_cluster_that_is_too_small_is_told_so(self) -> None:
        assert reason_of(self.full(84, 70).second_round(), "a") is Reason.TARGET_OVER_LIMIT
        assert reason_of(self.full(84, 84).second_round(), "a") is Reason.UNDER_PROVISIONED
        assert reason_of(self.full(90, 90).second_round(), "a") is Reason.UNDER_PROVISIONED
        assert reason_of(self.full().broker("b", drained=True).second_round(), "a") is Reason.NO_TARGET

    def test_who_is_over_a_limit_does_not_make_another_overloaded_for_it(self) -> None:
        knobs = {"max_topics_per_broker": 50, "cpu_threshold": None}
        built = weighted().with_settings(weighted=knobs).broker("a", cpu=30, topics=60.0).broker("b", cpu=70)
        for _ in range(3):
            built.bundle("a", cpu=10, topics=20.0)
        assert moves(built.second_round())[0].after["b"] == pytest.approx(0.8)
        set_cpu(built, "b", 76)
        result = built.later().second_round()
        assert moves(result) == []
        assert reason_of(result, "a") is Reason.WOULD_NOT_IMPROVE

    @pytest.mark.covers("target-not-overloaded", "target-not-cpu-alone")
    def test_one_over_another_limit_is_no_target(self) -> None:
        built = self.full(0, 30).with_settings(weighted={"max_partitions_per_broker": 100})
        built.brokers["b"]["partitions"] = 101.0
        (move,) = moves(built.second_round())
        assert move.target == "c"

    @pytest.mark.covers("target-same-topic", "partitions-apart")
    def test_of_equal_ones_the_one_that_serves_the_topic_already(self) -> None:
        built = self.full(20, 20, 20)
        built.bundle("c", cpu=5)
        (move,) = moves(built.second_round())
        assert move.target == "c"
        assert move.evidence["target_serves_the_topic"]
        elsewhere = self.full(20, 20, 20).bundle("c", cpu=5, namespace="t/other")
        assert moves(elsewhere.second_round())[0].target == "b"

    @pytest.mark.covers("target-same-topic")
    def test_nearness_weighs_less_than_much_load(self) -> None:
        built = self.full(20, 45)
        built.bundle("c", cpu=5)
        assert moves(built.second_round())[0].target == "b"

    @pytest.mark.covers("target-metadata-latency", "physical-distance")
    @pytest.mark.parametrize(("slow", "target"), [("b", "c"), ("c", "b")])
    def test_of_equal_ones_the_one_with_the_lower_metadata_latency(self, slow: str, target: str) -> None:
        ms = {name: 40.0 if name == slow else 2.0 for name in "abc"}
        result = with_latencies(self.full(20, 20), metadata_latency_ms=ms, rpc_queue_ms=dict.fromkeys("abc", 1.0))
        assert moves(result)[0].target == target
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash

    def test_an_unknown_latency_is_as_good_as_the_others(self) -> None:
        ms = {"a": 2.0, "b": 2.0, "c": float("nan")}
        result = with_latencies(self.full(20.2, 20), metadata_latency_ms=ms, rpc_queue_ms=dict.fromkeys("abc", 1.0))
        assert moves(result)[0].target == "c"

    def test_where_an_operator_does_not_want_it_it_does_not_go(self) -> None:
        built = self.full(0, 30)
        built.state.overrides["o1"] = Override("o1", AVOID, "t/ns", bundle=None, broker="b")
        (move,) = moves(built.second_round())
        assert move.target == "c"

    def test_a_cap_of_brokers_holds(self) -> None:
        built = self.full(0, 30).with_settings(caps={"max_topics": 100})
        built.brokers["b"]["topics"] = 95.0
        (move,) = moves(built.second_round())
        assert move.target == "c"

    def test_every_broker_has_its_reason_and_the_source_its_pairs(self) -> None:
        result = self.full(30, 40).silent("z").second_round()
        assert reason_of(result, "b") is reason_of(result, "c") is Reason.WITHIN_LIMITS
        assert reason_of(result, "z") is Reason.NO_LOAD_DATA
        assert sources(result) == ["a"]
        (move,) = moves(result)
        pairs = move.evidence["pairs"]
        assert [(p["bundle"], p["target"], p["lost_by"]) for p in pairs[:2]] == [
            (bundle_name(0), "b", ""), (bundle_name(0), "c", ""),
        ]  # fmt: skip
        assert pairs[0]["source_after"] == 7600
        assert pairs[0]["target_after"] == 4900


class Backlog:
    """A provider of an operator's own: bytes that wait to be delivered, at most 1,000 a broker."""

    name = "backlog"
    fluctuates = True
    column = BUNDLE_FIELDS.index("backlog_bytes")

    def usage(self, snapshot: Snapshot) -> Any:
        """Of all bundles."""
        return snapshot.totals[:, self.column]

    def limit(self, snapshot: Snapshot, settings: object) -> Any:
        """The same for all."""
        return np.full(len(snapshot.brokers), 1_000.0)

    def part(self, snapshot: Snapshot) -> Any:
        """The bundle's own."""
        return snapshot.fields[:, self.column]


@pytest.mark.covers("weighted-providers")
def test_a_provider_of_ones_own_counts_beside_the_built_in_ones() -> None:
    names = ("org.apache.pulsar.broker.load.LoadAwarenessProvider", f"{__name__}.Backlog")
    built = weighted().with_settings(weighted={"load_awareness_providers": names})
    built.broker("a", cpu=20, backlog_bytes=1_500.0).broker("b", cpu=20)
    built.bundle("a", cpu=10, backlog_bytes=400.0).bundle("a", cpu=10, backlog_bytes=700.0)
    result = built.second_round()
    (move,) = moves(result)
    assert (move.bundle, move.target) == (bundle_name(1), "b")
    assert move.evidence["limits"] == {"cpu": 235, "backlog": 1500}
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


class Words(Backlog):
    """Its limit is no number."""

    def limit(self, snapshot: Snapshot, settings: object) -> Any:
        """As many words as brokers."""
        return ["much"] * len(snapshot.brokers)


class Short(Backlog):
    """One usage for all."""

    def usage(self, snapshot: Snapshot) -> Any:
        """Not one for each."""
        return 7.0


class Faulty(Backlog):
    """It fails once somebody must shed."""

    def part(self, snapshot: Snapshot) -> Any:
        """Of no bundle."""
        raise LookupError("no such column")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Words, "Words: limit gave no numbers (could not convert string to float: 'much')"),
        (Short, "Short: usage gave (), not (2,) numbers"),
        (Faulty, "Faulty: part failed (LookupError: no such column)"),
    ],
)
def test_a_provider_that_fails_in_a_round_is_named(kind: type, said: str) -> None:
    built = weighted().with_settings(weighted={"load_awareness_providers": (f"{__name__}.{kind.__name__}",)})
    built.broker("a", cpu=20, backlog_bytes=1_500.0).broker("b", cpu=20)
    built.bundle("a", cpu=10, backlog_bytes=900.0).bundle("a", cpu=10, backlog_bytes=600.0)
    with pytest.raises(ConfigError) as caught:
        built.second_round()
    assert str(caught.value) == f"load awareness provider {__name__}.{said}"
