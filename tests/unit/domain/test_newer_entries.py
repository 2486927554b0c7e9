"""Entries of a kind that only a newer version knows: they count, change nothing, and are told once."""

from __future__ import annotations

import json
import logging

import pytest

import controller.domain.entries as entries_module
from controller.agent.feed import parse_feed
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind, UnknownKind, kind_of
from controller.domain.errors import BadRecord, InvariantBroken
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode, encode
from tests.component.ledger.ledger_history import History, interleaved

HISTORY = History()
KINDS_OF_0_1_0 = {
    "controller_started", "controller_stopped", "offsets", "registered", "session_ended", "drain", "namespace_created",
    "topic_created", "ownership", "split", "topic_unload", "command_accepted", "command_rejected", "mode", "strategy",
    "override", "round", "guard", "alarm", "observed",
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    entries_module._note_unknown.cache_clear()


def row_of(kind: object, seq: int = 1) -> dict[str, object]:
    return {"seq": seq, "kind": kind, "instance": "i", "batch": 0, "at_ms": 5, "data": '{"what": [1, 2]}'}


def test_an_unknown_kind_keeps_its_name_and_all_it_says() -> None:
    entry = Entry.from_row(row_of("tide_turned"))
    assert isinstance(entry.kind, UnknownKind)
    assert entry.kind.value == "tide_turned"
    assert entry.data == {"what": [1, 2]}
    again = Entry.from_row(entry.to_row())
    assert again == entry
    assert json.loads(json.dumps(entry.to_row()))["kind"] == "tide_turned"


@pytest.mark.parametrize("kind", [None, "", 7, ["round"]])
def test_what_is_no_name_is_no_kind(kind: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Entry.from_row(row_of(kind))
    with pytest.raises(BadRecord, match="journal_feed"):
        parse_feed(json.dumps({"v": 1, "instance": "i", "entries": [row_of(kind)]}).encode())


def test_no_kind_is_written_that_agents_of_0_1_0_stop_at() -> None:
    """They raise at a kind that they do not know. What is new goes into `data` of a kind that they read.

    Rings, facts, orders and adoptions are of clusters with authority METADATA, which no agent of 0.1.0 can join. Plans
    are not written while one is alive (tests/unit/control/test_approvals.py).
    """
    newer = {"ring", "fact", "order", "order_ended", "adoption", "plan"}
    assert {kind.value for kind in Kind} == KINDS_OF_0_1_0 | newer


def test_known_kinds_are_what_they_were() -> None:
    assert all(kind_of(kind.value) is kind for kind in Kind)


def test_each_unknown_kind_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for seq in range(1, 50):
            Entry.from_row(row_of("tide_turned" if seq % 2 else "moon_rose", seq))
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "'tide_turned', which is unknown to this version" in told[0]


def test_the_fold_counts_them_and_is_otherwise_the_same() -> None:
    newer = interleaved(HISTORY.entries, UnknownKind("tide_turned"))
    state = fold(ClusterState(), newer)
    assert state == fold(ClusterState(), interleaved(HISTORY.entries, Kind.ALARM)), "an alarm changes nothing"
    assert state.seq == newer[-1].seq > len(HISTORY.entries) + 5
    assert state.bundles.keys() == HISTORY.state.bundles.keys()
    assert decode(encode(state)) == state


def test_a_gap_is_a_gap_whatever_the_kind() -> None:
    with pytest.raises(InvariantBroken, match="does not follow"):
        fold(ClusterState(), [Entry.from_row(row_of("tide_turned", 2))])


def test_the_feed_carries_them() -> None:
    feed = parse_feed(json.dumps({"v": 1, "instance": "i", "entries": [row_of("tide_turned", 4)]}).encode())
    assert (feed.seq, feed.entries[0].kind) == (4, "tide_turned")


def test_a_snapshot_of_a_newer_version_is_read_without_what_it_has_more() -> None:
    document = json.loads(encode(HISTORY.state))
    document["tides"] = {"high": 3}
    for row in document["bundles"].values():
        row["tide"] = "low"
    assert decode(json.dumps(document)) == HISTORY.state
