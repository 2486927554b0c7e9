"""Heartbeats, ticks, broker events, assign requests and commands, from the bytes on Kafka to events of the step."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.bus.producer import to_json
from controller.bus.topics import TopicNames
from controller.domain.errors import BadRecord
from controller.domain.events import (
    MAX_CONTROL_BYTES,
    AssignRequest,
    BrokerEvent,
    Command,
    Event,
    Heartbeat,
    Tick,
    parse_assign_request,
    parse_broker_event,
    parse_command,
    parse_heartbeat,
)
from controller.domain.ids import Session
from controller.service.control_quarantine import quarantine_row
from controller.service.records import Row, parse_rows, parsers
from schemas.arrow import arrow_table
from schemas.load_tables import QUARANTINE
from tests.fuzz.hostile import records
from tests.fuzz.limits import bounded, check_error, fuzzing, read_or_refuse

NAMES = TopicNames("t.")
BUNDLE = "t/n/0x00000000_0xffffffff"
WHO = {"v": 1, "broker": "a:1", "incarnation": 3, "nonce": "n1", "session": 2, "applied_seq": 7, "sent_ms": 5}
INFO = {"runtime": "reference", "can_fence": True, "version": "4.0.8", "lookup_url": "http://a:2",
"data_address": "a:3",
        "capacity": {"cpu_pct": 200.0, "bandwidth_in": 1e9}, "pid": 12}  # fmt: skip
HEARTBEATS = [
    {**WHO, "info": INFO, "journal_id": "j1"},
    {**WHO, "info": {}, "journal_id": ""},
    {"v": 1, "kind": "tick", "instance": "i1", "seq": 9, "journal_id": "j1", "boot_ms": 77, "sent_ms": 5},
]
EVENTS = [
    *({**WHO, "kind": k, "bundle": BUNDLE, "epoch": 4, "reason": "r"} for k in ("accepted", "released", "serving")),
    {**WHO, "kind": "split_done", "bundle": BUNDLE, "epoch": 4, "data": {"lower_load": 1.5, "best_boundary": 9}},
    {**WHO, "kind": "split_proposed", "bundle": BUNDLE, "epoch": 4, "boundary": 2**31, "reason": "topics"},
    {**WHO, "kind": "inventory", "serving": {BUNDLE: 4, "t/m/0x00000000_0x80000000": 5}},
    {**WHO, "kind": "fact", "data": {"key": "leader", "value": {"broker": "a:1"}}},
    {**WHO, "kind": "goodbye"},
]
REQUESTS = [{"v": 1, "broker": "a:1", "bundle": BUNDLE, "sent_ms": 5}]
COMMANDS = [
    {"v": 1, "id": "c1", "kind": "unload_bundle", "args": {"bundle": BUNDLE, "to": "b:1"}, "who": "m", "why": "w"},
    {"v": 1, "id": "c2", "kind": "create_namespace", "args": {"namespace": "t/n", "bundles": 4}, "journal_id": "j1"},
    {"v": 1, "id": "c3", "kind": "override", "args": {"override": "freeze", "bundle": BUNDLE, "until_ms": 9}},
]
KINDS = [
    (NAMES.heartbeats, HEARTBEATS),
    (NAMES.broker_events, EVENTS),
    (NAMES.assign_requests, REQUESTS),
    (NAMES.commands, COMMANDS),
]
FUZZ = fuzzing(32, 15_000)


def document_of(event: Event) -> dict[str, Any]:
    """A record that says what the event says."""
    if isinstance(event, Tick):
        return {"v": 1, "kind": "tick", "instance": event.instance, "seq": event.seq, "journal_id": event.journal_id,
                "boot_ms": event.boot_ms}  # fmt: skip
    if isinstance(event, AssignRequest):
        return {"v": 1, "broker": event.broker, "bundle": str(event.bundle)}
    if isinstance(event, Command):
        return {"v": 1, "id": event.id, "kind": event.kind, "args": event.args, "who": event.who, "why": event.why,
                "journal_id": event.journal_id}  # fmt: skip
    assert isinstance(event, Heartbeat | BrokerEvent)
    session = event.session
    who = {"v": 1, "broker": session.broker, "incarnation": session.incarnation, "nonce": session.nonce,
           "session": session.number, "applied_seq": event.applied_seq}  # fmt: skip
    if isinstance(event, Heartbeat):
        return {**who, "info": event.info, "journal_id": event.journal_id}
    bundle = str(event.bundle) if event.bundle is not None else None
    return {**who, "kind": event.kind, "bundle": bundle, "epoch": event.epoch, "boundary": event.boundary,
            "reason": event.reason, "serving": event.serving, "data": event.data}  # fmt: skip


def check(parse: Callable[[bytes], Event], raw: bytes) -> None:
    """It is refused by a rule, or read, and then says the same when it is written again."""
    event = read_or_refuse(parse, raw, BadRecord, len(raw))
    if event is not None:
        assert parse(to_json(document_of(event))) == event


@FUZZ
@given(records(HEARTBEATS))
def test_heartbeats_and_ticks(raw: bytes) -> None:
    check(parse_heartbeat, raw)


@FUZZ
@given(records(EVENTS))
def test_broker_events(raw: bytes) -> None:
    check(parse_broker_event, raw)


@FUZZ
@given(records(REQUESTS))
def test_assign_requests(raw: bytes) -> None:
    check(parse_assign_request, raw)


@FUZZ
@given(records(COMMANDS))
def test_commands(raw: bytes) -> None:
    check(parse_command, raw)


@st.composite
def batches(draw: st.DrawFn) -> list[Row]:
    """Hostile records at even offsets, an honest one behind each."""
    rows = []
    for number in range(draw(st.integers(1, 6))):
        topic, valid = KINDS[draw(st.integers(0, 3))]
        key = draw(st.sampled_from([None, "a:1", "other:1", "\ud800", "k" * 5_000]))
        value = None if draw(st.integers(0, 9)) == 0 else draw(records(valid))
        rows += [Row(topic, 0, 2 * number, 5, value, key)]
        rows += [Row(topic, 0, 2 * number + 1, 5, json.dumps(valid[0]).encode(), "a:1")]
    return rows


@fuzzing(16, 6_000)
@given(batches())
def test_each_record_of_a_batch_becomes_an_event_or_a_row_of_quarantine(rows: list[Row]) -> None:
    with bounded(sum(len(row.value or b"") + len(row.key or "") for row in rows)):
        parsed = parse_rows(rows, {}, parsers(NAMES))
    assert len(parsed.events) + len(parsed.bad) == len(rows)
    assert not any(bad.row.offset % 2 for bad in parsed.bad)
    for bad in parsed.bad:
        assert bad.rule_id != "parser_failed", bad.text
        check_error(bad.text)
    arrow_table(QUARANTINE, [quarantine_row(bad, 1, 1) for bad in parsed.bad])


def test_a_key_that_stands_twice_among_a_hundred_thousand_is_found_at_once() -> None:
    """Every key was counted among all of them, which held the controller up for five minutes."""
    keys = ",".join(f'"{n}":1' for n in [*range(99_000), 98_999])
    raw = f'{{"v":1,"serving":{{{keys}}}}}'.encode()
    assert len(raw) < MAX_CONTROL_BYTES
    assert read_or_refuse(parse_broker_event, raw, BadRecord, len(raw)) is None


@pytest.mark.parametrize(
    "name", [f"t/{'n' * 900_000}/0x00000000_0xffffffff", f"{BUNDLE}\n", "t\x00/n/0x00000000_0xffffffff"]
)
def test_an_inventory_names_bundles_as_an_event_does(name: str) -> None:
    """A long name stayed in the cache of parsed names, which keeps 200,000 of them; a line break was cut off."""
    raw = to_json({**WHO, "kind": "inventory", "serving": {name: 1}})
    with pytest.raises(BadRecord) as refused:
        parse_broker_event(raw)
    check_error(refused.value)


def test_a_bundle_is_spelled_as_in_the_journal_however_the_inventory_spells_it() -> None:
    """Under another name it counted as missing, and the bundle was taken from its owner."""
    raw = to_json({**WHO, "kind": "inventory", "serving": {"t/n/0x00000000_0xFFFFFFFF": 1}})
    assert parse_broker_event(raw).serving == {BUNDLE: 1}
    twice = to_json({**WHO, "kind": "inventory", "serving": {BUNDLE: 1, "t/n/0x00000000_0xFFFFFFFF": 2}})
    with pytest.raises(BadRecord, match="listed twice"):
        parse_broker_event(twice)


def test_what_people_are_told_controls_no_terminal() -> None:
    raw = to_json({**COMMANDS[0], "why": "a\x1b[2Jb\nc"})
    assert parse_command(raw).why == "a [2Jb c"


@pytest.mark.parametrize(
    "text", ["a:1#\u00b2.n.1", "a:1#1.n.\u0663", f"a:1#{'9' * 5_000}.n.1", "a:1#1.n.1\n", "x" * 9_000]
)
def test_a_session_is_parsed_or_refused(text: str) -> None:
    """Digits of other scripts, and thousands of digits, were a ValueError."""
    with pytest.raises(BadRecord) as refused:
        Session.parse(text)
    check_error(refused.value)
