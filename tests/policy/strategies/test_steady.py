"""Strategy `steady`: its invariants on random clusters (I7, I8, I9), and each of its parts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.published.case import NO_TRAFFIC, Case, carry_out, play, set_cpu
from benchmarks.published.clusters import (
    BYTES_A_POINT,
    ClusterBuilder,
    cluster,
    loads,
    moves,
    reason_of,
    sources,
    splits,
)
from controller.domain.decision import DecisionKind, Reason
from controller.domain.ids import Bundle
from controller.domain.load import RESOURCE_SCALES, SCORE_UNIT
from controller.domain.overrides import AVOID, PIN, Override
from controller.domain.ownership import State
from controller.domain.settings.placement import IsolationPolicy, PlacementSettings
from controller.domain.settings.policy import PolicySettings, SteadySettings
from controller.policy.overrides import apply_moves, apply_overrides
from controller.policy.pacing import BURST_MIN
from controller.policy.placement.constraints import assess, constrain
from controller.policy.round import replay_round, run_round
from controller.policy.strategies import get
from controller.policy.strategies.steady.model import LOCKED_ERRORS, MARGIN_ERRORS, Model
from controller.policy.strategies.steady.planner import MIN_BUDGET, count_moves
from controller.policy.strategies.steady.timing import FIRST_ROUNDS, judge
from controller.policy.strategies.steady.usage import Usage
from controller.policy.usage.bursts import PATIENCE
from controller.policy.usage.model import UsageModel
from controller.policy.usage.observe import observe
from controller.policy.view.estimates import BROKER_ESTIMATES, BUNDLE_ESTIMATES
from controller.policy.view.snapshot import Snapshot, from_frame
from controller.sim.field.play import play as play_field
from controller.sim.field.play import player_of
from tests.examples import examples

STEADY = PolicySettings(strategy="steady")
CPU = 0


def steady(built: ClusterBuilder) -> ClusterBuilder:
    built.settings = replace(built.settings, strategy="steady")
    return built


def live(built: ClusterBuilder, rounds: int) -> ClusterBuilder:
    """Let that many rounds pass with their moves carried out."""
    for _ in range(rounds):
        for move in moves(built.round()):
            carry_out(built, move)
        built.later()
    return built


@st.composite
def clusters(draw: st.DrawFn) -> ClusterBuilder:
    """Up to eight brokers of unequal size with bundles of any sizes; some blocked, silent, idle or just moved."""
    built = steady(cluster())
    for at in range(draw(st.integers(2, 8))):
        name, cores = f"b{at}", draw(st.sampled_from([1.0, 1.0, 2.0, 4.0]))
        parts = draw(st.lists(st.floats(0.1, 40), max_size=8))
        kind = draw(st.sampled_from(["", "", "", "", "drained", "silent", "lagging"]))
        built.broker(name, cpu=min(sum(parts) / cores, 280.0), cores=cores, drained=kind == "drained")
        for points in parts:
            moved = draw(st.sampled_from([0, 0, 0, built.at_ms - 60_000]))
            topics = draw(st.sampled_from([1.0, 10.0]))
            built.bundle(name, cpu=points, topics=topics, moved_at_ms=moved, sessions=draw(st.integers(0, 9)))
        if kind == "silent":
            del built.brokers[name]
        if kind == "lagging":
            built.lagging.add(name)
    return built


def _no_bundle_fits() -> ClusterBuilder:
    """Two bundles of 45 on one broker, and nowhere room for one of them alone."""
    built = steady(cluster())
    for name, parts in (("b0", (45.0, 45.0)), ("b1", (35.0, 20.0)), ("b2", (36.0, 20.0)), ("b3", (36.0, 20.0))):
        built.broker(name, cpu=sum(parts), cores=1.0)
        for points in parts:
            built.bundle(name, cpu=points)
    return built


def test_both_halves_of_an_exchange_list_what_their_own_broker_could_have_given_with_the_chosen_one_first() -> None:
    halves = [move for move in moves(_no_bundle_fits().round()) if move.swapped_with]
    assert len(halves) == 2
    for leaving, returning in zip(halves[::2], halves[1::2], strict=True):
        assert (leaving.source, leaving.target) == (returning.target, returning.source)
        offered = {}
        for half in (leaving, returning):
            exchanges = [pair for pair in half.evidence["pairs"] if "in_exchange_for" in pair]
            chosen = {"bundle": half.bundle, "target": half.target, "in_exchange_for": half.swapped_with}
            assert {name: exchanges[0][name] for name in chosen} == chosen
            assert exchanges[0]["lost_by"] == ""
            assert {(e["target"], e["in_exchange_for"]) for e in exchanges} == {(half.target, half.swapped_with)}
            predicted = exchanges[0]["source_after"], exchanges[0]["target_after"]
            assert [p / SCORE_UNIT for p in predicted] == [half.after[str(half.source)], half.after[str(half.target)]]
            offered[half.source] = {e["bundle"] for e in exchanges}
        assert not offered[leaving.source] & offered[returning.source]
        assert len(returning.evidence["pairs"]) == len(offered[returning.source])


def test_what_a_move_is_predicted_to_bring_is_what_it_was_judged_by() -> None:
    """Also where a target carries more than is expected to last."""
    built = live(steady(loads(40, 40, 40, 40)), 3)
    for name, percent in (("b0", 95), ("b1", 52), ("b2", 53), ("b3", 54)):
        set_cpu(built, name, percent)
    found = moves(built.round())
    assert found
    for move in found:
        chosen = next(p for p in move.evidence["pairs"] if (p["bundle"], p["target"]) == (move.bundle, move.target))
        ends = [str(move.source), str(move.target)]
        assert [round(move.after[end] * SCORE_UNIT) for end in ends] == [chosen["source_after"], chosen["target_after"]]
    assert found[0].before[str(found[0].target)] > 0.5, "what the target carries now"


class TestI7:
    @pytest.mark.covers("target-less-loaded", "target-not-overloaded")
    @given(clusters(), st.integers(1, 6))
    @settings(max_examples=examples(25))
    def test_moves_are_few_named_once_allowed_and_never_raise_the_worst(self, built: ClusterBuilder, more: int) -> None:
        for _ in range(more):
            result = built.round()
            built.later()
        chosen = [d for d in result.decisions if d.kind is not DecisionKind.SKIP]
        names = [d.bundle for d in chosen]
        assert len(names) == len(set(names))
        size = len(built.state.brokers)
        assert len(moves(result)) <= count_moves(1.0, size, pressing=size)
        now = {row["broker"]: row["score"] for row in result.scores if row["score"] is not None}
        worst = max(now.values(), default=0.0)
        eligible = {row["broker"] for row in result.scores if row["eligible"]}
        for move in moves(result):
            assert move.source in eligible
            assert move.target in eligible - built.lagging
            now |= move.after
        assert max(now.values(), default=0.0) <= worst + 1e-9

    @pytest.mark.covers("moves-by-transfer")
    @given(clusters())
    @settings(max_examples=examples(12))
    def test_each_move_takes_off_its_source_and_says_why(self, built: ClusterBuilder) -> None:
        result = live(built, PATIENCE).round()
        for move in moves(result):
            swapped = "swapped_with" in move.evidence
            falls = move.after[str(move.source)] < move.before[str(move.source)]
            assert falls or swapped
            assert move.reason in (Reason.OVERLOADED, Reason.ABOVE_MEAN, Reason.UNDERLOADED)
        quiet = [d.source for d in result.decisions if d.kind is DecisionKind.SKIP and not d.bundle]
        acted = {m.source for m in moves(result)} | {s.source for s in splits(result)}
        assert set(quiet) | acted >= {row["broker"] for row in result.scores}
        assert len(quiet) == len(set(quiet))

    @given(clusters())
    @settings(max_examples=examples(15))
    def test_work_is_conserved_by_the_model(self, built: ClusterBuilder) -> None:
        snapshot = built.snapshot()
        model = Model(snapshot, Usage.of(snapshot), 0.85)
        held = np.flatnonzero(snapshot.owner >= 0)
        rounded = len(held) / RESOURCE_SCALES[CPU]  # bundles are estimated in whole units, and so are brokers
        before = (model.busy / np.where(model.rate > 0, model.rate, 1.0)).sum()
        for bundle in held[:5].tolist():
            source = int(model.owner[bundle])
            target = (source + 1) % len(snapshot.brokers)
            if (model.rate[[source, target]][:, CPU] > 0).all():
                model.move(bundle, target)
        after = (model.busy / np.where(model.rate > 0, model.rate, 1.0)).sum()
        assert after == pytest.approx(before, abs=rounded)


class TestI8:
    @pytest.mark.covers("stability-first", "grace-period")
    @given(clusters())
    @settings(max_examples=examples(8))
    def test_no_bundle_moves_twice_within_its_grace_period(self, built: ClusterBuilder) -> None:
        seen = {name for name, record in built.state.bundles.items() if record.moved_at_ms}
        for _ in range(12):
            for move in moves(built.round()):
                assert move.bundle not in seen
                seen.add(str(move.bundle))
                carry_out(built, move)
            built.later()


class TestI9:
    @pytest.mark.covers("stability-first")
    @given(st.lists(st.floats(48.5, 51.5), min_size=2, max_size=8), st.integers(0, 2**32 - 1))
    @settings(max_examples=examples(8))
    def test_a_balanced_cluster_with_noise_moves_nothing(self, percents: list[float], seed: int) -> None:
        built, rng = steady(loads(*percents)), np.random.default_rng(seed)
        for _ in range(15):
            for at in range(len(percents)):
                set_cpu(built, f"b{at}", percents[at] * rng.uniform(0.99, 1.01))
            result = built.round()
            assert moves(result) == splits(result) == []
            built.later()

    @pytest.mark.covers("reactive")
    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_a_spike_that_ends_moves_nothing(self, length: int) -> None:
        built = steady(loads(50, 50, 50, 50))
        for number in range(30):
            set_cpu(built, "b0", 75 if number % 10 in range(4, 4 + length) else 50)
            assert moves(built.round()) == []
            built.later()

    @pytest.mark.covers("reactive")
    def test_a_job_that_runs_longer_is_recognised_the_second_time(self) -> None:
        acted = []
        built = steady(loads(50, 50, 50, 50))
        built.settings = replace(built.settings, shed=replace(built.settings.shed, enabled=False))
        for number in range(40):
            set_cpu(built, "b0", 68 if number % 20 in range(3, 9) else 50)
            result = built.round()
            acted.append("b0" in sources(result))
            built.later()
        assert any(acted[:20])
        assert not any(acted[20:])

    @pytest.mark.covers("stability-first")
    @pytest.mark.parametrize(("scenario", "seed"), [("calm", 1), ("periodic", 1), ("periodic", 2)])
    def test_quiet_clusters_of_the_field(self, scenario: str, seed: int) -> None:
        run = play_field(scenario, player_of("steady"), seed)
        assert run.moves <= (0 if scenario == "calm" else 5)
        assert run.twice == 0


class TestWaking:
    """A cluster that has just started: CPU falls while traffic comes, so what is learned at first does not hold."""

    @pytest.mark.parametrize("seed", range(1, 6))
    def test_a_broker_far_above_the_others_is_relieved(self, seed: int) -> None:
        run = play_field("waking", player_of("steady"), seed)
        assert sum(ratio > 1.3 for ratio in run.ratio) <= 4
        assert run.end < 1.25

    @pytest.mark.parametrize("seed", range(1, 4))
    def test_readings_without_traffic_do_not_spend_the_moves_that_traffic_will_need(self, seed: int) -> None:
        run = play_field("sleeping", player_of("steady"), seed)
        assert run.mean < 1.25
        assert run.overloaded_minutes <= 5
        assert run.twice == 0

    @pytest.mark.parametrize("traffic", [[0.2] * 6, [0.1, 0.3, 0.05, 0.4, 0.2, 0.15]])
    def test_an_idle_cluster_whose_cpu_does_not_follow_its_traffic_is_left_alone(self, traffic: list[float]) -> None:
        built = self.idle(traffic, [24.0, 5.0, 15.0, 8.0, 20.0, 11.0])
        for _ in range(12):
            assert moves(built.round()) == []
            built.later()
        assert {reason_of(built.round(), f"b{at}") for at in (0, 4)} == {Reason.BELOW_MINIMUM_LOAD}

    def test_an_idle_cluster_whose_cpu_follows_its_traffic_is_balanced(self) -> None:
        traffic = [24.0, 5.0, 15.0, 8.0, 20.0, 11.0]
        assert moves(live(self.idle(traffic, traffic), FIRST_ROUNDS).round())

    @pytest.mark.parametrize(("then", "relieved"), [(60.0, True), (35.0, True), (22.0, False)])
    def test_of_an_idle_cluster_a_broker_that_gets_far_above_it_is_relieved(self, then: float, relieved: bool) -> None:
        """Its bundles have become dearer, or so it seems; its traffic is that of all others."""
        built = self.idle([10.0] * 6, [10.0] * 6)
        live(built, 5)
        built.brokers["b0"]["cpu_usage"] = then
        acted = []
        for _ in range(6):
            acted += sources(built.round())
            built.later()
        assert ("b0" in acted) == relieved

    @pytest.mark.parametrize(
        ("brokers", "base", "hot", "others"), [(10, 8, 62, 0.5), (10, 5, 25, 1.0), (40, 4, 76, 1.0)]
    )
    def test_one_broker_that_works_beside_idle_ones_is_relieved(
        self, brokers: int, base: float, hot: float, others: float
    ) -> None:
        """However many idle ones there are, and whatever they use without traffic."""
        traffic = [hot, *[others] * (brokers - 1)]
        built = self.idle(traffic, [base + points for points in traffic])
        assert "b0" in {name for _ in range(FIRST_ROUNDS + 1) for name in sources(built.later().round())}

    def test_a_busy_pool_beside_idle_brokers_is_balanced(self) -> None:
        built = self.idle([0.2] * 20, [6.0] * 20)
        own = IsolationPolicy(name="own", namespaces=("t/own",), primary=("c.*",))
        built.settings = replace(built.settings, placement=PlacementSettings(isolation=(own,)))
        isolated = ([68.0, 18.0, 18.0, 18.0], [74.0, 24.0, 24.0, 24.0])
        for at, (points, used) in enumerate(zip(*isolated, strict=True)):
            built.broker(f"c{at}", cpu=points)
            for _ in range(10):
                built.bundle(f"c{at}", cpu=points / 10, namespace="t/own")
            built.brokers[f"c{at}"]["cpu_usage"] = used
        assert "c0" in sources(built.round())

    def test_traffic_of_an_idle_cluster_is_moved_off_a_network_that_fills_up(self) -> None:
        traffic = [60.0, 2.0, 2.0, 2.0, 2.0, 2.0]
        built = self.idle(traffic, [5.0] * 6)
        for at, points in enumerate(traffic):
            received = points * BYTES_A_POINT / 2  # and as many bytes are sent
            built.brokers[f"b{at}"] |= {"bandwidth_in_usage": received, "bandwidth_in_limit": 5e6}
        assert "b0" in {name for _ in range(FIRST_ROUNDS + 1) for name in sources(built.later().round())}

    def idle(self, traffic: list[float], used: list[float]) -> ClusterBuilder:
        """Brokers that use these points of CPU; their traffic, in ten bundles each, would come to the other ones."""
        built = steady(loads(*traffic, parts=10))
        for at, points in enumerate(used):
            built.brokers[f"b{at}"]["cpu_usage"] = points
        return built


class TestHits:
    @pytest.mark.covers("hot-broker-relieved")
    def test_a_hugely_overloaded_broker_is_relieved_at_once(self) -> None:
        assert moves(steady(loads(95, 30, 30, 30)).round())

    @pytest.mark.covers("rolling-average", "how-far-over")
    def test_what_a_cluster_begins_with_may_be_a_burst_unless_it_is_far_from_balance(self) -> None:
        waited = []
        for percent in (95.0, 70.0, 56.0, 48.0):
            built = steady(loads(percent, 40, 40, 40, parts=40))
            waited.append(next(n for n in range(20) if moves(built.round()) or not built.later()))
        assert waited == [0, 0, FIRST_ROUNDS, FIRST_ROUNDS]

    def test_one_of_many_brokers_that_is_far_above_the_level_may_have_a_burst(self) -> None:
        """Found on the field: ten of thirty balanced clusters began with a burst, and moved up to 25 bundles."""
        many = steady(loads(64.0, *[40.0] * 19, parts=40))
        assert not moves(many.round())
        uneven = steady(loads(64.0, *[20.0, 55.0] * 9, 40.0, parts=40))
        assert moves(uneven.round())

    def test_of_many_brokers_one_must_be_further_above_the_level_as_chance_brings_one_there(self) -> None:
        few, many = (self._relieved_from(brokers) for brokers in (6, 60))
        assert few == pytest.approx(STEADY.steady.tolerance + 2 * 0.02, abs=0.001)
        assert 0.01 < many - few < 0.03

    @staticmethod
    def _relieved_from(brokers: int) -> float:
        """How far above the level that is, as a share of it, if every broker's CPU is known within 2 %."""
        snapshot = loads(*[40.0] * brokers).snapshot()
        estimates = observe(UsageModel(), snapshot.frame, grace_ms=0)[1]
        rows = estimates.brokers.copy()
        rows[:, BROKER_ESTIMATES.index("cpu_error")] = rows[:, BROKER_ESTIMATES.index("cpu_used")] // 50
        snapshot = from_frame(replace(snapshot.frame, estimates=replace(estimates, brokers=rows)), STEADY)
        model = Model(snapshot, Usage.of(snapshot), STEADY.shed.overloaded_threshold)
        return float((judge(snapshot, model, STEADY.steady.tolerance, {}).begin[0] - model.level) / model.level)

    @pytest.mark.covers("reactive", "rolling-average")
    def test_a_sudden_rise_must_last_unless_it_is_far_above_the_level(self) -> None:
        rounds = []
        for percent in (57, 65):
            built = live(steady(loads(40, 40, 40, 40)), 3)
            set_cpu(built, "b0", percent)
            rounds.append(next(n for n in range(20) if moves(built.round()) or not built.later()))
        assert rounds == [PATIENCE - 1, 0]

    def test_the_rounds_asked_for_do_not_grow_with_those_that_passed(self) -> None:
        built, seen = steady(loads(56, 40, 40, 40, parts=40)), []
        for _ in range(FIRST_ROUNDS + 3):
            told = [d.evidence for d in built.round().decisions if d.source == "b0" and "hits" in d.evidence]
            seen.append((told[0]["hits"], told[0]["hits_needed"]))
            built.later()
        waits, acts = seen[:FIRST_ROUNDS], seen[FIRST_ROUNDS:]
        assert waits == [(n, FIRST_ROUNDS + 1) for n in range(1, FIRST_ROUNDS + 1)]
        assert acts == [(n, 1) for n in range(FIRST_ROUNDS + 1, FIRST_ROUNDS + 4)]

    @pytest.mark.covers("how-far-over")
    @pytest.mark.parametrize(("percent", "others", "waited"), [(88, 75, 0), (88, 81, 0), (70, 60, 3)])
    def test_an_overloaded_broker_waits_less(self, percent: int, others: int, waited: int) -> None:
        built = steady(loads(percent, others, others, others, parts=40))
        assert next(n for n in range(20) if moves(built.round()) or not built.later()) == waited

    def test_a_new_incarnation_has_no_past(self) -> None:
        built = steady(loads(52, 40, 40, 40))
        for _ in range(3):
            built.round()
            built.later()
        assert built.round().scores[0]["hits"] == 4
        built.broker("b0", cpu=52, incarnation=2)
        assert built.later().round().scores[0]["hits"] == 1


class TestMoves:
    @pytest.mark.covers("idle-broker-filled", "broker-joins", "rebalances-at-all")
    def test_an_empty_broker_is_filled_from_those_above_the_mean(self) -> None:
        built = live(steady(loads(50, 50, 50, 50, 40, 0)), 6)
        assert built.brokers["b5"]["cpu_usage"] >= 30
        assert built.brokers["b4"]["cpu_usage"] == 40

    def test_whoever_gives_anything_away_counts_as_a_source(self) -> None:
        for result in play(Case("", "", "", lambda: loads(50, 50, 50, 50, 50, 0), lambda _: None), "steady").results:
            givers = {move.source for move in moves(result)}
            assert givers <= {row["broker"] for row in result.scores if row["source"]}

    @pytest.mark.covers("broker-joins")
    def test_no_move_between_old_brokers_when_one_joins(self) -> None:
        built = steady(loads(50, 51, 49, 50, 0))
        ways = [m.target for _ in range(8) for m in moves(live(built, 1).round())]
        assert set(ways) <= {"b4"}

    def test_where_no_bundle_fits_two_are_exchanged(self) -> None:
        built = steady(cluster()).broker("a", cpu=80).broker("b", cpu=50)
        built.bundle("a", cpu=40).bundle("a", cpu=40).bundle("b", cpu=25).bundle("b", cpu=25)
        result = live(built, PATIENCE + 4).round()
        assert built.brokers["a"]["cpu_usage"] == built.brokers["b"]["cpu_usage"] == pytest.approx(65)
        assert moves(result) == []

    def test_a_bundle_too_big_for_anybody_is_split(self) -> None:
        built = steady(loads(0, 20, 20)).with_settings(split={"max_msg_rate_per_s": None})
        built.broker("b0", cpu=85).bundle("b0", cpu=85, topics=50)
        (split,) = splits(built.round())
        assert split.reason is Reason.SPLIT_TO_BALANCE
        assert split.boundary == Bundle.parse(str(split.bundle)).middle()
        assert split.epoch == 3

    @pytest.mark.covers("target-capacity")
    def test_a_giant_goes_to_the_larger_broker(self) -> None:
        built = steady(cluster()).broker("small", cpu=90).broker("large", cpu=10, cores=4)
        built.bundle("small", cpu=90, topics=1).bundle("large", cpu=40)
        (move,) = moves(built.round())
        assert (move.source, move.target) == ("small", "large")
        assert move.after["large"] == pytest.approx(0.325)

    @pytest.mark.parametrize(("hot", "small"), [(28, 20), (40, 25), (20, 30)])
    def test_a_hot_bundle_that_cannot_move_keeps_no_small_ones_beside_it(self, hot: int, small: int) -> None:
        """It has one topic and is more than its broker has too much, whose load stays below every limit."""
        built = steady(cluster()).broker("b0", cpu=hot + small)
        built.bundle("b0", cpu=hot, topics=1)
        for at in range(4):
            if at:
                built.broker(f"b{at}", cpu=30)
            for _ in range(30 if at else small):
                built.bundle(f"b{at}", cpu=1)
        live(built, 15)
        used = [row["cpu_usage"] for row in built.brokers.values()]
        assert max(used) <= 1.16 * np.mean(used)

    @pytest.mark.covers("even-load", "count-or-traffic", "target-capacity")
    def test_utilisation_is_equalised_not_load(self) -> None:
        built = steady(cluster())
        for name, cores in (("a", 1.0), ("b", 1.0), ("c", 4.0)):
            built.broker(name, cpu=60 / cores, cores=cores)
            for _ in range(20):
                built.bundle(name, cpu=3)
        live(built, 12)
        used = [row["cpu_usage"] / row["cpu_limit"] for row in built.brokers.values()]
        assert max(used) <= 1.1 * 0.3

    def test_a_bundle_goes_elsewhere_than_where_an_operator_forbids(self) -> None:
        built = steady(loads(95, 10, 40, 40, parts=20))  # small enough to fit beside what the override sends there
        wish = Override("c1", AVOID, namespace="t/ns", broker="b1")
        built.state.overrides[wish.id] = wish
        targets = {m.target for m in moves(built.round()) if m.source == "b0"}
        assert targets <= {"b2", "b3"}
        assert targets

    def test_it_reckons_with_what_an_operator_moves_in_the_same_round(self) -> None:
        built = steady(loads(80, 20, 20, 20, parts=10))
        bundle = str(built.bundles[0]["bundle"])
        wish = Override("c1", PIN, bundle=bundle, broker="b1")
        built.state.overrides[wish.id] = wish
        asked, *own = moves(built.round())
        assert (asked.bundle, asked.target) == (bundle, "b1")
        before = {broker: score for move in reversed(own) for broker, score in move.before.items()}
        assert before["b0"] == pytest.approx(asked.after["b0"], abs=0.002)
        assert all(move.bundle != bundle for move in own)

    @pytest.mark.covers("balancing-costs-little", "busiest-first", "value-clients")
    def test_what_disrupts_more_stays(self) -> None:
        built = steady(cluster()).broker("a", cpu=80).broker("b", cpu=20)
        for sessions in (900, 3):
            built.bundle("a", cpu=30, sessions=sessions)
        quiet = str(built.bundles[-1]["bundle"])
        (move,) = moves(built.bundle("a", cpu=20, sessions=900).bundle("b", cpu=20).round())
        assert move.bundle == quiet

    @pytest.mark.covers("stability-first")
    @pytest.mark.parametrize("asked", [SteadySettings(churn=0.4), SteadySettings(model_error=0.4)])
    def test_a_move_must_pay_and_bring_more_than_the_model_errs(self, asked: SteadySettings) -> None:
        built = steady(loads(56, 40, 40, 40, parts=200))
        built.settings = replace(built.settings, steady=SteadySettings(churn=0.0))
        assert reason_of(live(built, 8).round(), "b0") is Reason.BALANCED, "it is the margin that forbids it below"
        built = steady(loads(56, 40, 40, 40, parts=200))
        built.settings = replace(built.settings, steady=asked)
        result = live(built, 8).round()
        assert moves(result) == []
        assert reason_of(result, "b0") is Reason.NOT_WORTH_MOVING

    @pytest.mark.covers("balancing-costs-little")
    def test_the_budget_grows_with_the_cluster_and_is_kept(self) -> None:
        built = steady(loads(90, 90, 90, 0, 0, 0, parts=60))
        built.settings = replace(built.settings, steady=SteadySettings(budget=0.5))
        result = built.round()
        assert MIN_BUDGET < len(moves(result)) <= count_moves(0.5, 6, pressing=3), "three are overloaded"
        assert Reason.BUDGET_SPENT in {d.reason for d in result.decisions} or len(sources(result)) <= MIN_BUDGET

    @pytest.mark.covers("busiest-first", "debug-mode")
    def test_pairs_are_shown_with_the_rule_each_lost_by(self) -> None:
        first = moves(steady(loads(95, 30, 30, 80)).round())[0]
        shown = first.evidence["pairs"]
        assert shown[0]["lost_by"] == ""
        assert (shown[0]["bundle"], shown[0]["target"]) == (first.bundle, first.target)
        assert len(shown) == 20
        assert {"bundle", "target", "source_after", "target_after", "lost_by"} == set(shown[0])


class TestNamespacesLimit:
    """What pacing would hold back is not chosen: the model must not count on it."""

    def packed(self, *namespaces: str, per_min: int = 2) -> ClusterBuilder:
        """A hot broker and a warm one with bundles of these namespaces in turn, two cool ones."""
        built = steady(loads(0, 0, 20, 20)).with_settings(pacing={"namespace_moves_per_min": per_min})
        for name, parts in (("b0", 24), ("b1", 18)):
            built.broker(name, cpu=4 * parts)
            for at in range(parts):
                built.bundle(name, cpu=4, namespace=namespaces[at % len(namespaces)])
        return built

    def test_no_more_is_chosen_than_its_namespace_may_move(self) -> None:
        result = self.packed("t/only").round()
        assert [m.source for m in moves(result)] == ["b0"] * BURST_MIN * 2
        (left,) = [d for d in result.decisions if d.kind is DecisionKind.SKIP and d.source == "b1"]
        assert (left.bundle, left.reason, left.evidence["paced_by"]) == (None, Reason.BUDGET_SPENT, "namespace t/only")
        assert not [d for d in result.decisions if d.kind is DecisionKind.SKIP and d.bundle]
        assert replay_round(result.inputs) == result.plan_hash

    def test_others_are_moved_instead(self) -> None:
        spaces = ("t/a-b", "t/a-b", "t/a-b", "t/a", "t/c")  # equal bundles go in the order of names
        free, limited = (moves(self.packed(*spaces, per_min=per_min).round()) for per_min in (99, 4))
        assert len(free) == len(limited)
        assert sum("t/a-b/" in str(m.bundle) for m in free) > BURST_MIN * 4
        assert sum("t/a-b/" in str(m.bundle) for m in limited) == BURST_MIN * 4

    def test_what_it_moved_a_minute_ago_counts(self) -> None:
        built = self.packed("t/only")
        for move in moves(built.round()):
            carry_out(built, move)
        second = built.later().round()
        assert len(moves(second)) == 2
        assert replay_round(second.inputs) == second.plan_hash


class TestUsage:
    @pytest.mark.covers("target-not-overloaded")
    def test_a_slow_broker_costs_more_and_takes_nothing(self) -> None:
        built = loads(60, 20, 20)
        snapshot = self._with_speed(built, 2500)
        usage = Usage.of(snapshot)
        assert usage.slow.tolist() == [False, False, True]
        outcome = get("steady").decide(constrain(assess(snapshot, STEADY), STEADY), {}, STEADY)
        assert {d.target for d in outcome.decisions if d.target} == {"b1"}

    def test_cpu_that_has_no_weight_makes_nobody_slow(self) -> None:
        built = loads(50, 50, 20).with_settings(weights={"cpu": 0.0})
        assert not Usage.of(self._with_speed(built, 2500)).slow.any()

    def test_of_two_equal_bundles_the_one_that_is_known_better_moves(self) -> None:
        snapshot = loads(60, 20, 20, parts=4).snapshot()
        estimates = observe(UsageModel(), snapshot.frame, grace_ms=0)[1]
        moved = []
        for known in (0, 1):
            errors = estimates.bundles.copy()
            errors[[0, 1, 2, 3], BUNDLE_ESTIMATES.index("cpu_error")] = 6_000
            errors[known, BUNDLE_ESTIMATES.index("cpu_error")] = 500
            frame = replace(snapshot.frame, estimates=replace(estimates, bundles=errors))
            outcome = get("steady").decide(constrain(assess(from_frame(frame, STEADY), STEADY), STEADY), {}, STEADY)
            moved.append(next(d.bundle for d in outcome.decisions if d.target))
        assert moved == list(snapshot.bundles[:2])

    def test_of_two_equal_targets_the_one_that_could_give_something_back_comes_first(self) -> None:
        snapshot = loads(60, 20, 20, parts=4).snapshot()
        estimates = observe(UsageModel(), snapshot.frame, grace_ms=0)[1]
        first = []
        for locked in (1, 2):
            settled = estimates.broker("cpu_used").copy()
            settled[locked] = 0
            frame = replace(snapshot.frame, estimates=replace(estimates, cpu_settled=settled))
            outcome = get("steady").decide(constrain(assess(from_frame(frame, STEADY), STEADY), STEADY), {}, STEADY)
            first.append(next(d.target for d in outcome.decisions if d.target))
        assert first == ["b2", "b1"]

    @pytest.mark.parametrize("believed", [True, False])
    def test_a_target_is_not_filled_against_a_reading_that_is_believed(self, believed: bool) -> None:
        """Its bundles had become dearer, what it gave away brought less than expected, and it was filled to 116 %."""
        snapshot = loads(80, 60, 30, parts=8).snapshot()
        estimates = observe(UsageModel(), snapshot.frame, grace_ms=0)[1]
        brokers = estimates.brokers.copy()
        brokers[1, BROKER_ESTIMATES.index("cpu_used")] = 10_000
        read = estimates.cpu_read if believed else np.zeros(3, np.int64)
        frame = replace(snapshot.frame, estimates=replace(estimates, brokers=brokers, cpu_read=read))
        outcome = get("steady").decide(constrain(assess(from_frame(frame, STEADY), STEADY), STEADY), {}, STEADY)
        targets = [d.target for d in outcome.decisions if d.target]
        assert targets
        assert ("b1" in targets) != believed
        assert not any("passing" in d.evidence for d in outcome.decisions), "it is no burst"

    def test_what_moved_lately_or_moves_now_could_not_be_given_back(self) -> None:
        """As the round stores it, by the grace period of its settings."""
        built = steady(loads(30, 30)).broker("b2", cpu=60).broker("b3", cpu=20)
        for moved_at_ms in (0, built.at_ms - 60_000, built.at_ms - STEADY.shed.grace_period_ms):
            built.bundle("b2", cpu=20, moved_at_ms=moved_at_ms)
        built.bundle("b3", cpu=20, state=State.TRANSFERRING, to="b2")
        estimates = built.round().inputs["frame"]["estimates"]
        assert estimates["cpu_settled"][2:] == [pytest.approx(40_000, rel=0.05), 0]

    def test_what_an_override_takes_away_in_the_same_round_cannot_leave_again(self) -> None:
        built = steady(loads(60, 20, 20, parts=4))
        before = Usage.of(built.snapshot())
        bundle = str(built.bundles[0]["bundle"])
        wish = Override("c1", PIN, bundle=bundle, broker="b1")
        built.state.overrides[wish.id] = wish
        after = Usage.of(apply_moves(*apply_overrides(constrain(assess(built.snapshot(), STEADY), STEADY))))
        taken = before.settled - after.settled
        assert taken.tolist() == pytest.approx([15.0, 0.0, 0.0], abs=0.1)

    def test_what_leaves_in_a_round_cannot_leave_again(self) -> None:
        snapshot = loads(60, 20, 20, parts=4).snapshot()
        model = Model(snapshot, Usage.of(snapshot), STEADY.shed.overloaded_threshold)
        for bundle in snapshot.bundles_of(0).tolist():
            model.move(bundle, 1)
        errors = model.margin_at_target(0, np.zeros(())) / np.sqrt(model._variance[0])
        assert errors == pytest.approx(MARGIN_ERRORS + LOCKED_ERRORS)

    @pytest.mark.parametrize(
        ("percent", "small", "moved"), [(58.0, 1.0, 7), (58.0, 0.75, 0), (70.0, 1.0, 7), (70.0, 0.75, 0)]
    )
    def test_a_broker_that_is_not_in_trouble_is_not_relieved_by_small_bundles(
        self, percent: float, small: float, moved: int
    ) -> None:
        """Its large ones may not move yet. It is 35 or 56 % above the level, and a move should bring 1.35 points."""
        built = self._beside_even_ones(percent)
        for _ in range(7):
            built.bundle("b0", cpu=small)
        for _ in range(2):
            built.bundle("b0", cpu=(percent - 7 * small) / 2, moved_at_ms=built.at_ms - 60_000)
        live(built, PATIENCE + 2)
        assert percent - built.brokers["b0"]["cpu_usage"] == pytest.approx(moved * small)

    @pytest.mark.parametrize(
        ("bundles", "rounds", "settings"),
        [(900, 25, {}), (200, 60, {"pacing": {"broker_moves_per_min": 1}}), (40, 15, {"steady": {"model_error": 0.2}})],
        ids=["dust", "few moves at a time", "little excess for what a move must bring"],
    )
    def test_an_overloaded_broker_is_relieved_however_little_its_bundles_bring(
        self, bundles: int, rounds: int, settings: dict[str, Any]
    ) -> None:
        """Other rules for small bundles left it at 95 % for good, as all that may leave in one round was less than what
        a single move must bring (docs/decisions/0052)."""
        built = steady(loads(95, 75, 75, 75, parts=bundles))
        live(built.with_settings(**settings), rounds)
        assert built.brokers["b0"]["cpu_usage"] < 85

    @pytest.mark.parametrize("shape", [(3, 3, 2), (2, 1, 1), (4, 3)])
    def test_equal_bundles_that_cannot_be_placed_better_hardly_move(self, shape: tuple[int, ...]) -> None:
        """Readings and traffic are noisy. Moves would only let brokers change places (docs/decisions/0031)."""
        dice = np.random.default_rng(7)
        built = steady(cluster())
        for at, count in enumerate(shape):
            built.broker(f"b{at}", cpu=20.0 * count)
            for _ in range(count):
                built.bundle(f"b{at}", cpu=20.0)
        usual, moved = {name: built.bundles[0][name] for name in NO_TRAFFIC}, 0
        for _ in range(120):
            for row in built.brokers.values():
                row |= dict.fromkeys(("cpu_usage", *NO_TRAFFIC), 0.0)
            for bundle in built.bundles:
                factor, row = float(np.exp(dice.normal(0.0, 0.02))), built.brokers[bundle["broker"]]
                bundle |= {name: factor * rate for name, rate in usual.items()}
                row |= {name: row[name] + bundle[name] for name in NO_TRAFFIC}
                row["cpu_usage"] += 20.0 * factor
            for row in built.brokers.values():
                row["cpu_usage"] *= 1 + dice.normal(0.0, 0.04)
            for move in moves(built.round()):
                carry_out(built, move)
                moved += 1
            built.later()
        assert moved <= 6

    def test_dust_does_not_keep_a_large_bundle_from_being_split(self) -> None:
        """Found by a reader: bundles that bring nothing together moved round after round."""
        built = self._beside_even_ones(91.0)
        built.bundle("b0", cpu=50).bundle("b0", cpu=40, moved_at_ms=built.at_ms - 60_000)
        for _ in range(100):
            built.bundle("b0", cpu=0.01)
        assert not moves(built.round())

    @staticmethod
    def _beside_even_ones(percent: float) -> ClusterBuilder:
        """One broker, without bundles yet, beside five at 40 %."""
        built = steady(cluster()).broker("b0", cpu=percent)
        for name in ("b1", "b2", "b3", "b4", "b5"):
            built.broker(name, cpu=40.0)
            for _ in range(4):
                built.bundle(name, cpu=10.0)
        return built

    @pytest.mark.parametrize(("bundles", "rounds"), [(350, 4), (490, 5)])
    def test_small_bundles_that_bring_enough_together_relieve_an_overloaded_broker(
        self, bundles: int, rounds: int
    ) -> None:
        """Found on the field (`big`, seed 2): with no bundle above 0.8 % of the broker it was left at 91 %. What each
        must bring does not grow while they leave."""
        built = steady(loads(98, 45, 45, 45, parts=bundles))
        live(built, rounds)
        assert built.brokers["b0"]["cpu_usage"] < 85

    def test_far_above_the_level_small_bundles_go_where_the_large_one_must_stay(self) -> None:
        built = steady(cluster())
        for name in ("b0", "b1", "b2", "b3"):
            built.broker(name, cpu=58.0 if name == "b0" else 40.0)
            built.bundle(name, cpu=44.0 if name == "b0" else 26.0, moved_at_ms=built.at_ms - 60_000)
            for _ in range(14):
                built.bundle(name, cpu=1.0)
        live(built, PATIENCE + 2)
        assert 45 <= built.brokers["b0"]["cpu_usage"] <= 53

    def test_a_bundle_that_fits_nowhere_does_not_keep_small_ones_on_an_overloaded_broker(self) -> None:
        """Found on a strange field (sessions, seed 1): the largest bundle set the bar for all the others."""
        built = steady(cluster())
        for name in ("b0", "b1", "b2", "b3"):
            built.broker(name, cpu=95.0 if name == "b0" else 40.0)
            for _ in range(45 if name == "b0" else 40):
                built.bundle(name, cpu=1.0)
        built.bundle("b0", cpu=50.0)
        live(built, 3)
        assert built.brokers["b0"]["cpu_usage"] < 85

    @staticmethod
    def _with_speed(built: ClusterBuilder, permille: int) -> Snapshot:
        """The last broker is known to be so slow."""
        snapshot = built.snapshot()
        estimates = observe(UsageModel(), snapshot.frame, grace_ms=0)[1]
        brokers = estimates.brokers.copy()
        brokers[-1, BROKER_ESTIMATES.index("speed_permille")] = permille
        return from_frame(replace(snapshot.frame, estimates=replace(estimates, brokers=brokers)), built.settings)


class TestReplay:
    @given(clusters())
    @settings(max_examples=examples(10))
    def test_the_stored_inputs_give_the_same_plan(self, built: ClusterBuilder) -> None:
        result = live(built, PATIENCE).round()
        assert replay_round(result.inputs) == result.plan_hash

    @given(clusters(), st.randoms(use_true_random=False))
    @settings(max_examples=examples(8))
    def test_the_order_of_the_rows_does_not_matter(self, built: ClusterBuilder, random: object) -> None:
        live(built, PATIENCE)
        first = run_round(built.inputs())
        built.bundles.reverse()
        built.brokers = dict(reversed(built.brokers.items()))
        assert run_round(built.inputs()).plan_hash == first.plan_hash

    def test_the_memory_is_small(self) -> None:
        case = Case("x", "x", "x", lambda: loads(*range(30, 50)), lambda played: None)
        memory = play(case, "steady").results[-1].memory
        assert len(json.dumps(memory)) < 100 * 20
