"""Candidates in the evidence of strategies that judge no pairs."""

from __future__ import annotations

import json

import pytest

from benchmarks.published.clusters import NOW_MS, ClusterBuilder, cluster, moves
from controller.domain.decision import DecisionKind, Reason, RoundResult
from controller.policy.plan import MOST_CANDIDATES
from controller.policy.round import replay_round

BYTES = {"throughput_in": 3e6, "throughput_out": 3e6}


def busy(strategy: str) -> ClusterBuilder:
    """b0 far above the others, with 30 bundles of different traffic, one of them in its grace period."""
    built = cluster(strategy=strategy)
    total = 30 * 3e6 + 1e4 * sum(range(30))
    built.broker("b0", cpu=95, throughput_in=total, throughput_out=total)
    for number in range(30):
        moved_at_ms = NOW_MS - 60_000 if number == 29 else 0
        traffic = {name: value + 1e4 * number for name, value in BYTES.items()}
        built.bundle("b0", cpu=3, moved_at_ms=moved_at_ms, **traffic)
    for broker in ("b1", "b2", "b3"):
        built.broker(broker, cpu=5)
        for _ in range(3):
            built.bundle(broker, cpu=1)
    return built


def acting(strategy: str) -> RoundResult:
    """The first round in which it moves something."""
    built = busy(strategy)
    for _ in range(10):
        result = built.round()
        if moves(result):
            return result
        built.later()
    raise AssertionError(f"{strategy} never moves anything")


@pytest.mark.parametrize("strategy", ["overload", "threshold", "uniform", "average"])
def test_a_source_s_largest_bundles_are_listed_with_what_became_of_each(strategy: str) -> None:
    result = acting(strategy)
    own = [d for d in result.decisions if d.source == "b0"]
    rows = own[0].evidence["candidates"]
    assert len(rows) == MOST_CANDIDATES
    assert [row["throughput"] for row in rows] == sorted((row["throughput"] for row in rows), reverse=True)
    assert not any("candidates" in d.evidence for d in own[1:])
    taken = {d.bundle: d.target for d in moves(result)}
    for row in rows:
        assert (row["target"], row["lost_by"] == "") == (taken.get(row["bundle"]), row["bundle"] in taken)
    stayed = {row["lost_by"] for row in rows} - {""}
    assert stayed <= {Reason.ENOUGH_CHOSEN.value, Reason.GRACE_PERIOD.value}
    assert rows[0]["lost_by"] == Reason.GRACE_PERIOD.value  # the largest moved a minute ago
    assert replay_round(json.loads(json.dumps(result.inputs))) == result.plan_hash


def test_a_strategy_that_judges_pairs_lists_those() -> None:
    result = acting("headroom")
    assert not any("candidates" in d.evidence for d in result.decisions)
    assert any("pairs" in d.evidence for d in result.decisions)


def test_of_a_source_that_gives_nothing_every_bundle_stays_for_its_reason() -> None:
    built = cluster(strategy="overload").broker("b0", cpu=95).broker("b1", cpu=5)
    built.bundle("b0", cpu=90, **BYTES).bundle("b1", cpu=1)
    (skip,) = [d for d in built.round().decisions if d.source == "b0" and d.kind is DecisionKind.SKIP]
    rows = skip.evidence.get("candidates", [])
    assert [row["lost_by"] for row in rows] == [skip.reason.value]
