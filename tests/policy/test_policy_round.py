"""The round as a whole: one result for one input, whatever the order of rows; replay; switches; memory."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.published.clusters import ClusterBuilder, cluster, loads, moves, reason_of, splits
from controller.domain.decision import DecisionKind, Reason
from controller.domain.errors import BadRecord, ConfigError
from controller.domain.ownership import State
from controller.domain.state import PAUSED, SHADOW
from controller.policy.round import replay_round, run_round, run_with_challengers
from controller.policy.strategies import STRATEGIES
from tests.examples import examples


def busy() -> ClusterBuilder:
    """A cluster with something of everything, one round old."""
    built = loads(90, 70, 20, 10, 5).silent("quiet").broker("gone", alive=False)
    built.bundle("b0", cpu=9, owner="b0", to="b3", state=State.TRANSFERRING)
    built.bundle("b1", cpu=5, owner="b2", reports=6).bundle("b2", cpu=4, topics=5_000, namespace="t/big")
    built.round()
    return built.later()


def test_a_stored_round_gives_its_plan_hash_again() -> None:
    result = busy().round()
    assert moves(result)
    assert splits(result)
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


@pytest.mark.covers("manager-simple")
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_strategy_s_rounds_give_their_plan_hash_again(strategy: str) -> None:
    built = busy()
    built.settings = replace(built.settings, strategy=strategy)
    for _ in range(6):
        built.later()
        built.state.round_memory = json.loads(json.dumps(built.state.round_memory, allow_nan=False))
        result = built.round()
        stored = json.loads(json.dumps(result.inputs, allow_nan=False))
        assert replay_round(stored) == result.plan_hash


def test_only_what_mattered_is_stored() -> None:
    result = busy().round()
    stored = result.inputs["frame"]
    named = {name for name, *_ in stored["bundles"]}
    assert len(stored["brokers"]) == 7
    assert {d.bundle for d in result.decisions if d.bundle} <= named
    assert not any(row[0] in ("b3", "b4") for row in stored["bundles"])
    assert 20 < len(named) < 40  # of b0, b1 and the displaced and the oversized; not those of b2, b3, b4


def test_bundles_of_sources_that_the_budget_never_reached_are_not_stored() -> None:
    result = loads(*[90] * 9, *[10] * 9, parts=30).second_round()
    stored = result.inputs["frame"]
    assert {stored["brokers"][row[1]][0] for row in stored["bundles"]} == {f"b{i}" for i in range(8)}
    assert replay_round(result.inputs) == result.plan_hash


def test_a_changed_input_changes_the_hash() -> None:
    result = busy().round()
    stored: dict[str, Any] = json.loads(json.dumps(result.inputs))
    stored["frame"]["brokers"][0][-1] += 1
    assert replay_round(stored) != result.plan_hash
    assert replay_round({**json.loads(json.dumps(result.inputs)), "code_version": "code-2"}) != result.plan_hash


def test_a_frame_of_another_version_is_refused() -> None:
    stored = json.loads(json.dumps(busy().round().inputs))
    stored["frame"]["row_columns"].append("new_field")
    with pytest.raises(BadRecord, match="replay with its own"):
        replay_round(stored)


def test_ids_are_made_of_the_round_and_the_ordinal_and_are_no_part_of_the_plan() -> None:
    inputs = busy().inputs()
    first, second = run_round(inputs), run_round(replace(inputs, round_id="other"))
    assert [d.id for d in first.decisions] == [f"r0001-{i:04d}" for i in range(len(first.decisions))]
    assert second.decisions[0].id == "other-0000"
    assert first.plan_hash == second.plan_hash


@settings(max_examples=examples(30))
@given(st.randoms(use_true_random=False), st.lists(st.integers(0, 100), min_size=2, max_size=6))
def test_the_order_of_rows_changes_nothing(shuffle: random.Random, percents: list[int]) -> None:
    built = loads(*percents, parts=4)
    built.round()
    inputs = built.later().inputs()
    orders = [shuffle.sample(range(n), n) for n in (len(built.brokers), len(built.bundles))]
    shuffled = replace(
        inputs,
        brokers={name: values[orders[0]] for name, values in inputs.brokers.items()},
        bundles={name: values[orders[1]] for name, values in inputs.bundles.items()},
    )
    one, other = run_round(inputs), run_round(shuffled)
    assert one.decisions == other.decisions
    assert one.plan_hash == other.plan_hash
    assert replay_round(one.inputs) == one.plan_hash


def test_noise_below_the_quantum_changes_nothing() -> None:
    inputs = busy().inputs()
    noisy = {k: v + 1e-9 if v.dtype == np.float64 else v for k, v in inputs.bundles.items()}
    assert run_round(replace(inputs, bundles=noisy)).plan_hash == run_round(inputs).plan_hash


@pytest.mark.parametrize("mode", [SHADOW, PAUSED])
def test_the_mode_is_recorded_and_decides_nothing(mode: str) -> None:
    live, other = busy(), busy()
    other.state.mode = mode
    in_live, result = live.round(), other.round()
    assert result.decisions == in_live.decisions
    assert result.inputs["frame"]["mode"] == mode


@pytest.mark.covers("rebalances-at-all", "shedding-switch")
def test_shedding_switched_off_still_scores_and_counts() -> None:
    result = busy().with_settings(shed={"enabled": False}).round()
    assert moves(result) == []
    off = [d for d in result.decisions if d.reason is Reason.SWITCHED_OFF]
    assert off
    assert all(d.kind is DecisionKind.SKIP and d.evidence["would_be"] == "transfer" for d in off)
    assert splits(result)
    row = result.scores[0]
    assert (row["broker"], row["source"], row["hits"]) == ("b0", True, 2)
    assert replay_round(result.inputs) == result.plan_hash


@pytest.mark.covers("keeps-balancing", "decision-breakdown")
def test_every_broker_has_one_score_row_and_moves_or_one_skip() -> None:
    result = busy().round()
    brokers = ["b0", "b1", "b2", "b3", "b4", "gone", "quiet"]
    assert [row["broker"] for row in result.scores] == brokers
    movers = {m.source for m in moves(result)}
    for broker in brokers:
        if broker not in movers:
            reason_of(result, broker)
    assert reason_of(result, "gone") is Reason.BROKER_GONE


def test_memory_goes_through_the_journal_as_json() -> None:
    built = busy()
    built.state.round_memory = json.loads(json.dumps(built.state.round_memory | {"scores": {"b0": 0.9}}))
    assert {m.source for m in moves(built.round())} == {"b0", "b1"}


@pytest.mark.covers("manager-changeable")
def test_challengers_decide_beside_and_keep_their_own_memory() -> None:
    built = busy()
    built.settings = replace(built.settings, strategy="headroom", challengers=("headroom",))
    champion, challenger = run_with_challengers(built.inputs())
    assert (champion.challenger, challenger.challenger) == (False, True)
    assert champion.memory == challenger.memory
    assert champion.plan_hash == challenger.plan_hash
    assert not {d.id for d in champion.decisions} & {d.id for d in challenger.decisions}


def test_no_two_decisions_of_a_round_have_the_same_id() -> None:
    built = busy()
    built.settings = replace(built.settings, challengers=("threshold", "uniform", "steady"))
    results = run_with_challengers(built.inputs())
    ids = [d.id for result in results for d in result.decisions]
    assert len(results) == 4
    assert len(set(ids)) == len(ids) > 4
    assert {d.id for d in results[1].decisions} == {
        f"r0001-threshold-{i:04d}" for i in range(len(results[1].decisions))
    }


def test_an_unknown_strategy_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'stedy' is none of .*average, headroom"):
        run_round(replace(busy().inputs(), settings=replace(busy().settings, strategy="stedy")))


@pytest.mark.covers("keeps-balancing")
def test_a_round_of_an_empty_cluster_leaves_a_record() -> None:
    result = cluster().round()
    assert (result.decisions, result.scores) == ((), ())
    assert replay_round(result.inputs) == result.plan_hash
