"""Whatever stands on the control topics: no exception, no change of ownership, and nothing that cannot be written down.

What a record may do that is well-formed and forged is stated here one by one. Who may write to the topics at all is
decided by Kafka's access rules; the controller checks what it can: the key, the session, the epoch, the journal.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.bus.producer import to_json
from controller.bus.topics import TopicNames
from controller.control.sessions import FURTHEST_SESSION, FURTHEST_STEP
from controller.domain.entries import Entry, Kind
from controller.domain.events import BrokerEvent, Heartbeat, Tick
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.domain.state_codec import decode, encode
from controller.service.records import Row, parse_rows, parsers
from schemas.arrow import arrow_table
from schemas.journal import JOURNAL
from tests.examples import examples
from tests.properties.fuzzed_records import rows
from tests.unit.control.step_driver import StepDriver

NAMES = TopicNames("t.")
PARSERS = parsers(NAMES)
WHOLE = Bundle("t/n", 0, 0xFFFFFFFF)


def owned() -> tuple[StepDriver, Session, Session]:
    driver = StepDriver()
    a, b = driver.join("a:1"), driver.join("b:1")
    driver.command("create_namespace", namespace="t/n", bundles=1)
    driver.own(a, WHOLE)
    return driver, a, b


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(found=rows(NAMES))
def test_fuzzed_records_are_quarantined_or_change_no_ownership_and_can_be_written_down(found: list[Row]) -> None:
    driver, _, _ = owned()
    before = driver.state
    parsed = parse_rows(found, {}, PARSERS)
    assert len(parsed.events) + len(parsed.bad) + parsed.dropped == len(found)
    assert all(bad.rule_id and bad.rule_id != "parser_failed" for bad in parsed.bad)
    entries = driver.run(*parsed.events)
    assert driver.state.bundles == before.bundles
    assert (driver.state.mode, driver.state.namespaces) == (before.mode, before.namespaces)
    assert {e.kind for e in entries} <= {
        Kind.REGISTERED, Kind.COMMAND_REJECTED, Kind.COMMAND_ACCEPTED, Kind.SESSION_ENDED, Kind.OBSERVED, Kind.DRAIN
    }  # fmt: skip
    arrow_table(JOURNAL, [entry.to_row() for entry in entries])
    to_json({"entries": [entry.to_row() for entry in entries]})
    assert [Entry.from_row(entry.to_row()) for entry in entries] == entries
    assert encode(decode(encode(driver.state))) == encode(driver.state)


def row(topic: str, key: str | None, **record: Any) -> Row:
    who = {"v": 1, "broker": "a:1", "incarnation": 1, "nonce": "n1", "session": 1, "applied_seq": 0}
    return Row(topic, 0, 0, 5, json.dumps({**who, **record}).encode(), key)


def test_a_record_whose_key_names_another_broker_is_quarantined() -> None:
    for topic, more in ((NAMES.heartbeats, {}), (NAMES.broker_events, {"kind": "goodbye"})):
        assert [bad.rule_id for bad in parse_rows([row(topic, "b:1", **more)], {}, PARSERS).bad] == ["key_mismatch"]
        assert not parse_rows([row(topic, "a:1", **more)], {}, PARSERS).bad
    tick = row(NAMES.heartbeats, "i", kind="tick", instance="i", seq=1)
    assert not parse_rows([tick], {}, PARSERS).bad


def test_a_wrong_nonce_speaks_for_nobody() -> None:
    driver, a, _ = owned()
    before = driver.state.bundles
    for kind in ("goodbye", "inventory", "leaving"):
        assert driver.run(BrokerEvent(kind, a._replace(nonce="forged"), driver.state.seq)) == []
    assert driver.run(Heartbeat(a._replace(nonce="forged"), 0)) == []
    assert driver.state.bundles == before


def test_records_of_ended_sessions_are_without_effect_however_often_they_are_replayed() -> None:
    driver, a, _ = owned()
    driver.say(a, "goodbye")
    del driver.sessions["a:1"]
    now_at_b = driver.of(WHOLE)
    replayed = [
        Heartbeat(a, 3),
        BrokerEvent("goodbye", a, 3),
        BrokerEvent("inventory", a, 3),
        BrokerEvent("serving", a, 3, WHOLE, now_at_b.epoch),
        BrokerEvent("released", a, 3, WHOLE, now_at_b.epoch),
    ]
    assert driver.run(*replayed, *replayed) == []
    assert driver.of(WHOLE) == now_at_b


def test_an_answer_at_a_forged_epoch_is_late_or_early_and_changes_nothing() -> None:
    driver, a, b = owned()
    record = driver.of(WHOLE)
    for who in (a, b):
        for kind in ("accepted", "serving", "released", "rejected", "fenced", "split_done"):
            for epoch in (0, record.epoch - 1, record.epoch + 1, 2**52):
                assert driver.run(BrokerEvent(kind, who, driver.state.seq, WHOLE, epoch)) == []


def test_an_answer_of_a_living_broker_that_nobody_asked_changes_nothing() -> None:
    driver, _, b = owned()
    for kind in ("accepted", "serving", "released", "rejected", "fenced", "split_done"):
        assert driver.say(b, kind, WHOLE) == []


def test_an_inventory_that_knows_more_than_was_journaled_takes_nothing_away() -> None:
    driver, a, _ = owned()
    assert driver.say(a, "inventory", applied_seq=2**52, serving={}) == []
    assert driver.of(WHOLE).state is State.OWNED
    assert driver.say(a, "inventory", serving={})[0].reason == "missing_from_inventory"


def test_a_heartbeat_that_knows_more_than_was_journaled_renews_and_does_not_hide_a_later_lag() -> None:
    driver, a, _ = owned()
    driver.run(Heartbeat(a, 2**52))
    assert driver.watch.applied[a] <= driver.state.seq


def test_forged_ticks_are_nothing_to_the_step() -> None:
    driver, _, _ = owned()
    before = driver.state
    assert driver.run(Tick("ghost", 2**40), Tick(before.instance, 2**40)) == []
    assert driver.state is before


def test_a_newer_incarnation_that_is_forged_registers_and_gets_nothing_of_the_living_one() -> None:
    """Whoever may write heartbeats may claim to be a new process. The real one still owns what it owned."""
    driver, a, _ = owned()
    entries = driver.run(Heartbeat(Session("a:1", 2, "forged", 1), 0))
    assert [e.kind for e in entries] == [Kind.REGISTERED]
    assert driver.of(WHOLE).by == a


@settings(max_examples=examples(30))
@given(step=st.integers(FURTHEST_STEP + 1, 2**53 - 2))
def test_an_incarnation_or_session_out_of_all_proportion_does_not_burn_those_to_come(step: int) -> None:
    """2**53 - 1 would have been the broker's last incarnation for ever: no larger one is a legal number."""
    driver, a, _ = owned()
    beyond = max(step, FURTHEST_SESSION + 1)
    forged = [a._replace(incarnation=a.incarnation + step, nonce="x"), a._replace(number=a.number + beyond)]
    forged.append(Session("new:1", step, "x", 1))
    assert driver.run(*(Heartbeat(s, 0) for s in forged)) == []
    assert driver.run(Heartbeat(a._replace(incarnation=2, nonce="y"), 0))[0].session == "a:1#2.y.1"
