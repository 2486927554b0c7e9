"""Pulsar's modular strategies in rounds: what they keep, whom they see, where things go, and that a replay agrees."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.published.clusters import ClusterBuilder, cluster, loads, moves, reason_of, sources
from controller.domain.decision import Decision, DecisionKind, Reason, RoundResult
from controller.domain.load import SCORE_UNIT
from controller.domain.ownership import State
from controller.domain.settings.policy import PolicySettings
from controller.domain.settings.pulsar import PulsarKnobs
from controller.policy.placement.constraints import assess, constrain
from controller.policy.round import replay_round
from controller.policy.strategies import get

MODULAR = ("overload", "threshold", "uniform", "average", "simple")
FINE = PulsarKnobs(load_balancer_bundle_unload_min_throughput_threshold=0.1, min_unload_message=100)


def on(built: ClusterBuilder, strategy: str, knobs: PulsarKnobs = FINE) -> ClusterBuilder:
    built.settings = replace(built.settings, strategy=strategy, pulsar=knobs)
    return built


def carry_out(built: ClusterBuilder, result: RoundResult) -> None:
    """What the round moved is where it was to go, in the journal and in the brokers' reports."""
    for move in moves(result):
        row = next(row for row in built.bundles if row["bundle"] == move.bundle)
        owned = built.state.bundles[str(move.bundle)]
        session = built.state.brokers[str(move.target)].session
        built.state.bundles[str(move.bundle)] = replace(owned, by=session, moved_at_ms=built.at_ms)
        for name in ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out"):
            built.brokers[str(move.source)][name] -= row[name]
            built.brokers[str(move.target)][name] += row[name]
        for broker, sign in ((move.source, -1), (move.target, 1)):
            built.brokers[str(broker)]["cpu_usage"] += sign * (row["msg_rate_in"] * 2 / 100)
        row["broker"] = move.target


def run(built: ClusterBuilder, rounds: int) -> list[RoundResult]:
    results = []
    for _ in range(rounds):
        result = built.round()
        assert json.loads(json.dumps(result.memory)) is not None
        assert replay_round(result.inputs) == result.plan_hash
        carry_out(built, result)
        built.later()
        results.append(result)
    return results


@pytest.mark.covers("hot-broker-relieved", "manager-modular")
@pytest.mark.parametrize("strategy", MODULAR)
def test_rounds_relieve_the_hot_broker_and_replay_to_the_same_plan(strategy: str) -> None:
    results = run(on(loads(95, 40, 20, 10), strategy), 8)
    made = [move for result in results for move in moves(result)]
    assert made
    assert made[0].source == "b0"
    assert len({move.bundle for move in made}) == len(made)  # nothing moves twice within its grace period
    assert results[-1].scores[0]["score"] < 0.95


@pytest.mark.parametrize("strategy", MODULAR)
def test_every_broker_without_a_move_has_one_skip(strategy: str) -> None:
    for result in run(on(loads(95, 40, 20, 10), strategy), 3):
        skipped = [d.source for d in result.decisions if d.kind is DecisionKind.SKIP and not d.bundle]
        moved = {d.source for d in moves(result)}
        assert sorted(skipped) == sorted({"b0", "b1", "b2", "b3"} - moved)
        assert [row["broker"] for row in result.scores] == ["b0", "b1", "b2", "b3"]


@pytest.mark.parametrize("strategy", MODULAR)
def test_only_brokers_that_may_take_part_exist_for_pulsar(strategy: str) -> None:
    built = cluster().broker("hot", 95).broker("dead", 1, alive=False).silent("mute").broker("drained", 1, drained=True)
    built.broker("late", 1).broker("fit", 30)
    built.lagging.add("late")
    for _ in range(10):
        built.bundle("hot", 9.5)
    built.bundle("fit", 15).bundle("fit", 15).bundle("late", 1)
    results = run(on(built, strategy), 3)
    made = [move for result in results for move in moves(result)]
    assert {broker for move in made for broker in (move.source, move.target)} <= {"hot", "fit"}
    assert made or strategy == "average"  # its plan is for the emptiest, which may take nothing; others are drawn
    assert reason_of(results[0], "dead") is Reason.BROKER_GONE
    assert reason_of(results[0], "mute") is Reason.NO_LOAD_DATA
    assert reason_of(results[0], "drained") is Reason.BROKER_DRAINED


@pytest.mark.parametrize("strategy", MODULAR)
def test_a_single_broker_is_left_alone(strategy: str) -> None:
    (result,) = run(on(loads(99), strategy), 1)
    assert not moves(result)
    assert reason_of(result, "b0") is Reason.NO_TARGET


@pytest.mark.covers("shedding-switch")
@pytest.mark.parametrize("knob", ["load_balancer_enabled", "load_balancer_shedding_enabled"])
def test_switched_off_by_knob_the_shedders_memory_stands_still(knob: str) -> None:
    built = on(loads(95, 10), "threshold")
    (before,) = run(built, 1)
    built.settings = replace(built.settings, pulsar=replace(FINE, **{knob: False}))
    (result,) = run(built, 1)
    assert not moves(result)
    assert reason_of(result, "b0") is Reason.SWITCHED_OFF
    assert result.memory["threshold"]["history"] == before.memory["threshold"]["history"]
    assert result.memory["threshold"]["averages"]["samples"] == [2] * len(built.bundles)


def test_what_was_decided_but_not_carried_out_is_decided_again() -> None:
    built = on(loads(95, 10), "overload")
    first = [move.bundle for move in moves(built.round())]
    assert first == [move.bundle for move in moves(built.later().round())]


@pytest.mark.covers("grace-period")
def test_what_was_unloaded_waits_for_the_knobs_grace_period_even_if_it_came_back() -> None:
    built = on(loads(95, 10, parts=2), "overload", replace(FINE, load_balancer_shedding_grace_period_minutes=2))
    first = built.round()
    (gone,) = moves(first)
    carry_out(built, first)
    later = built.later().round()
    assert later.memory["overload"]["recently_unloaded"][gone.bundle] == [first.at_ms, ""]  # it was seen elsewhere
    carry_out(built, replace(first, decisions=(replace(gone, source=gone.target, target=gone.source),)))
    back = built.later().round()
    assert gone.bundle in back.memory["overload"]["recently_unloaded"]
    assert gone.bundle not in [move.bundle for move in moves(back)]
    assert gone.bundle not in built.later(180_000).round().memory["overload"]["recently_unloaded"]


def test_bundles_under_way_and_of_excluded_namespaces_stay() -> None:
    knobs = replace(FINE, load_balancer_shedding_excluded_namespaces=("t/pinned",))
    built = cluster().broker("b0", 99).broker("b1", 5)
    built.bundle("b0", 40, namespace="t/pinned").bundle("b0", 30, namespace="pulsar/system")
    built.bundle("b0", 5, owner="b0", state=State.TRANSFERRING, to="b1").bundle("b0", 24)
    (result,) = run(on(built, "overload", knobs), 1)
    assert [move.bundle for move in moves(result)] == [built.bundles[3]["bundle"]]


def test_threshold_keeps_the_history_of_a_broker_that_falls_silent_and_drops_it_when_it_leaves() -> None:
    built = on(loads(60, 40, 20), "threshold")
    run(built, 1)
    row = built.brokers.pop("b2")
    (silent,) = run(built, 1)
    assert silent.memory["threshold"]["history"]["b2"] == pytest.approx(0.2)
    built.brokers["b2"] = row
    del built.state.sessions[built.state.brokers["b2"].session]
    (left,) = run(built, 1)
    assert "b2" not in left.memory["threshold"]["history"]


def test_average_moves_to_its_partner_in_the_second_round() -> None:
    built = on(loads(90, 50, 10), "average", replace(FINE, load_balancer_distribute_bundles_evenly_enabled=False))
    first, second = run(built, 2)
    assert reason_of(first, "b0") is Reason.HIT_COUNT
    assert not sources(first)
    assert {(move.source, move.target) for move in moves(second)} == {("b0", "b2")}
    assert first.memory["average"]["high_hits"] == {"b0": 1, "b2": 1}
    assert second.memory["average"]["high_hits"] == {}


@pytest.mark.covers("count-or-traffic")
def test_an_even_spread_takes_the_planned_broker_off_the_candidates() -> None:
    built = on(loads(90, 50, 10), "average")
    for _ in range(5):
        built.bundle("b2", 0)
    moved = [move for result in run(built, 2) for move in moves(result)]
    assert {move.target for move in moved} == {"b1"}


def test_a_destination_that_is_the_owner_means_that_the_bundle_stays() -> None:
    built = cluster().broker("b0", 84).broker("b1", 10)
    for points in (60, 24):
        built.bundle("b0", points)
    for _ in range(5):
        built.bundle("b1", 2)
    result = run(on(built, "uniform", replace(FINE, max_unload_percentage=0.5)), 1)[0]
    assert not moves(result)  # b0 holds fewer bundles of the namespace than b1 does
    assert reason_of(result, "b0") is Reason.WOULD_NOT_IMPROVE
    assert _skip(result, "b0").evidence["bundles_lost"] == {Reason.WOULD_NOT_IMPROVE.value: 1}


def _skip(result: RoundResult, broker: str) -> Decision:
    return next(d for d in result.decisions if d.kind is DecisionKind.SKIP and d.source == broker and not d.bundle)


@pytest.mark.covers("assignment-by-load")
@pytest.mark.parametrize("placement", ["LeastResourceUsageWithWeight", "RoundRobinBrokerSelector"])
def test_the_placement_is_the_knobs_and_keeps_its_memory(placement: str) -> None:
    knobs = replace(FINE, load_balancer_load_placement_strategy=f"org.apache.pulsar.{placement}")
    results = run(on(loads(99, 60, 40, 20), "overload", knobs), 2)
    kept: dict[str, Any] = dict(results[0].memory["overload"])
    if placement == "RoundRobinBrokerSelector":
        # b0 came first and is overloaded, so that the pipeline asked again
        assert [move.target for move in moves(results[0])] == ["b1", "b3"]
        assert kept["round_robin"] == {"count": 3, "order": ["b0", "b2", "b3"]}
    else:
        assert kept["placement_history"].keys() == {"b0", "b1", "b2", "b3"}


def test_predicted_scores_are_those_of_the_model() -> None:
    built = on(loads(95, 40, 20, 10), "overload")
    result = built.round()
    snapshot = built.snapshot()
    usage = snapshot.usage.copy()
    for move in moves(result):
        at = snapshot.bundles.index(str(move.bundle))
        usage[snapshot.brokers.index(str(move.source))] -= snapshot.cost[at]
        usage[snapshot.brokers.index(str(move.target))] += snapshot.cost[at]
        for broker, score in move.after.items():
            place = snapshot.brokers.index(broker)
            assert score == pytest.approx(float(usage[place, 0] / snapshot.limit[place, 0]), abs=1 / SCORE_UNIT)


def test_deciding_needs_no_more_calls_for_more_bundles() -> None:
    """Counted, not timed: the arrays grow, the number of operations does not."""
    few, many = calls_of_a_round(10), calls_of_a_round(1_000)
    assert many < 1.2 * few


def calls_of_a_round(parts: int) -> int:
    """Python calls that one decision with one move takes."""
    built = on(loads(60, 50, 40, 30, parts=parts), "threshold")
    built.bundles[0]["throughput_in"] *= 1_000  # one bundle is all it takes
    snapshot = constrain(assess(built.snapshot(), built.settings), built.settings)
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        outcome = get("threshold").decide(snapshot, {}, built.settings)
    finally:
        sys.setprofile(None)
    assert [d.bundle for d in outcome.decisions if d.kind is DecisionKind.TRANSFER] == [built.bundles[0]["bundle"]]
    return count


def test_settings_with_knobs_read_back() -> None:
    settings = PolicySettings(pulsar=PulsarKnobs(load_balancer_shedding_excluded_namespaces=("a/b",)))
    built = on(loads(50, 50), "uniform", settings.pulsar)
    assert replay_round(built.round().inputs)
    assert np.isfinite(built.round().scores[0]["mean"])
