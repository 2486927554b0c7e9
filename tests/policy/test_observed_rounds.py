"""Rounds on a cluster whose bundles are observed: the same plans as on owned bundles, and what they leave alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.published.clusters import ClusterBuilder, bundle_name, cluster, loads, moves, reason_of
from controller.domain.decision import DecisionKind, Reason
from controller.domain.holdings import Holdings
from controller.domain.ids import Bundle
from controller.domain.observed import Block, Observation, Order, OrderKind
from controller.domain.state import METADATA
from controller.policy.round import replay_round

PERIOD_MS = 5_000


def observe(built: ClusterBuilder) -> ClusterBuilder:
    """The same cluster with observations in place of ownership records; the entry's seq is the record's epoch."""
    state = built.state
    for broker in list(state.brokers.values()):
        state.brokers[broker.id] = replace(broker, info={"authority": METADATA})
        fact = {"manager": "modular", "version": "4.0.8", "shedding": False, "auto_split": False}
        state.observed.facts[f"broker:{broker.id}"] = {**fact, "stats_period_ms": PERIOD_MS}
    for name, record in state.bundles.items():
        owner = record.by.broker if record.by is not None else None
        state.observed.bundles[name] = Observation(record.bundle, owner, record.epoch, record.moved_at_ms)
    state.bundles = {}
    state.holdings = Holdings.of_records((), state.observed)
    return built


def hot() -> ClusterBuilder:
    return observe(loads(90, 30, 30))


def first_move(built: ClusterBuilder) -> Any:
    return moves(built.second_round())[0]


def test_a_round_moves_observed_bundles_as_owned_ones() -> None:
    def plan(built: ClusterBuilder) -> list[tuple[str | None, ...]]:
        return [(d.bundle, d.source, d.target) for d in moves(built.second_round())]

    assert plan(hot()) == plan(loads(90, 30, 30)) != []


def test_the_observation_s_entry_stands_for_the_epoch() -> None:
    built = hot()
    name = str(first_move(hot()).bundle)
    built.state.observed.bundles[name] = replace(built.state.observed.bundles[name], seq=42)
    assert {d.bundle: d.epoch for d in moves(built.second_round())}[name] == 42


def test_stored_rounds_replay() -> None:
    built = hot()
    built.state.observed.settled_at_ms["b1"] = built.at_ms
    built.state.observed.blocks[str(first_move(hot()).bundle)] = Block(not_before_ms=built.at_ms + 600_000)
    for _ in range(3):
        result = built.later().round()
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


def test_source_and_target_of_a_move_are_not_judged_until_their_reports_show_it() -> None:
    built = hot()
    built.round()
    built.state.observed.settled_at_ms["b0"] = built.later().at_ms - 2 * PERIOD_MS
    assert reason_of(built.round(), "b0") is Reason.SETTLING
    built.later(2 * PERIOD_MS)
    assert moves(built.later().second_round())


def test_a_suspect_broker_neither_gives_nor_takes() -> None:
    built = hot()
    built.state.observed.facts["suspect:b1"] = {"why": "no answer"}
    assert {d.target for d in moves(built.second_round())} == {"b2"}
    built = hot()
    built.state.observed.facts["suspect:b0"] = {"why": "no answer"}
    assert reason_of(built.second_round(), "b0") is Reason.SUSPECT_BROKER


def test_what_backs_off_or_is_in_doubt_stays_and_others_go() -> None:
    name = str(first_move(hot()).bundle)
    for block in (Block(not_before_ms=10**15, failures=2), Block(in_doubt_seq=9)):
        built = hot()
        built.state.observed.blocks[name] = block
        moved = {d.bundle for d in moves(built.second_round())}
        assert name not in moved
        assert moved


@pytest.mark.parametrize("manager", ["modular", "extensible"])
def test_an_equal_range_of_another_namespace_waits_under_the_modular_manager(manager: str) -> None:
    built = hot()
    for fact in built.state.observed.facts.values():
        fact["manager"] = manager  # type: ignore[index]
    name = str(first_move(hot()).bundle)
    other = Bundle.parse(name.replace("t/ns", "t/other"))
    built.state.observed.orders[str(other)] = Order("o1", OrderKind.MOVE, other, "b1", "agent", 7, "b2")
    assert (name in {d.bundle for d in moves(built.second_round())}) == (manager == "extensible")


@pytest.mark.parametrize(("manager", "equal"), [("modular", False), ("extensible", True)])
def test_two_of_equal_ranges_are_not_swapped_under_the_modular_manager(manager: str, equal: bool) -> None:
    """It takes one order for a range at a time, so such a swap would be refused in every round. 45 % fit nowhere."""
    built = cluster()
    built.settings = replace(built.settings, strategy="steady")
    for broker, parts in (("b0", (45.0, 45.0)), ("b1", (20.0, 35.0)), ("b2", (20.0, 36.0)), ("b3", (20.0, 36.0))):
        built.broker(broker, cpu=sum(parts))
        for at, points in enumerate(parts):
            built.bundle(broker, cpu=points, name=bundle_name(at, f"t/{broker}"))
    for fact in observe(built).state.observed.facts.values():
        fact["manager"] = manager  # type: ignore[index]
    result = built.round()
    one, other = (str(half.bundle) for half in moves(result)[:2] if half.swapped_with)
    assert (one.rpartition("/")[2] == other.rpartition("/")[2]) == equal
    lost_by = {pair["lost_by"] for half in moves(result) for pair in half.evidence["pairs"]}
    assert (Reason.RANGE_IN_USE.value in lost_by) != equal
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


@pytest.mark.parametrize(("namespace", "moves_again"), [("t/other", False), ("t/ns", True)])
def test_a_destination_that_may_be_kept_holds_back_others_of_its_range(namespace: str, moves_again: bool) -> None:
    """Not the bundle itself: its next order writes the destination anew."""
    built = hot()
    for fact in built.state.observed.facts.values():
        fact["manager"] = "modular"  # type: ignore[index]
    name = str(first_move(hot()).bundle)
    built.state.observed.range_blocks[name.rpartition("/")[2]] = name.replace("t/ns", namespace)
    assert (name in {d.bundle for d in moves(built.second_round())}) == moves_again


def test_an_open_order_counts_as_done() -> None:
    built = hot()
    name = str(first_move(hot()).bundle)
    order = Order("o1", OrderKind.MOVE, Bundle.parse(name), "b0", "agent", 7, "b1")
    built.state.observed.orders[name] = order
    snapshot = built.snapshot()
    at = snapshot.place_of(name)
    assert at is not None
    assert snapshot.brokers[snapshot.owner[at]] == "b1"
    assert snapshot.in_flight[at]
    assert name not in {d.bundle for d in built.second_round().decisions if d.kind is DecisionKind.TRANSFER}


def test_a_bundle_that_nobody_lists_is_not_moved() -> None:
    built = hot()
    name = str(first_move(hot()).bundle)
    built.state.observed.bundles[name] = replace(built.state.observed.bundles[name], broker=None)
    assert name not in {d.bundle for d in moves(built.second_round())}


def test_rings_count_the_bundles_of_a_namespace() -> None:
    built = hot()
    built.state.observed.rings["t/ns"] = (0, 5, 9, 0xFFFFFFFF)
    assert built.snapshot().frame.namespace_bundles["t/ns"] == 3


def test_isolation_policies_of_the_cluster_are_stored_with_the_round() -> None:
    built = hot()
    policy = {"namespaces": ["t/ns"], "primary": ["b0|b1"], "secondary": []}
    built.state.observed.facts["isolation:two"] = policy
    result = built.second_round()
    assert {d.target for d in moves(result)} == {"b1"}
    assert result.inputs["settings"]["placement"]["isolation"][0]["name"] == "two"
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


def test_what_a_broker_excluded_that_is_gone_may_be_moved() -> None:
    built, namespace = hot(), str(first_move(hot()).bundle).rpartition("/")[0]
    built.state.observed.facts["broker:b9"] = {"manager": "modular", "excluded_namespaces": [namespace]}
    assert Reason.EXCLUDED.value not in built.snapshot().frame.forbidden.values()


@pytest.mark.parametrize(
    ("key", "fact", "reason"),
    [
        ("non_persistent:t/ns", {"ranges": ["RANGE"]}, Reason.NON_PERSISTENT),
        ("broker:b1", {"manager": "modular", "excluded_namespaces": ["t/ns"]}, Reason.EXCLUDED),
    ],
)
def test_a_round_leaves_alone_what_pulsar_or_its_topics_ask_for(key: str, fact: dict[str, Any], reason: Reason) -> None:
    move = first_move(hot())
    namespace, _, range_ = str(move.bundle).rpartition("/")
    built = hot()
    ranges = {"ranges": [range_]} if "ranges" in fact else {"excluded_namespaces": [namespace]}
    built.state.observed.facts[key.replace("t/ns", namespace)] = {**fact, **ranges}
    snapshot = built.snapshot()
    place = snapshot.place_of(str(move.bundle))
    assert place is not None
    assert snapshot.frame.forbidden[str(move.bundle)] == reason.value
    for _ in range(2):
        result = built.later().round()
        assert move.bundle not in {d.bundle for d in moves(result)}
        assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash
