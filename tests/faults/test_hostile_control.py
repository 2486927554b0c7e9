"""Hostile control records through the whole batch of the job, on real tables: parsed, decided, quarantined, committed.

What a record could break is often a later stage: a commit, the feed, the next start. So every batch is committed here,
the journal is read back, and another controller starts from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.bus.producer import to_json
from controller.domain.entries import Entry
from controller.domain.ids import Bundle, Session
from controller.domain.ownership import State
from controller.ledger.tables import TableRoot
from controller.service.records import Row
from tests.component.test_jobs_control_loop import NAMES, Ear, World, journal_of
from tests.examples import examples
from tests.properties.fuzzed_records import values

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

BUNDLE = Bundle("t/n", 0, 0xFFFFFFFF)
OWNER = {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n", "session": 1, "applied_seq": 0}


class Mouth(Ear):
    """A feed that makes each record's bytes, as the real one does."""

    def publish(self, entries: Sequence[Entry]) -> None:
        to_json({"entries": [entry.to_row() for entry in entries]})
        super().publish(entries)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A living broker that owns the one bundle."""
    world = World(tmp_path, feed=Mouth())
    world.run(world.heartbeat())
    world.run(world._row(NAMES.commands, {**_command("ns"), "args": {"namespace": "t/n", "bundles": 1}}))
    world.run(world._row(NAMES.assign_requests, {"v": 1, "broker": "b:1", "bundle": str(BUNDLE)}))
    epoch = world.loop.state.bundles[str(BUNDLE)].epoch
    world.run(world._row(NAMES.broker_events, {**OWNER, "kind": "serving", "bundle": str(BUNDLE), "epoch": epoch}))
    assert world.loop.state.bundles[str(BUNDLE)].state is State.OWNED
    return world


def test_fuzzed_batches_leave_ownership_alone_and_the_controller_running(world: World) -> None:
    before = world.loop.state.bundles
    sent = [0]

    @settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
    @given(batch=st.lists(st.tuples(st.sampled_from(NAMES.control), values()), min_size=1, max_size=20))
    def feed(batch: list[tuple[str, bytes]]) -> None:
        rows = [_raw(world, topic, value) for topic, value in batch]
        state = world.run(*rows, world.heartbeat())
        sent[0] += len(rows)
        assert state.bundles == before
        assert Session("b:1", 1, "n", 1) in state.sessions

    feed()
    assert journal_of(world) == world.loop.state
    quarantined = TableRoot(world.folder / "tables").open("quarantine").to_pyarrow_table().to_pylist()
    assert 0 < len(quarantined) < sent[0]
    assert all(row["rule"] and row["rule"] != "parser_failed" for row in quarantined)
    assert len({(row["topic"], row["kafka_offset"]) for row in quarantined}) == len(quarantined)
    successor = World(world.folder, instance="two", offset=world.offset, batch=world.batch, feed=Mouth())
    assert successor.loop.state.bundles == before


def test_what_no_writer_could_write_down_is_quarantined_and_the_next_controller_starts(world: World) -> None:
    """Each of these was parsed once, and stopped the commit or the feed of every controller that read it."""
    epoch = world.loop.state.bundles[str(BUNDLE)].epoch
    answer = {**OWNER, "kind": "rejected", "bundle": str(BUNDLE), "epoch": epoch, "reason": "\ud800"}
    hostile = [
        (NAMES.broker_events, json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass"), "not_json"),
        (NAMES.broker_events, json.dumps(answer).encode("utf-16"), "not_json"),
        (NAMES.broker_events, json.dumps(answer).encode(), "not_unicode"),
        (NAMES.commands, json.dumps(_command("a")).encode().replace(b'"x"', b"1e999"), "not_json"),
        (NAMES.commands, b'{"v":1,"id":"twice","id":"b","kind":"mode"}', "duplicate_key"),
        (NAMES.heartbeats, b'{"v":1,"x":"' + b"x" * 10_000_000 + b'"}', "too_large"),
    ]
    deep = [json.dumps(_command(f"d{n}")).encode().replace(b'"x"', b"[" * n + b"]" * n) for n in range(40, 1_000)]
    rows = [_raw(world, topic, value) for topic, value, _ in hostile]
    rows += [_raw(world, NAMES.commands, value) for value in deep]
    before = world.loop.state.bundles
    state = world.run(*rows, world.heartbeat())
    assert state.bundles == before
    assert list(state.commands) == ["ns"]
    found = TableRoot(world.folder / "tables").open("quarantine").to_pyarrow_table().to_pylist()
    rules = {row["kafka_offset"]: row["rule"] for row in found}
    assert [rules[row.offset] for row in rows[: len(hostile)]] == [rule for _, _, rule in hostile]
    assert {rules[row.offset] for row in rows[len(hostile) :]} <= {"too_deep", "not_json"}
    successor = World(world.folder, instance="two", offset=world.offset, batch=world.batch, feed=Mouth())
    assert successor.run(*rows).bundles == before, "read again, and dropped: the journal knows their offsets"


def _command(id: str) -> dict[str, Any]:
    return {"v": 1, "id": id, "kind": "create_namespace", "args": {"x": "x"}, "who": "mallory"}


def _raw(world: World, topic: str, value: bytes) -> Row:
    world.offset += 1
    return Row(topic, 0, world.offset, 5, value)
