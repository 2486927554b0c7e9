"""Strategy `weighted`: the walkthrough's example, when it acts, which bundles go, where to, and what it never does."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.decision import Decision, DecisionKind, Reason, RoundResult
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.overrides import AVOID, Override
from controller.domain.settings import PolicySettings, ShedSettings
from controller.ops.decide_line import parse_line
from controller.ops.decide_session import DecideSession
from controller.policy.round import replay_round, run_round
from controller.policy.snapshot import Snapshot
from tests.unit.builders import ClusterBuilder, bundle_name, cluster, moves, reason_of, sources
from tests.unit.decide_lines import Lines
from tests.unit.published_cases import carry_out, set_cpu

CPU = RESOURCES.index("cpu")
LIMIT = 0.85  # of the CPU, by default


def weighted(**settings: Any) -> ClusterBuilder:
    return cluster(strategy="weighted", **settings)


def walkthrough() -> ClusterBuilder:
    """my-topic's partitions 0 to 4 on broker-1, 5 to 9 on broker-2, each in a bundle of the same load."""
    built = weighted()
    for at, broker in enumerate(("broker-1", "broker-2")):
        built.broker(broker, cpu=50.0, partitions=5.0, topics=5.0)
        for partition in range(5 * at, 5 * at + 5):
            built.bundle(broker, cpu=10.0, partitions=1.0, topics=1.0, name=bundle_name(partition))
    return built


def owned(built: ClusterBuilder, broker: str) -> list[int]:
    """The partitions of a broker."""
    number = {bundle_name(partition): partition for partition in range(10)}
    return sorted(number[row["bundle"]] for row in built.bundles if row["broker"] == broker)


def with_latencies(built: ClusterBuilder, **ms: dict[str, float]) -> RoundResult:
    """The second round, with latencies by name and broker."""
    for _ in range(2):
        inputs = built.inputs()
        columns = {name: np.array([by[b] for b in inputs.brokers["broker"]]) for name, by in ms.items()}
        result = run_round(replace(inputs, brokers={**inputs.brokers, **columns}))
        built.state.round_memory = dict(result.memory)
        built.later()
    return result


class TestTheWalkthrough:
    @pytest.mark.covers("walkthrough-example", "rolling-average")
    def test_an_overload_moves_partition_0_to_broker_2_and_nothing_else(self) -> None:
        built = walkthrough()
        assert moves(built.second_round()) == []
        set_cpu(built.later(), "broker-1", 92)  # a producer sends a massive amount of data to partitions 0 to 4
        assert moves(built.round()) == []  # this decision isn't instantaneous
        (move,) = moves(built.later().round())
        assert (move.bundle, move.source, move.target) == (bundle_name(0), "broker-1", "broker-2")
        assert move.reason is Reason.OVERLOADED
        assert move.before == {"broker-1": pytest.approx(0.92), "broker-2": pytest.approx(0.5)}
        assert move.after == {"broker-1": pytest.approx(0.736), "broker-2": pytest.approx(0.684)}
        carry_out(built, move)
        assert owned(built, "broker-1") == [1, 2, 3, 4]
        assert owned(built, "broker-2") == [0, 5, 6, 7, 8, 9]
        for _ in range(5):
            assert moves(built.later().round()) == []

    @pytest.mark.covers("walkthrough-example", "target-same-topic")
    def test_the_same_through_ballast_decide(self) -> None:
        def line(points: float) -> bytes:
            named = "persistent://t/ns/my-topic-partition-"
            lines.broker("broker-1", {f"{named}{p}": points for p in range(5)})
            return lines.broker("broker-2", {f"{named}{p}": 10.0 for p in range(5, 10)}).next()

        lines, session = Lines(), DecideSession("weighted", PolicySettings())
        told: list[Decision] = []
        for points in (10.0, 18.0, 18.0):
            assert told == []
            decisions = session.decide(session.snapshot(parse_line(line(points))))
            told = [d for d in decisions if d.kind is not DecisionKind.SKIP]
        (move,) = told
        assert (move.bundle, move.target) == ("persistent://t/ns/my-topic-partition-0", "broker-2")
        assert move.evidence["target_serves_the_topic"]

    @pytest.mark.covers("weighted-bandwidth-out")
    def test_its_limit_on_outgoing_bandwidth_is_what_makes_it_more_sensitive(self) -> None:
        built = walkthrough()
        knob = {"bandwidth_out_threshold_bytes_per_s": 8_000_000, "cpu_threshold": None}
        for name, used in (("broker-1", 10e6), ("broker-2", 2e6)):
            built.brokers[name] |= {"bandwidth_out_usage": used, "bandwidth_out_limit": 125e6}
            for row in built.bundles:
                if row["broker"] == name:
                    row["throughput_out"] = used / 5
            built.brokers[name]["throughput_out"] = used
        assert moves(built.second_round()) == []
        (move,) = moves(built.with_settings(weighted=knob).second_round())
        assert (move.bundle, move.target) == (bundle_name(0), "broker-2")
        assert move.evidence["limits"] == {"bandwidth_out": 1250}
        assert move.evidence["source_limits_after"] == {"bandwidth_out": 1000}


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

    @pytest.mark.parametrize("figure", ["topics", "partitions", "unacked"])
    def test_at_the_limit_is_not_over_it(self, figure: str) -> None:
        built, latencies = one_over(figure)
        (knob,) = FIGURES[figure][2]
        assert moves(with_latencies(built.with_settings(weighted={**OFF, knob: 120}), **latencies)) == []
        built, latencies = one_over(figure)
        assert moves(with_latencies(built.with_settings(weighted={**OFF, knob: 119}), **latencies))

    @pytest.mark.covers("absolute-or-relative")
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


class TestWhen:
    def hot(self) -> ClusterBuilder:
        built = weighted().broker("a", cpu=95).broker("b", cpu=0)
        for _ in range(5):
            built.bundle("a", cpu=19)
        return built

    @pytest.mark.covers("rolling-average")
    def test_one_spike_moves_nothing(self) -> None:
        built = self.hot()
        for percent in (50, 95, 50, 95, 50):
            set_cpu(built, "a", percent)
            result = built.round()
            assert moves(result) == []
            assert reason_of(result, "a") is (Reason.HIT_COUNT if percent == 95 else Reason.WITHIN_LIMITS)
            built.later()

    def test_a_round_without_data_neither_adds_a_hit_nor_takes_one(self) -> None:
        built = self.hot()
        built.round()
        built.brokers["a"]["reports"] = 0
        assert reason_of(built.later().round(), "a") is Reason.NO_LOAD_DATA
        built.brokers["a"]["reports"] = 12
        assert moves(built.later().round())

    def test_a_new_process_starts_at_none(self) -> None:
        built = self.hot()
        built.round()
        built.state.round_memory["weighted"] = {"hits": {"a": [7, 9]}}
        assert moves(built.later().round()) == []

    def test_who_was_relieved_must_be_over_again_as_long_as_before(self) -> None:
        built = self.hot()
        assert len(moves(built.second_round())) == 1
        assert built.state.round_memory["weighted"]["hits"] == {}
        built.later()
        assert moves(built.round()) == []  # the move is not done yet, the averages are still those of before

    def test_in_shadow_the_hits_go_on(self) -> None:
        built = self.hot()
        built.state.mode = "shadow"
        assert moves(built.second_round())
        assert moves(built.later().round())


class TestWhich:
    @pytest.mark.covers("value-clients", "value-unacked", "busiest-first")
    def test_of_bundles_that_suffice_the_one_goes_that_is_missed_least(self) -> None:
        built = weighted().broker("a", cpu=90, sessions=100.0, unacked=1000.0).broker("b", cpu=0)
        built.bundle("a", cpu=10, sessions=60.0, unacked=100.0)
        built.bundle("a", cpu=10, sessions=10.0, unacked=800.0)
        built.bundle("a", cpu=10, sessions=20.0, unacked=50.0)
        built.bundle("a", cpu=10, sessions=10.0, unacked=50.0)
        built.bundle("a", cpu=40)
        built.bundle("a", cpu=4)
        (move,) = moves(built.second_round())
        assert move.bundle == bundle_name(3)

    def test_one_large_bundle_goes_rather_than_many_small_ones(self) -> None:
        built = weighted().broker("a", cpu=95, sessions=100.0).broker("b", cpu=0)
        for _ in range(40):
            built.bundle("a", cpu=2)
        built.bundle("a", cpu=15, sessions=100.0)
        (move,) = moves(built.second_round())
        assert move.bundle == bundle_name(40)

    def test_a_pinned_bundle_and_one_in_grace_stay(self) -> None:
        built = weighted().broker("a", cpu=95).broker("b", cpu=0)
        for moved in (0, built.at_ms - 60_000, 0):
            built.bundle("a", cpu=31, moved_at_ms=moved)
        built.state.overrides["o1"] = Override("o1", "pin", "t/ns", bundle=None, broker="a")
        result = built.second_round()
        assert moves(result) == []
        assert reason_of(result, "a") in (Reason.PINNED, Reason.GRACE_PERIOD)

    def test_what_is_not_the_bundles_doing_is_said(self) -> None:
        built = weighted().with_settings(weighted={"max_topics_per_broker": 100}).broker("a", cpu=10, topics=120.0)
        built.broker("b").bundle("a", cpu=10, topics=0.0)
        assert reason_of(built.second_round(), "a") is Reason.EXTERNAL_LOAD

    def test_a_source_without_bundles_says_so(self) -> None:
        built = weighted().broker("a", cpu=95).broker("b", cpu=0)
        assert reason_of(built.second_round(), "a") is Reason.NO_BUNDLES


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

    @pytest.mark.covers("target-same-topic")
    def test_of_equal_ones_the_one_that_serves_the_topic_already(self) -> None:
        built = self.full(20, 20, 20)
        built.bundle("c", cpu=5)
        (move,) = moves(built.second_round())
        assert move.target == "c"
        assert move.evidence["target_serves_the_topic"]
        elsewhere = self.full(20, 20, 20).bundle("c", cpu=5, namespace="t/other")
        assert moves(elsewhere.second_round())[0].target == "b"

    def test_nearness_weighs_less_than_much_load(self) -> None:
        built = self.full(20, 45)
        built.bundle("c", cpu=5)
        assert moves(built.second_round())[0].target == "b"

    @pytest.mark.covers("target-metadata-latency")
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


@st.composite
def clusters(draw: st.DrawFn) -> ClusterBuilder:
    """Brokers of unequal size, bundles of any size, limits on CPU and topics; some silent, drained or lagging."""
    topics = draw(st.sampled_from([None, 40]))
    built = weighted().with_settings(weighted={"max_topics_per_broker": topics})
    for at in range(draw(st.integers(2, 7))):
        name, cores = f"b{at}", draw(st.sampled_from([1.0, 1.0, 2.0, 4.0]))
        parts = draw(st.lists(st.floats(0.1, 40), max_size=8))
        counts = [draw(st.sampled_from([1.0, 5.0, 20.0])) for _ in parts]
        kind = draw(st.sampled_from(["", "", "", "", "drained", "silent", "lagging"]))
        cpu = min(sum(parts) / cores, 280.0)
        built.broker(name, cpu=cpu, cores=cores, drained=kind == "drained", topics=sum(counts))
        for points, count in zip(parts, counts, strict=True):
            moved = draw(st.sampled_from([0, 0, 0, built.at_ms - 60_000]))
            space = draw(st.sampled_from(["t/ns", "t/other"]))
            sessions = float(draw(st.integers(0, 9)))
            built.bundle(name, cpu=points, topics=count, moved_at_ms=moved, sessions=sessions, namespace=space)
        if kind == "silent":
            del built.brokers[name]
        if kind == "lagging":
            built.lagging.add(name)
    return built


def over(built: ClusterBuilder, cpu: float, topics: float, broker: str) -> bool:
    """Whether these figures are over the broker's limits, reckoned without the strategy."""
    most = built.settings.weighted.max_topics_per_broker
    row = built.brokers[broker]
    return cpu > LIMIT * row["cpu_limit"] * (1 + 1e-6) or (most is not None and topics > most * (1 + 1e-6))


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_only_who_is_over_gives_only_within_limits_is_taken_and_a_replay_is_the_same(built: ClusterBuilder) -> None:
    built.round()
    snapshot = built.later().snapshot()
    result = built.round()
    usage = {name: float(snapshot.usage[at, CPU]) for at, name in enumerate(snapshot.brokers)}
    topics = {name: float(snapshot.totals[at, BUNDLE_FIELDS.index("topics")]) for at, name in enumerate(usage)}
    start = dict(usage), dict(topics)
    named: set[str | None] = set()
    for move in moves(result):
        source, target = str(move.source), str(move.target)
        assert over(built, usage[source], topics[source], source)  # also before its second and third move
        assert over(built, start[0][source], start[1][source], source)
        assert move.bundle not in named
        named.add(move.bundle)
        at = snapshot.place_of(str(move.bundle))
        assert at is not None
        for broker, sign in ((source, -1.0), (target, 1.0)):
            usage[broker] += sign * float(snapshot.cost[at, CPU])
            topics[broker] += sign * float(snapshot.fields[at, BUNDLE_FIELDS.index("topics")])
        assert not over(built, usage[target], topics[target], target)
        assert max(move.after.values()) <= max(LIMIT, *(row["score"] or 0.0 for row in result.scores)) + 1e-4
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


@given(clusters(), st.integers(0, 1_000))
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_changes_nothing(built: ClusterBuilder, seed: int) -> None:
    built.round()
    inputs = built.later().inputs()
    shuffled = []
    for columns in (inputs.brokers, inputs.bundles):
        order = list(range(len(columns["broker"])))
        random.Random(seed).shuffle(order)
        shuffled.append({name: values[order] for name, values in columns.items()})
    again = run_round(replace(inputs, brokers=shuffled[0], bundles=shuffled[1]))
    assert again.plan_hash == run_round(inputs).plan_hash == run_round(inputs).plan_hash


@given(clusters())
@settings(max_examples=30, deadline=None)
def test_where_nobody_is_over_a_limit_nothing_ever_moves(built: ClusterBuilder) -> None:
    for row in built.brokers.values():
        row["cpu_usage"] = min(row["cpu_usage"], LIMIT * row["cpu_limit"])
    built.with_settings(weighted={"max_topics_per_broker": None})
    for _ in range(3):
        assert moves(built.round()) == []
        built.later()
