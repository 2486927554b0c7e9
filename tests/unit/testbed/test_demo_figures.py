"""The demo's figures on small journals: transfers, splits, rounds, relief, and when a run has failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.domain.entries import Entry, Kind
from controller.testbed.checker.checker import CheckReport
from controller.testbed.demo.figures import DemoFigures, RoundView, find_relief, rounds_of, splits_of, transfers_of

BUNDLE, OTHER = "t/ns/0x00000000_0x80000000", "t/ns/0x80000000_0xffffffff"
A, B = "broker-a#1.n.1", "broker-b#1.n.1"


def entry(kind: Kind, seq: int = 1, **fields: Any) -> Entry:
    return Entry(seq, kind, "me", 1, 1_000 + seq, **fields)


def owned(state: str, epoch: int, by: str | None, to: str | None = None, bundle: str = BUNDLE, **more: Any) -> Entry:
    return entry(Kind.OWNERSHIP, bundle=bundle, state=state, epoch=epoch, by=by, to=to, **more)


def audit(**changes: Any) -> CheckReport:
    counts = dict.fromkeys(CheckReport.__dataclass_fields__, 0)
    gaps = {"handover_gap_p50_ms": 3.0, "handover_gap_p99_ms": 9.0, "failover_gap_max_ms": None}
    gaps |= {"handover_beyond_interval_p50_ms": 1.0, "handover_beyond_interval_max_ms": 4.0}
    return CheckReport(**{**counts, **gaps, "findings": [], "messages_written": 10, "messages_read": 20, **changes})


def test_a_transfer_counts_when_its_target_owns_the_bundle_at_its_epoch() -> None:
    begun, done = owned("transferring", 5, A, B), owned("owned", 5, B)
    assert transfers_of([begun, owned("releasing", 5, A, B), done]) == [done]


@pytest.mark.parametrize(
    "later",
    [
        [],
        [owned("owned", 6, A)],  # refused: the owner keeps it at the next epoch
        [owned("owned", 5, B, bundle=OTHER)],
        [owned("free", 5, None), owned("assigning", 6, None, B), owned("owned", 6, B)],  # failover, not a transfer
    ],
)
def test_a_transfer_that_did_not_come_about_does_not_count(later: list[Entry]) -> None:
    assert transfers_of([owned("transferring", 5, A, B), *later]) == []


def test_an_assignment_is_no_transfer_and_each_transfer_counts_once() -> None:
    assert transfers_of([owned("assigning", 1, None, A), owned("owned", 1, A)]) == []
    twice = [owned("transferring", 2, A, B), owned("owned", 2, B), owned("owned", 2, B)]
    assert len(transfers_of(twice)) == 1


def test_rounds_of_challengers_are_left_out() -> None:
    data = {"at_ms": 500, "memory": {"scores": {"a": 0.9, "b": 0.1}}}
    entries = [entry(Kind.ROUND, data=data), entry(Kind.ROUND, data={**data, "challenger": True}), entry(Kind.MODE)]
    (view,) = rounds_of(entries)
    assert (view.at_ms, view.journaled_ms, view.mean, view.spread) == (500, 1_001, 0.5, 0.8)
    assert splits_of([*entries, entry(Kind.SPLIT, bundle=BUNDLE)])[0].bundle == BUNDLE


def test_a_broker_that_is_gone_has_no_load_that_others_could_be_compared_with() -> None:
    data = {"at_ms": 500, "memory": {"scores": {"a": 0.4, "b": 0.0}}}
    ended = entry(Kind.SESSION_ENDED, 2, broker="b", session="b#1.n.1")
    back = entry(Kind.REGISTERED, 4, broker="b", session="b#2.n.1")
    told = [entry(Kind.REGISTERED, 1, broker="b", session="b#1.n.1"), ended]
    dead, alive = rounds_of([*told, entry(Kind.ROUND, 3, data=data), back, ended, entry(Kind.ROUND, 5, data=data)])
    assert (dead.scores, dead.spread) == ({"a": 0.4}, 0.0)
    assert alive.spread == 0.4, "it came back, and an older session's end says nothing"


def test_the_spread_is_that_of_the_whole_run_and_of_what_one_sees_at_its_end() -> None:
    figures = DemoFigures()
    figures.take_balance(
        [RoundView(0, 0, s) for s in ({"a": 0.2, "b": 0.3}, {"a": 0.7, "b": 0.1}, {"a": 0.3, "b": 0.34}, {})]
    )
    assert (figures.spread_before, figures.spread_after) == (0.6, 0.04)
    assert figures.scores_after == {"a": 0.3, "b": 0.34}
    assert DemoFigures().spread_after is None


@pytest.mark.parametrize(
    ("scores", "relieved"),
    [
        ({"a": 0.50, "b": 0.45}, True),
        ({"a": 0.86, "b": 0.84}, False),  # above the line for overloaded brokers
        ({"a": 0.40, "b": 0.10}, False),  # 15 points above the mean
        ({}, True),
    ],
)
def test_relief_means_that_no_broker_is_where_a_source_would_be(scores: dict[str, float], relieved: bool) -> None:
    assert RoundView(0, 0, scores).relieved(overloaded=0.85, difference=0.10) is relieved


def test_a_clean_audit_passes_and_its_figures_are_taken_over() -> None:
    figures = DemoFigures(tables="run/tables")
    figures.take_check(audit(redelivered=4))
    assert not figures.failed
    document = json.loads(json.dumps(figures.to_json()))
    assert (document["messages_written"], document["messages_read"], document["redelivered"]) == (10, 20, 4)
    assert (document["handover_gap_p50_ms"], document["handover_gap_p99_ms"]) == (3.0, 9.0)
    beyond = [document[f"handover_beyond_interval_{name}_ms"] for name in ("p50", "max")]
    assert beyond == [1.0, 4.0]


@pytest.mark.parametrize(
    "broken",
    ["messages_lost", "messages_duplicated", "messages_reordered", "fence_violations", "mismatched"],
)
def test_anything_the_auditor_found_fails_the_demo(broken: str) -> None:
    figures = DemoFigures()
    figures.take_check(audit(**{broken: 1}, findings=["topic@3: written after the fence"]))
    assert figures.failed
    assert figures.invariants == "topic@3: written after the fence"


def test_a_broken_invariant_fails_the_demo() -> None:
    assert DemoFigures(invariants="I4: differs").failed


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ([(0.60, 0.40), (0.58, 0.42), (0.55, 0.45)], (0, 2)),  # nobody was ever beyond a limit: relieved early
        ([(0.46, 0.38), (0.75, 0.35), (0.70, 0.40), (0.60, 0.45)], (1, 3)),
        ([(0.88, 0.70), (0.86, 0.72), (0.82, 0.75)], (0, 2)),  # over the limit, and not far from the other
        ([(0.55, 0.45), (0.50, 0.50)], None),  # never uneven
        ([(0.75, 0.35), (0.74, 0.36)], None),  # not yet
        ([], None),
    ],
)
def test_relief_is_less_than_the_worst_and_within_the_limits(
    scores: list[tuple[float, float]], found: tuple[int, int] | None
) -> None:
    rounds = [RoundView(at, at, {"a": one, "b": other}) for at, (one, other) in enumerate(scores)]
    relief = find_relief(rounds, overloaded=0.85, difference=0.10)
    assert relief == (found and (rounds[found[0]], rounds[found[1]]))
