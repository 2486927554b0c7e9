"""Sufficiency, hard filters and pacing: who and what is left out, and by which rule."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.published.clusters import ClusterBuilder, cluster, loads, moves, reason_of
from controller.domain.decision import Decision, DecisionKind, Label, Reason
from controller.domain.ownership import State
from controller.policy.pacing import pace
from controller.policy.placement.constraints import assess, constrain, is_system_namespace
from controller.policy.view.reason_codes import ALLOWED, REASONS


def blocks(built: ClusterBuilder) -> dict[str, list[Reason | None]]:
    """Why each broker may not give and take, and each bundle not move; None where it may."""
    snapshot = constrain(assess(built.snapshot(), built.settings), built.settings)
    arrays = {"source": snapshot.source_block, "target": snapshot.target_block, "bundle": snapshot.bundle_block}
    return {k: [None if c == ALLOWED else REASONS[c] for c in codes.tolist()] for k, codes in arrays.items()}


@pytest.mark.covers("target-not-overloaded")
@pytest.mark.parametrize(
    ("broker", "reason"),
    [
        ({}, None),
        ({"age_ms": 30_000}, None),
        ({"age_ms": 30_001}, Reason.OUTDATED_LOAD_DATA),
        ({"reports": 1}, Reason.NO_LOAD_DATA),
        ({"reports": 2}, None),
        ({"cpu_limit": -1.0}, Reason.NO_LOAD_DATA),
        ({"alive": False}, Reason.BROKER_GONE),
        ({"registered": False}, Reason.BROKER_GONE),
        ({"drained": True}, Reason.BROKER_DRAINED),
        ({"leaving": True}, Reason.BROKER_DRAINED),
    ],
)
def test_who_takes_no_part(broker: dict[str, Any], reason: Reason | None) -> None:
    found = blocks(cluster().broker("a", cpu=50, **broker))
    assert found["source"] == found["target"] == [reason]


@pytest.mark.covers("target-not-overloaded")
def test_a_lagging_broker_gives_but_does_not_take() -> None:
    built = cluster().broker("a", cpu=50)
    built.lagging.add("a")
    assert blocks(built) == {"source": [None], "target": [Reason.LAGGING], "bundle": []}


@pytest.mark.covers(
    "target-not-overloaded", "broker-max-topics", "broker-max-memory", "broker-max-net-usage", "caps-trigger"
)
@pytest.mark.parametrize(
    ("caps", "held", "full"),
    [
        ({"max_topics": 100}, {"topics": 99}, False),
        ({"max_topics": 100}, {"topics": 100}, True),
        ({"max_bundle_memory_bytes": 10}, {"storage_bytes": 6, "cache_bytes": 4}, True),
        ({"max_bundle_memory_bytes": 11}, {"storage_bytes": 6, "cache_bytes": 4}, False),
        ({"max_throughput_bytes_per_s": 10}, {"throughput_in": 6, "throughput_out": 4}, True),
        ({"max_topics": None}, {"topics": 10**9}, False),
    ],
)
def test_a_broker_at_a_cap_is_no_target(caps: dict[str, Any], held: dict[str, Any], full: bool) -> None:
    built = loads(90).with_settings(caps=caps).broker("other", cpu=10, **held)
    assert blocks(built)["target"][1] == (Reason.BROKER_CAP if full else None)
    assert blocks(built)["source"][1] is None


@pytest.mark.covers("caps-trigger")
def test_a_move_that_would_exceed_a_cap_goes_elsewhere() -> None:
    built = cluster().broker("a", cpu=80, topics=60).bundle("a", cpu=20, topics=30).bundle("a", cpu=20, topics=30)
    built.broker("b", topics=75).broker("c", cpu=10, topics=60)
    assert {m.target for m in moves(built.second_round())} == {"b", "c"}
    (move,) = moves(built.with_settings(caps={"max_topics": 100}).round())
    assert move.target == "c"
    assert {p["lost_by"] for p in move.evidence["pairs"] if p["target"] == "b"} == {Reason.BROKER_CAP.value}
    built.with_settings(caps={"max_topics": 80})
    assert reason_of(built.round(), "a") is Reason.BROKER_CAP


@pytest.mark.covers("grace-period")
@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        ({}, None),
        ({"state": State.SPLITTING}, Reason.IN_FLIGHT),
        ({"state": State.TRANSFERRING, "to": "b"}, Reason.IN_FLIGHT),
        ({"state": State.FREE, "owner": None}, Reason.STALE_DECISION),
        ({"namespace": "pulsar/system"}, Reason.EXCLUDED),
        ({"moved_at_ms": 1_000_000_000 - 30 * 60_000 + 1}, Reason.GRACE_PERIOD),
        ({"moved_at_ms": 1_000_000_000 - 30 * 60_000}, None),
    ],
)
def test_which_bundles_stay(bundle: dict[str, Any], reason: Reason | None) -> None:
    assert blocks(cluster().broker("a").broker("b").bundle("a", **bundle))["bundle"] == [reason]


@pytest.mark.parametrize(
    ("namespace", "system"),
    [
        ("pulsar/system", True),
        ("pulsar/10.0.0.1:8080", True),
        ("pulsar/cluster/10.0.0.1:8080", True),
        ("sla-monitor/cluster/10.0.0.1:8080", True),
        ("pulsar/metering", False),
        ("public/system", False),
        ("my-pulsar/10.0.0.1:8080", False),
    ],
)
def test_system_namespaces(namespace: str, system: bool) -> None:
    assert is_system_namespace(namespace) is system


def test_pacing_holds_back_what_is_over_budget_or_named_twice() -> None:
    def move(bundle: str, kind: DecisionKind = DecisionKind.TRANSFER) -> Decision:
        return Decision("", kind, Label.SUCCESS, Reason.OVERLOADED, bundle=bundle, source="a", target="b")

    wanted = [move("x"), move("x"), move("y"), move("z"), move("w", DecisionKind.SPLIT), move("v", DecisionKind.SPLIT)]
    paced = pace(wanted, max_moves=2, max_splits=1)
    assert [(d.kind.value, d.reason) for d in paced] == [
        ("transfer", Reason.OVERLOADED),
        ("skip", Reason.IN_FLIGHT),
        ("transfer", Reason.OVERLOADED),
        ("skip", Reason.BUDGET_SPENT),
        ("split", Reason.OVERLOADED),
        ("skip", Reason.BUDGET_SPENT),
    ]
    assert paced[3].evidence["would_be"] == "transfer"
