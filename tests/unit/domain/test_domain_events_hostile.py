"""Control records that no honest sender writes, and the rule by which each is refused.

Several of these once passed the parser and stopped a later stage instead, at each start again: text that is no
Unicode breaks the journal's commit, a number beyond all numbers the feed, deep nesting whoever writes it down.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.domain.errors import BadRecord
from controller.domain.events import (
    MAX_CONTROL_BYTES,
    MAX_SMALL_BYTES,
    parse_assign_request,
    parse_broker_event,
    parse_command,
    parse_heartbeat,
)
from controller.domain.strict_json import MAX_DEPTH

SESSION = {"v": 1, "broker": "a:1", "incarnation": 1, "nonce": "n1", "session": 1, "applied_seq": 0}
COMMAND = {"v": 1, "id": "c1", "kind": "mode", "args": {"mode": "live"}}
BUNDLE = "t/n/0x00000000_0xffffffff"


def command(**more: Any) -> bytes:
    return json.dumps({**COMMAND, **more}).encode()


def rule_of(parse: Any, raw: bytes) -> str:
    with pytest.raises(BadRecord) as refused:
        parse(raw)
    return refused.value.rule_id


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_half_a_surrogate_pair_written_as_an_escape_is_refused() -> None:
    assert rule_of(parse_command, command(why="\ud800")) == "not_unicode"
    assert rule_of(parse_command, command(args={"\udfff": 1})) == "not_unicode"
    assert rule_of(parse_heartbeat, json.dumps({**SESSION, "info": {"x": ["\ud800"]}}).encode()) == "not_unicode"


def test_half_a_surrogate_pair_written_as_bytes_is_refused() -> None:
    raw = json.dumps({**COMMAND, "why": "\ud800"}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert rule_of(parse_command, raw) == "not_json"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1"])
def test_only_utf_8_is_read(encoding: str) -> None:
    """JSON in UTF-16 hid its escapes from a search for them."""
    text = json.dumps({**COMMAND, "why": "ä"}, ensure_ascii=False)
    assert rule_of(parse_command, text.encode(encoding)) == "not_json"
    assert parse_command(text.encode()).why == "ä"


@pytest.mark.parametrize("number", ["1e999", "-1e400", "NaN", "Infinity", "1" * 5_000])
def test_a_number_beyond_all_numbers_is_refused_wherever_it_stands(number: str) -> None:
    raw = command(args={"mode": "live", "x": "N"}).replace(b'"N"', number.encode())
    assert rule_of(parse_command, raw) == "not_json"


def test_nesting_is_refused_before_a_writer_runs_out_of_stack() -> None:
    assert parse_command(command(args={"x": nested(MAX_DEPTH - 2)})).args
    assert rule_of(parse_command, command(args={"x": nested(MAX_DEPTH - 1)})) == "too_deep"
    assert rule_of(parse_command, command(args={"x": nested(400)})) == "too_deep"
    assert rule_of(parse_command, b'{"v":1,"x":' * 10_000) == "not_json"


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert parse_command(command(args={"x": [{} for _ in range(1_000)]})).id == "c1"


@pytest.mark.parametrize(
    "raw",
    [
        b'{"v":2,"v":1,"id":"c1","kind":"mode"}',
        b'{"v":1,"id":"c1","kind":"mode","id":"c2"}',
        b'{"v":1,"id":"c1","kind":"mode","args":{"mode":"paused","mode":"live"}}',
    ],
)
def test_a_key_that_stands_twice_is_refused(raw: bytes) -> None:
    assert rule_of(parse_command, raw) == "duplicate_key"


def test_a_record_larger_than_its_kind_needs_is_refused_unread() -> None:
    ten_megabytes = b'{"v":1,"x":"' + b"x" * 10_000_000 + b'"}'
    parsers = (parse_heartbeat, parse_broker_event, parse_assign_request, parse_command)
    assert {rule_of(parse, ten_megabytes) for parse in parsers} == {"too_large"}
    assert rule_of(parse_command, command(why="x" * MAX_SMALL_BYTES)) == "too_large"
    assert rule_of(parse_heartbeat, json.dumps({**SESSION, "info": {"x": "x" * MAX_SMALL_BYTES}}).encode())
    big = {f"t/n{i}/0x00000000_0xffffffff": 1 for i in range(20_000)}
    inventory = json.dumps({**SESSION, "kind": "inventory", "serving": big}, separators=(",", ":")).encode()
    assert MAX_SMALL_BYTES < len(inventory) < MAX_CONTROL_BYTES
    assert len(parse_broker_event(inventory).serving) == 20_000, "an inventory may be large"


@pytest.mark.parametrize("value", [2**53, 10**4_000, -1, 1.5, 1e300, True, "1", None, [1]])
@pytest.mark.parametrize("field", ["incarnation", "session", "applied_seq"])
def test_a_number_that_counts_must_be_a_small_whole_one(field: str, value: Any) -> None:
    assert rule_of(parse_heartbeat, json.dumps({**SESSION, field: value}).encode()) == f"field_{field}"


def test_an_epoch_beyond_any_journal_is_refused() -> None:
    event = {**SESSION, "kind": "serving", "bundle": BUNDLE, "epoch": 10**30}
    assert rule_of(parse_broker_event, json.dumps(event).encode()) == "field_epoch"
    event = {**SESSION, "kind": "inventory", "serving": {BUNDLE: 10**30}}
    assert rule_of(parse_broker_event, json.dumps(event).encode()) == "event_serving"


def test_a_record_of_another_topic_is_refused() -> None:
    beat, order = json.dumps(SESSION).encode(), command()
    assert rule_of(parse_command, beat) == "field_id"
    assert rule_of(parse_assign_request, beat) == "field_bundle"
    assert rule_of(parse_broker_event, beat) == "event_kind"
    assert rule_of(parse_heartbeat, order) == "field_nonce"
