"""What overrides forbid a round and what they move in it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.published.clusters import NOW_MS, ClusterBuilder, bundle_name, loads, moves, splits
from controller.domain.decision import DecisionKind, Reason
from controller.domain.ids import Bundle
from controller.domain.overrides import KINDS, Override, wishes_for
from controller.policy.overrides import MOST_MOVES
from controller.policy.round import replay_round
from controller.policy.strategies import STRATEGIES


def wish(built: ClusterBuilder, kind: str, until_ms: int | None = None, **of: str) -> None:
    identity = f"w{len(built.state.overrides)}"
    built.state.overrides[identity] = Override(identity, kind, until_ms=until_ms, **of)


def hot() -> ClusterBuilder:
    """b0 is nearly full; its ten bundles are 0 to 9, b1's 10 to 19, b2's 20 to 29."""
    return loads(90, 30, 20)


def first_moved() -> str:
    """The bundle that a round without overrides moves first."""
    return str(moves(hot().second_round())[0].bundle)


def test_what_is_frozen_stays() -> None:
    built = hot()
    wish(built, "freeze", bundle=first_moved())
    result = built.second_round()
    assert moves(result)
    assert first_moved() not in {d.bundle for d in moves(result)}


@pytest.mark.covers("namespace-is-the-unit")
def test_a_namespace_that_is_excluded_stays() -> None:
    built = hot()
    wish(built, "exclude_namespace", namespace="t/ns")
    result = built.second_round()
    assert not moves(result)
    assert [d.reason for d in result.decisions if d.source == "b0"] == [Reason.EXCLUDED]


def test_an_override_that_ran_out_forbids_nothing() -> None:
    built = hot()
    wish(built, "exclude_namespace", namespace="t/ns", until_ms=NOW_MS + 60_000)
    built.round()
    assert moves(built.later().round())


def test_what_is_pinned_goes_there_and_stays() -> None:
    built = hot()
    wish(built, "pin", bundle=first_moved(), broker="b0")
    wish(built, "pin", bundle=bundle_name(15), broker="b2")
    result = built.round()  # before any strategy has hits
    (home,) = moves(result)
    assert (home.bundle, home.source, home.target, home.reason) == (bundle_name(15), "b1", "b2", Reason.OVERRIDDEN)
    assert home.strategy == "overrides"
    assert home.before["b1"] > home.after["b1"]
    assert first_moved() not in {d.bundle for d in moves(built.later().round())}
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


def test_pinned_to_a_broker_that_may_take_nothing_it_waits() -> None:
    built = hot().broker("b3", drained=True)
    wish(built, "pin", bundle=bundle_name(15), broker="b3")
    wish(built, "pin", bundle=bundle_name(16), broker="never seen")
    assert not moves(built.round())


def test_what_should_not_be_there_goes_to_the_least_loaded_it_may_go_to() -> None:
    built = loads(50, 40, 30, 20)
    wish(built, "avoid", bundle=bundle_name(0), broker="b0")
    wish(built, "avoid", bundle=bundle_name(0), broker="b3")
    (away,) = moves(built.round())
    assert (away.bundle, away.target, away.reason) == (bundle_name(0), "b2", Reason.OVERRIDDEN)


def test_a_strategy_s_move_to_where_its_bundle_should_not_be_is_a_skip() -> None:
    built = hot()
    for broker in ("b1", "b2"):
        wish(built, "avoid", namespace="t/ns", broker=broker)
    result = built.second_round()
    chosen = [d for d in result.decisions if d.source == "b0" and d.bundle]
    assert chosen
    assert {(d.kind, d.reason) for d in chosen} == {(DecisionKind.SKIP, Reason.AVOIDED)}
    assert {d.target for d in moves(result)} <= {"b0"}  # and those there go where they may


def test_a_round_moves_only_so_many_by_overrides() -> None:
    built = loads(30, 30, 30, parts=20)
    wish(built, "avoid", namespace="t/ns", broker="b0")
    result = built.round()
    assert len(moves(result)) == MOST_MOVES
    assert {d.source for d in moves(result)} == {"b0"}
    assert {d.target for d in moves(result)} == {"b1", "b2"}  # each move is seen by the next


@pytest.mark.parametrize("strategy", ["headroom", "steady", "weighted"])
def test_a_strategy_reckons_with_what_overrides_move_in_its_round(strategy: str) -> None:
    """b2 is the emptiest, until most of b1 has come there."""
    built = loads(90, 50, 10, 45)
    built.settings = replace(built.settings, strategy=strategy)
    for number in range(10, 18):
        wish(built, "avoid", bundle=bundle_name(number), broker="b1")
        wish(built, "avoid", bundle=bundle_name(number), broker="b3")
    for _ in range(8):
        result = built.round()
        if any(d.strategy == strategy for d in moves(result)):
            break
        built.later()
    asked, chosen = moves(result)[:8], moves(result)[8:]
    assert [(d.target, d.reason) for d in asked] == [("b2", Reason.OVERRIDDEN)] * 8
    assert chosen
    assert {d.strategy for d in chosen} == {strategy}
    assert asked[-1].after["b2"] == pytest.approx(0.5)
    seen: dict[str, float] = {}
    for move in chosen:
        seen = {**move.before, **seen}
    left = {"b0": 0.9, "b3": 0.45, **asked[-1].after}
    assert seen == pytest.approx({broker: left[broker] for broker in seen})
    assert {d.target for d in chosen[:3]} == {"b1"}
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


def test_what_overrides_move_is_done_once_for_placements() -> None:
    """The step does them again on the round's loads when it journals them."""
    built = loads(40, 50, 30)
    before = built.round().loads
    wish(built, "pin", bundle=bundle_name(15), broker="b2")
    result = built.round()
    assert [d.bundle for d in moves(result)] == [bundle_name(15)]
    assert before is not None
    assert result.loads is not None
    assert result.loads.used == before.used


def test_overrides_take_nothing_of_the_strategy_s_budget() -> None:
    built = hot().with_settings(shed={"max_moves_per_round": 1})
    wish(built, "pin", bundle=bundle_name(15), broker="b2")
    assert [d.reason for d in moves(built.second_round())] == [Reason.OVERRIDDEN, Reason.OVERLOADED]


def test_what_is_frozen_is_not_split() -> None:
    built = hot().bundle("b1", cpu=1, topics=5_000, name=bundle_name(100))
    assert [d.bundle for d in splits(built.round())] == [bundle_name(100)]
    wish(built, "freeze", bundle=bundle_name(100))
    result = built.later().round()
    assert not splits(result)
    assert Reason.FROZEN in {d.reason for d in result.decisions if d.bundle == bundle_name(100)}


def test_an_override_holds_for_the_parts_of_its_bundle() -> None:
    whole = Bundle("t/ns", 0, 0x10000)
    lower, upper = whole.split_at(0x4000)
    made = Override("w", "pin", bundle=str(whole), broker="b1")
    assert made.concerns(lower)
    assert made.concerns(upper)
    assert not made.concerns(Bundle("t/ns", 0x4000, 0x20000))
    assert not made.concerns(Bundle("t/other", 0, 0x4000))
    assert wishes_for([made, Override("a", "avoid", namespace="t/ns", broker="b2")], lower) == ("b1", {"b2"})


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("kind", KINDS)
def test_every_strategy_obeys(strategy: str, kind: str) -> None:
    """The fullest broker's bundles are all under one wish; whatever the strategy is, it keeps to it."""
    built = loads(97, 30, 20, 10, parts=12).with_settings()
    built.settings = built.settings.__class__(strategy=strategy)
    for number in range(12):
        of = {"namespace": "t/ns"} if kind == "exclude_namespace" else {"bundle": bundle_name(number)}
        wish(built, kind, **of, **({"broker": "b0"} if kind == "pin" else {"broker": "b3"} if kind == "avoid" else {}))
    for _ in range(10):
        for move in moves(built.round()):
            assert move.source != "b0" or (kind == "avoid" and move.target != "b3"), move
        built.later()
