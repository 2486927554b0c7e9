"""Strategy `transfer` in rounds: what it keeps, when it acts, whom it sees, and that a replay agrees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.published.clusters import ClusterBuilder, cluster, loads, moves, reason_of, sources
from controller.domain.decision import DecisionKind, Reason, RoundResult
from controller.domain.settings.pulsar import PulsarKnobs
from controller.policy.round import replay_round
from tests.policy.pulsar.test_pulsar_rounds import on, run

KNOBS = PulsarKnobs()
AT_ONCE = replace(KNOBS, load_balancer_shedding_condition_hit_count_threshold=0)


def uneven() -> ClusterBuilder:
    return loads(90, 40, 20, 5)


def averages(result: RoundResult) -> dict[str, float]:
    return {broker: values[1] for broker, values in result.memory["transfer"]["averages"].items()}


@pytest.mark.covers("manager-extensible")
def test_the_fourth_uneven_round_acts_and_then_the_sources_cool_down() -> None:
    built = on(uneven(), "transfer", KNOBS)
    results = run(built, 12)
    acted = [bool(moves(result)) for result in results]
    assert acted[:4] == [False, False, False, True]
    assert {reason_of(results[0], f"b{at}") for at in range(4)} == {Reason.HIT_COUNT}
    # load data must be 180 s newer than the unload: three rounds stop, the third one still 1 s short of it
    assert [reason_of(result, "b1") for result in results[4:7]] == [Reason.GRACE_PERIOD] * 3
    assert not any(acted[4:7])
    made = [move for result in results for move in moves(result)]
    assert made[0].source == "b0"
    assert len({move.bundle for move in made}) == len(made)  # nothing moves twice within its grace period
    assert results[-1].scores[0]["score"] < 0.9


def test_a_source_cools_down_for_as_long_as_it_must_however_short_the_grace_period_of_bundles_is() -> None:
    knobs = replace(AT_ONCE, load_balancer_shedding_grace_period_minutes=1)
    results = run(on(uneven(), "transfer", knobs), 4)
    assert moves(results[0])
    assert [reason_of(result, "b1") for result in results[1:]] == [Reason.GRACE_PERIOD] * 3


def test_moves_that_were_never_carried_out_cool_nothing_down() -> None:
    built = on(uneven(), "transfer", AT_ONCE)
    first = built.round()
    again = built.later().round()
    assert moves(first)
    assert [move.bundle for move in moves(again)] == [move.bundle for move in moves(first)]
    assert replay_round(again.inputs) == again.plan_hash


def test_one_silent_broker_stops_the_round_for_all() -> None:
    built = on(uneven().silent("mute"), "transfer", AT_ONCE)
    (result,) = run(built, 1)
    assert not moves(result)
    assert {reason_of(result, name) for name in ("b0", "b3", "mute")} == {Reason.NO_LOAD_DATA}


def test_dead_drained_and_unregistered_brokers_do_not_exist_and_a_lagging_one_takes_nothing() -> None:
    built = uneven().broker("dead", 1, alive=False).broker("drained", 1, drained=True)
    built.broker("unknown", 1, registered=False).broker("late", 1)
    built.lagging.add("late")
    (result,) = run(on(built, "transfer", AT_ONCE), 1)
    named = {broker for move in moves(result) for broker in (move.source, move.target)}
    assert not named & {"dead", "drained", "unknown", "late"}
    assert reason_of(result, "dead") is Reason.BROKER_GONE
    assert reason_of(result, "drained") is Reason.BROKER_DRAINED


def test_stale_brokers_neither_give_nor_take() -> None:
    built = uneven().broker("old", 1, age_ms=60_000)
    results = run(on(built, "transfer", AT_ONCE), 2)
    assert all("old" not in (move.source, move.target) for result in results for move in moves(result))
    assert reason_of(results[0], "old") is Reason.OUTDATED_LOAD_DATA


def test_averages_follow_the_reports_of_the_time_between_rounds() -> None:
    built = on(loads(50, 50), "transfer", KNOBS)
    first = built.round()
    built.brokers["b0"]["cpu_usage"] = 100.0
    second = built.later(60_000).round()
    assert averages(first)["b0"] == pytest.approx(0.5, abs=1e-6)
    keep = 0.9**12  # a report check every 5 s
    assert averages(second)["b0"] == pytest.approx(0.5 * keep + 1.0 * (1 - keep), abs=1e-6)
    third = built.later(1_000).round()  # never less than one step
    assert averages(third)["b0"] == pytest.approx(averages(second)["b0"] * 0.9 + 0.1, abs=1e-6)


def test_averages_begin_anew_where_a_bundle_left_or_came_and_after_a_restart() -> None:
    built = on(uneven(), "transfer", AT_ONCE)
    (first,) = run(built, 1)
    moved = {broker for move in moves(first) for broker in (move.source, move.target)}
    assert {"b0", "b3"} <= moved
    after = built.round()
    for broker in moved:
        row = built.brokers[str(broker)]
        assert averages(after)[str(broker)] == pytest.approx(row["cpu_usage"] / row["cpu_limit"], abs=1e-6)
    quiet = on(loads(50, 50), "transfer", KNOBS)
    quiet.round()
    quiet.broker("b0", 80, incarnation=2)
    assert averages(quiet.later().round())["b0"] == pytest.approx(0.8, abs=1e-6)


def test_heap_counts_with_its_weight_and_bandwidth_with_its_own() -> None:
    built = cluster().broker("a", 10, memory_usage=90.0, memory_limit=100.0)
    built.broker("b", 10, bandwidth_in_usage=60.0, bandwidth_in_limit=100.0)
    first = on(built, "transfer", KNOBS).round()
    assert averages(first) == pytest.approx({"a": 0.1, "b": 0.6}, abs=1e-6)
    heavy = replace(KNOBS, load_balancer_memory_resource_weight=0.5)
    second = on(built, "transfer", heavy).later(10**9).round()
    assert averages(second)["a"] == pytest.approx(0.45, abs=1e-6)


@pytest.mark.covers("manager-extensible")
def test_a_swap_is_two_transfers() -> None:
    built = cluster().broker("hot", 90).broker("cold", 5)
    for points in (20, 25, 45):
        built.bundle("hot", points)
    for _ in range(5):
        built.bundle("cold", 1)
    (result,) = run(on(built, "transfer", AT_ONCE), 1)
    made = moves(result)
    assert {move.kind for move in made} == {DecisionKind.TRANSFER}
    assert {(move.source, move.target) for move in made} == {("hot", "cold"), ("cold", "hot")}
    assert all(move.before.keys() == move.after.keys() == {"hot", "cold"} for move in made)
    assert sources(result) == ["cold", "hot"]


@pytest.mark.covers("moves-by-transfer")
def test_without_transfer_bundles_are_unloaded() -> None:
    knobs = replace(AT_ONCE, load_balancer_transfer_enabled=False)
    result = on(uneven(), "transfer", knobs).round()
    unloads = [d for d in result.decisions if d.kind is DecisionKind.UNLOAD]
    assert unloads
    assert {unload.target for unload in unloads} == {None}
    assert replay_round(result.inputs) == result.plan_hash


@pytest.mark.parametrize("knob", ["load_balancer_enabled", "load_balancer_shedding_enabled"])
def test_switched_off_hits_stand_still(knob: str) -> None:
    built = on(uneven(), "transfer", KNOBS)
    before = run(built, 2)[-1]
    built.settings = replace(built.settings, pulsar=replace(KNOBS, **{knob: False}))
    (result,) = run(built, 1)
    assert result.memory["transfer"]["hits"] == before.memory["transfer"]["hits"] == 2
    assert reason_of(result, "b0") is Reason.SWITCHED_OFF


def test_a_single_broker_is_left_alone_and_so_is_nobody() -> None:
    (result,) = run(on(loads(99), "transfer", AT_ONCE), 1)
    assert reason_of(result, "b0") is Reason.NO_TARGET
    assert on(cluster(), "transfer", AT_ONCE).round().decisions == ()


def test_bundles_that_a_constraint_holds_stay_also_in_swaps() -> None:
    built = uneven()
    built.bundle("b0", 30, namespace="pulsar/system")
    built.bundle("b0", 30, moved_at_ms=built.at_ms - 60_000)
    (result,) = run(on(built, "transfer", AT_ONCE), 1)
    held = {row["bundle"] for row in built.bundles[-2:]}
    assert moves(result)
    assert not held & {move.bundle for move in moves(result)}
