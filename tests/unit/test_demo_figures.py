"""The demo's figures on small journals: transfers, splits, rounds, relief, and when a run has failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.demo.auditor import AuditReport
from controller.demo.figures import DemoFigures, RoundView, describe, rounds_of, splits_of, transfers_of
from controller.domain.entries import Entry, Kind

BUNDLE, OTHER = "t/ns/0x00000000_0x80000000", "t/ns/0x80000000_0xffffffff"
A, B = "broker-a#1.n.1", "broker-b#1.n.1"


def entry(kind: Kind, seq: int = 1, **fields: Any) -> Entry:
    return Entry(seq, kind, "me", 1, 1_000 + seq, **fields)


def owned(state: str, epoch: int, by: str | None, to: str | None = None, bundle: str = BUNDLE, **more: Any) -> Entry:
    return entry(Kind.OWNERSHIP, bundle=bundle, state=state, epoch=epoch, by=by, to=to, **more)


def audit(**changes: Any) -> AuditReport:
    counts = dict.fromkeys(AuditReport.__dataclass_fields__, 0)
    gaps = {"handover_gap_p50_ms": 3.0, "handover_gap_p99_ms": 9.0, "failover_gap_max_ms": None}
    return AuditReport(**{**counts, **gaps, "findings": [], "messages_written": 10, "messages_read": 20, **changes})


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
    figures.take_audit(audit(redelivered=4))
    assert not figures.failed
    document = json.loads(json.dumps(figures.to_json()))
    assert (document["messages_written"], document["messages_read"], document["redelivered"]) == (10, 20, 4)
    assert (document["handover_gap_p50_ms"], document["handover_gap_p99_ms"]) == (3.0, 9.0)


@pytest.mark.parametrize(
    "broken",
    ["messages_lost", "messages_duplicated", "messages_reordered", "fence_violations", "mismatched"],
)
def test_anything_the_auditor_found_fails_the_demo(broken: str) -> None:
    figures = DemoFigures()
    figures.take_audit(audit(**{broken: 1}, findings=["topic@3: written after the fence"]))
    assert figures.failed
    assert figures.invariants == "topic@3: written after the fence"


def test_a_broken_invariant_fails_the_demo() -> None:
    assert DemoFigures(invariants="I4: differs").failed


def test_events_are_told_in_a_line_and_the_rest_not_at_all() -> None:
    assert describe(owned("transferring", 2, A, B, reason="101_overloaded")) == (
        f"move {BUNDLE}: broker-a → broker-b (101_overloaded)"
    )
    assert describe(owned("splitting", 2, A, reason="106_commanded")) == f"split {BUNDLE} on broker-a (106_commanded)"
    assert describe(entry(Kind.SESSION_ENDED, broker="broker-a", reason="lease")) == "broker-a is gone (lease)"
    assert describe(entry(Kind.REGISTERED, broker="broker-b")) == "broker-b has joined"
    assert describe(entry(Kind.ALARM, reason="cannot_fence", bundle=BUNDLE)) == f"alarm: cannot_fence {BUNDLE}"
    assert describe(entry(Kind.OFFSETS)) is None
    assert describe(owned("owned", 2, A)) is None
