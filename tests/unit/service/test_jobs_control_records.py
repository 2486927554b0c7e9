"""Rows of a batch: order, what was applied before, what breaks a rule, what is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.bus.topics import TopicNames
from controller.domain.events import Command, Heartbeat, Tick
from controller.service.records import Gap, Row, merge_offsets, parse_rows, parsers

NAMES = TopicNames("t.")
PARSERS = parsers(NAMES)


def heartbeat(offset: int, broker: str = "b1:80", partition: int = 0, **more: Any) -> Row:
    record = {"v": 1, "broker": broker, "incarnation": 1, "nonce": "abc", "session": 1, "applied_seq": 0, **more}
    return Row(NAMES.heartbeats, partition, offset, 1_000, json.dumps(record).encode())


def command(offset: int, raw: bytes | None = None) -> Row:
    record = {"v": 1, "id": f"c{offset}", "kind": "round_now"}
    return Row(NAMES.commands, 0, offset, 1_000, raw if raw is not None else json.dumps(record).encode())


def test_events_come_in_the_order_of_topic_partition_offset() -> None:
    rows = [heartbeat(1, "b2:80"), command(7), heartbeat(0, "b1:80"), command(6)]
    found = parse_rows(rows, {}, PARSERS)
    seen = [e.id if isinstance(e, Command) else e.session.broker for e in found.events if not isinstance(e, Tick)]  # type: ignore[union-attr]
    assert seen == ["c6", "c7", "b1:80", "b2:80"]
    assert found.offsets == {NAMES.heartbeats: {"0": 2}, NAMES.commands: {"0": 8}}


def test_records_below_the_journaled_offset_are_dropped() -> None:
    found = parse_rows([command(3), command(4), command(5)], {NAMES.commands: {"0": 5}}, PARSERS)
    assert [e.id for e in found.events if isinstance(e, Command)] == ["c5"]
    assert (found.dropped, found.gaps) == (2, [])


def test_a_batch_of_old_records_moves_no_offset() -> None:
    found = parse_rows([command(3)], {NAMES.commands: {"0": 5}}, PARSERS)
    assert (found.events, found.offsets, found.dropped) == ([], {}, 1)


def test_records_that_vanished_from_kafka_are_told() -> None:
    found = parse_rows([command(9), command(12)], {NAMES.commands: {"0": 5}}, PARSERS)
    assert found.gaps == [Gap(NAMES.commands, 0, 5, 9), Gap(NAMES.commands, 0, 10, 12)]
    assert len(found.events) == 2


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "not_json"),
        (b"[1]", "not_object"),
        (b'{"v":2,"id":"a","kind":"mode"}', "version"),
        (b'{"v":1,"id":"","kind":"mode"}', "field_id"),
        (b'{"v":1,"id":"a","kind":"mode","why":"\\ud800"}', "not_unicode"),
        (b"[" * 100_000, "not_json"),
        (b'{"v":1,"id":"a","kind":"mode","args":[1]}', "command_args"),
    ],
)
def test_a_hostile_record_is_quarantined_and_its_neighbours_are_read(raw: bytes, rule: str) -> None:
    found = parse_rows([command(0), command(1, raw), command(2)], {}, PARSERS)
    assert [(bad.row.offset, bad.rule_id) for bad in found.bad] == [(1, rule)]
    assert [e.id for e in found.events if isinstance(e, Command)] == ["c0", "c2"]
    assert found.offsets == {NAMES.commands: {"0": 3}}


def test_text_beyond_ascii_is_no_fault() -> None:
    raw = b'{"v":1,"id":"a","kind":"mode","why":"\\u00e4 \\ud83d\\ude00"}'
    found = parse_rows([command(0, raw)], {}, PARSERS)
    assert [e.why for e in found.events if isinstance(e, Command)] == ["ä 😀"]


def test_partitions_count_for_themselves() -> None:
    found = parse_rows([heartbeat(5, partition=1), heartbeat(2)], {NAMES.heartbeats: {"1": 5}}, PARSERS)
    assert found.offsets == {NAMES.heartbeats: {"0": 3, "1": 6}}
    assert [e.session.broker for e in found.events if isinstance(e, Heartbeat)] == ["b1:80", "b1:80"]


def test_merged_offsets_keep_what_did_not_move() -> None:
    applied = {"a": {"0": 1, "1": 5}, "b": {"0": 2}}
    assert merge_offsets(applied, {"a": {"0": 9}}) == {"a": {"0": 9, "1": 5}, "b": {"0": 2}}
    assert applied["a"]["0"] == 1
