"""What records on Kafka tell a repair of the journal."""

from __future__ import annotations

import json

from controller.domain.entries import Entry, Kind
from controller.service.repair_checks import Told

OURS = "ours"


def feed(journal_id: str | None, *entries: Entry, seq: int | None = None) -> bytes:
    record = {"v": 1, "instance": "c1", "entries": [e.to_row() for e in entries], "seq": seq, "journal_id": journal_id}
    return json.dumps(record).encode()


def heartbeat(journal_id: str | None, applied_seq: int) -> bytes:
    record = {"v": 1, "broker": "b1:8080", "incarnation": 1, "nonce": "n", "session": 1, "applied_seq": applied_seq}
    return json.dumps(record | {"journal_id": journal_id}).encode()


def tick(journal_id: str | None, seq: int) -> bytes:
    return json.dumps({"v": 1, "kind": "tick", "instance": "c1", "seq": seq, "journal_id": journal_id}).encode()


def entry(seq: int, instance: str = "c1") -> Entry:
    return Entry(seq, Kind.ALARM, instance, seq, 0, reason="x", data={"n": seq})


def told(*feeds: bytes, beats: tuple[bytes, ...] = ()) -> Told:
    result = Told(OURS)
    for record in feeds:
        result.note_feed(record)
    for record in beats:
        result.note_heartbeat(record)
    return result


def test_entries_come_from_the_feed_of_this_journal_alone() -> None:
    heard = told(feed(OURS, entry(1), entry(2)), feed("other", entry(3)), feed(None, entry(4)), feed(OURS, seq=2)).heard
    assert heard.entries == {1: entry(1), 2: entry(2)}
    assert (heard.newest_seq, heard.newest_from) == (2, "the journal feed")


def test_the_newest_seq_is_whoever_names_it() -> None:
    assert told(feed(OURS, entry(1)), feed(OURS, seq=7)).heard.newest_seq == 7
    by_agent = told(feed(OURS, entry(1)), beats=(heartbeat(OURS, 9), heartbeat("other", 99), heartbeat(None, 99))).heard
    assert (by_agent.newest_seq, by_agent.newest_from) == (9, "the agent of b1:8080")
    by_tick = told(beats=(tick(OURS, 11), tick("other", 99))).heard
    assert (by_tick.newest_seq, by_tick.newest_from) == (11, "controller c1")


def test_an_entry_told_in_two_ways_is_not_used() -> None:
    heard = told(feed(OURS, entry(1), entry(2)), feed(OURS, entry(2, "c2"))).heard
    assert heard.entries == {1: entry(1)}
    assert heard.contradictory == {2}
    assert told(feed(OURS, entry(1)), feed(OURS, entry(1))).heard.contradictory == frozenset()


def test_what_is_no_record_tells_nothing() -> None:
    heard = told(b"", b"{}", b"not json", beats=(b"", b"[]")).heard
    assert (heard.entries, heard.newest_seq) == ({}, 0)
