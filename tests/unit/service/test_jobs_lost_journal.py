"""What is still known of a journal whose tables are gone, and who must be gone before its topics are taken over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.brokers.reference.store.fences import Fence
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ConfigError
from controller.domain.state import ClusterState
from controller.service.lost_journal import LISTED, LostJournal
from controller.service.new_journal import Living, check_unused, describe_living, parse_living

WHO = {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n", "session": 1, "applied_seq": 0}
WHOLE = "t/n/0x00000000_0xffffffff"


def raw(**fields: Any) -> bytes:
    return json.dumps({"v": 1, **fields}).encode()


def event(**fields: Any) -> bytes:
    return raw(**WHO | fields)


def entry(kind: Kind, **fields: Any) -> dict[str, Any]:
    return Entry(1, kind, "i", 0, 0, **fields).to_row()


def test_epochs_begin_above_every_fence_inventory_answer_and_entry() -> None:
    lost = LostJournal()
    seen = []
    for say in (
        lambda: lost.note_fences([Fence("t/n", 0, 2**31, 3, "b:1.n", 1), Fence("t/n", 2**31, 2**32, 2, "b:2.n", 2)]),
        lambda: lost.note_event(event(kind="inventory", serving={WHOLE: 4})),
        lambda: lost.note_event(event(kind="serving", bundle=WHOLE, epoch=6)),
        lambda: lost.note_event(event(kind="serving", bundle=WHOLE, epoch=5)),
        lambda: lost.note_feed(raw(instance="i", entries=[entry(Kind.OWNERSHIP, bundle=WHOLE, state="free", epoch=8)])),
        lambda: lost.note_feed(
            raw(instance="i", entries=[entry(Kind.SPLIT, bundle=WHOLE, data={"children": {WHOLE: 9}})])
        ),
    ):
        say()
        seen.append(lost.epoch)
    assert seen == [3, 4, 6, 6, 8, 9]


def test_what_was_lost_is_listed_with_who_says_so_and_how_to_make_it_again() -> None:
    lost = LostJournal()
    lost.note_fences([Fence("shop/a", 0, 2**31, 3, "b:1.n", 1), Fence("shop/a", 2**31, 2**32, 2, "b:2.n", 2)])
    lost.note_topics(["persistent://shop/a/x-partition-2", "persistent://shop/a/made-by-clients", "no topic"])
    lost.note_command(raw(id="1", kind="create_namespace", args={"namespace": "shop/b", "bundles": 16}))
    lost.note_command(raw(id="2", kind="create_topic", args={"topic": "persistent://shop/a/x", "partitions": 4}))
    lost.note_feed(
        raw(
            instance="i",
            entries=[
                entry(Kind.NAMESPACE_CREATED, data={"namespace": "shop/c", "bundles": ["x", "y"]}),
                entry(Kind.TOPIC_CREATED, data={"topic": "persistent://shop/c/y", "partitions": 0}),
            ],
        )
    )
    assert list(lost.lines()) == [
        "lost: namespace shop/a, 2 bundles (store): ballast namespace create shop/a --bundles 2",
        "lost: namespace shop/b, 16 bundles (commands): ballast namespace create shop/b --bundles 16",
        "lost: namespace shop/c, 2 bundles (journal feed): ballast namespace create shop/c --bundles 2",
        "lost: topic persistent://shop/a/x, 4 partitions (commands, store): "
        "ballast topic create persistent://shop/a/x --partitions 4",
        "lost: topic persistent://shop/c/y (journal feed): ballast topic create persistent://shop/c/y",
    ]


def test_a_long_list_is_cut_and_counted() -> None:
    lost = LostJournal()
    lost.note_fences([Fence(f"t/n{n:04}", 0, 2**32, 1, "b", n) for n in range(LISTED + 7)])
    lines = list(lost.lines())
    assert len(lines) == LISTED + 1
    assert lines[-1] == "lost: 7 more namespaces"
    assert list(LostJournal().lines()) == ["lost: neither the store nor Kafka knows of a namespace"]


def test_records_that_say_nothing_are_stepped_over() -> None:
    lost = LostJournal()
    for value in (None, b"", b"{", b"[]", b'{"v": 1}', raw(entries=[7]), raw(entries=[{"data": "{"}])):
        for note in (lost.note_heartbeat, lost.note_event, lost.note_feed, lost.note_command):
            note(value)
    assert lost == LostJournal()


def test_where_a_runtime_cannot_tell_its_epochs_it_is_refused() -> None:
    lost = LostJournal()
    lost.note_heartbeat(event(info={"runtime": "reference", "can_fence": True}))
    lost.check_epochs_known()
    lost.note_event(event(kind="observed", serving={WHOLE: 1}))
    with pytest.raises(ConfigError, match=r"b:1 \(pulsar\)"):
        lost.check_epochs_known()
    other = LostJournal()
    other.note_heartbeat(event(info={"runtime": "pulsar"}))
    with pytest.raises(ConfigError, match="it is unknown which epochs"):
        other.check_epochs_known()


def test_who_speaks_for_another_journal_must_be_gone() -> None:
    assert parse_living(event(journal_id="j1"), "mine") == Living("b:1", "journal j1")
    assert parse_living(event(), "mine") == Living("b:1", "of an older version")
    assert parse_living(raw(kind="tick", instance="i", seq=1, journal_id="j1"), "mine") == Living("i", "journal j1")
    for quiet in (event(journal_id=""), event(journal_id="mine"), b"{", b"[]"):
        assert parse_living(quiet, "mine") is None


def test_tables_that_hold_more_than_a_beginning_are_not_taken_for_wiped_ones() -> None:
    check_unused(ClusterState(), "/t")
    check_unused(ClusterState(seq=4, journal_id="j", kafka={"cluster_id": "k"}), "/t")
    with pytest.raises(ConfigError, match="those at /t hold a journal of 9 entries"):
        check_unused(ClusterState(seq=9, commands={"c1": "accepted"}), "/t")


def test_who_is_still_alive_is_told_in_the_right_number() -> None:
    one, two = Living("b1:80", "journal j"), Living("b2:80", "of an older version")
    assert describe_living({one}) == (
        "--new-journal: one of the other journal is alive: b1:80 (journal j). Stop it first: what it serves would be "
        "given to others as well"
    )
    assert describe_living({two, one}).startswith(
        "--new-journal: 2 of the other journal are alive: b1:80 (journal j), b2:80 (of an older version). Stop them"
    )
