"""Strategy `weighted`: the walkthrough's example, when it acts, which bundles go, and what it never does."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.published.case import carry_out, set_cpu
from benchmarks.published.clusters import ClusterBuilder, bundle_name, moves, reason_of
from controller.decide.line import parse_line
from controller.decide.session import DecideSession
from controller.domain.decision import Decision, DecisionKind, Reason
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.domain.overrides import Override
from controller.domain.settings.policy import PolicySettings
from controller.domain.settings.weighted import WeightedSettings
from controller.policy.round import replay_round, run_round
from tests.examples import examples
from tests.policy.strategies.weighted_clusters import weighted
from tests.sim.decide.decide_lines import Lines

CPU = RESOURCES.index("cpu")
LIMIT = 0.85  # of the CPU, by default


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

    @pytest.mark.covers("weighted-max-partitions")
    def test_lines_of_partitions_are_under_its_limit_on_partitions(self) -> None:
        """A line has no number of partitions: a bundle that is named like one holds nothing else."""
        held = {f"persistent://t/ns/my-topic-partition-{p}": 10.0 for p in range(5)}
        for others, limit, moved in (
            ({}, 4, True),
            ({}, 5, False),
            ({"persistent://t/ns/no-partition": 1.0}, 5, False),
        ):
            knobs = WeightedSettings(max_partitions_per_broker=limit)
            lines, session = Lines(), DecideSession("weighted", PolicySettings(weighted=knobs))
            lines.topics = 1
            lines.broker("broker-1", {**held, **others}).broker("broker-2", {})
            for _ in range(2):
                decisions = session.decide(session.snapshot(parse_line(lines.next())))
            found = [(d.bundle, d.target) for d in decisions if d.kind is not DecisionKind.SKIP]
            assert found == [("persistent://t/ns/my-topic-partition-0", "broker-2")] * moved

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

    @pytest.mark.covers("busiest-first", "least-valuable-first")
    def test_strictly_by_value_the_smallest_goes_first_until_the_broker_is_within_its_limits(self) -> None:
        """95 - 85 = 10 points too many: one bundle of 15 would do; by value alone those of 4, 5 and 6 go before it."""
        for fewest, gone in ((True, [3]), (False, [1, 2, 0])):
            built = weighted().with_settings(weighted={"fewest_moves": fewest})
            built.broker("a", cpu=95, sessions=100.0).broker("b", cpu=0)
            for points, sessions in ((6, 9.0), (4, 1.0), (5, 4.0), (15, 20.0), (65, 66.0)):
                built.bundle("a", cpu=points, sessions=sessions)
            found = moves(built.second_round())
            assert [move.bundle for move in found] == [bundle_name(at) for at in gone]
            assert found[0].evidence["fewest_moves"] == 1
            values = [move.evidence["value_ppm"] for move in found]
            assert values == sorted(values)

    def test_strictly_by_value_what_relieves_nothing_stays_all_the_same(self) -> None:
        built = weighted().with_settings(weighted={"fewest_moves": False}).broker("a", cpu=90).broker("b", cpu=0)
        for points in (0, 0, 30, 60):
            built.bundle("a", cpu=points)
        (move,) = moves(built.second_round())
        assert move.bundle == bundle_name(2)

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


@pytest.mark.covers("limits-alone")
@given(clusters())
@settings(max_examples=examples(60))
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
@settings(max_examples=examples(30))
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


@pytest.mark.covers("limits-alone")
@given(clusters())
@settings(max_examples=examples(30))
def test_where_nobody_is_over_a_limit_nothing_ever_moves(built: ClusterBuilder) -> None:
    for row in built.brokers.values():
        row["cpu_usage"] = min(row["cpu_usage"], LIMIT * row["cpu_limit"])
    built.with_settings(weighted={"max_topics_per_broker": None})
    for _ in range(3):
        assert moves(built.round()) == []
        built.later()
