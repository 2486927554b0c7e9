"""The journal feed as an agent reads it, and as a new journal gathers what it still tells of a lost one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given

from controller.agent.feed import parse_feed
from controller.agent.feed_health import FeedHealth
from controller.agent.metrics import AgentMetrics
from controller.agent.watcher import Watcher
from controller.bus.producer import to_json
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import BadRecord
from controller.domain.state import ClusterState
from controller.service.lost_journal import LostJournal
from schemas.arrow import arrow_table
from schemas.journal import JOURNAL
from tests.component.test_agent_watcher import FEED, NoKafka, Said
from tests.fuzz.hostile import records
from tests.fuzz.limits import bounded, fuzzing, read_or_refuse
from tests.fuzz.test_control_records import COMMANDS, EVENTS

WHOLE = "t/n/0x00000000_0xffffffff"
SESSION = "a:1#1.n1.1"
ENTRIES = [
    Entry(1, Kind.CONTROLLER_STARTED, "one", 0, 5, data={"journal_id": "j1", "epoch_floor": 1}),
    Entry(2, Kind.REGISTERED, "one", 1, 5, broker="a:1", session=SESSION, data={"info": {"lookup_url": "http://a:2"}}),
    Entry(3, Kind.NAMESPACE_CREATED, "one", 2, 5, data={"namespace": "t/n", "bundles": [WHOLE]}),
    Entry(4, Kind.OWNERSHIP, "one", 3, 5, bundle=WHOLE, state="assigning", epoch=2, to=SESSION, data={}),
    Entry(5, Kind.OFFSETS, "one", 3, 5, data={"cluster_id": "k", "topics": {"t.commands": {"0": 7}}}),
    Entry(6, Kind.OWNERSHIP, "one", 4, 5, bundle=WHOLE, state="owned", epoch=2, by=SESSION, data={"ever_owned": True}),
    Entry(7, Kind.MODE, "one", -1, 5, command_id="c1", data={"mode": "live"}),
]
ROWS = [entry.to_row() for entry in ENTRIES]
HONEST = {"v": 1, "instance": "one", "journal_id": "j1", "engine": {"spark": "4.0.0", "cores": 2}}
FEEDS: list[dict[str, Any]] = [
    {**HONEST, "entries": ROWS},
    {**HONEST, "entries": ROWS[3:]},
    {**HONEST, "entries": [{**ROWS[6], "seq": 9, "data": {"mode": "live"}}]},
    {**HONEST, "seq": 7},
]


@fuzzing(24, 12_000)
@given(records(FEEDS))
def test_a_record_is_read_or_refused(raw: bytes) -> None:
    feed = read_or_refuse(parse_feed, raw, BadRecord, len(raw))
    if feed is None:
        return
    rows = [entry.to_row() for entry in feed.entries]
    again = {"v": 1, "instance": feed.instance, "journal_id": feed.journal_id, "seq": feed.seq, "entries": rows}
    assert parse_feed(to_json(again)) == feed
    arrow_table(JOURNAL, rows)


def test_every_entry_of_a_controller_is_read() -> None:
    assert parse_feed(to_json(FEEDS[0])).entries == tuple(ENTRIES)


class Table:
    """The journal's table, whole."""

    place = "memory"

    def __init__(self) -> None:
        self.state = fold(ClusterState(), ENTRIES)

    def bootstrap(self) -> object:
        return self.state

    def offer(self, entries: Iterable[Entry]) -> object:
        return None

    def hear(self, seq: int) -> None: ...

    def catch_up(self) -> Iterable[Entry]:
        return ()


async def hears(raws: list[bytes]) -> tuple[ClusterState, list[BaseException]]:
    """What an agent that has read the table believes after these records and an honest one."""
    failures: list[BaseException] = []

    def told(*_: object) -> None: ...

    watcher = Watcher(
        Table(), FEED, poll_ms=5, health=FeedHealth(6_000, 0), on_applied=told, on_jump=lambda: None, on_event=told,
        on_failure=failures.append, boot_ms=lambda: 1_000, metrics=AgentMetrics(),
    )  # fmt: skip
    await watcher.start(NoKafka())
    try:
        honest = to_json({**HONEST, "seq": len(ENTRIES)})
        with bounded(sum(map(len, raws))):
            watcher.take([Said(FEED, raw) for raw in [*raws, honest]])
            await asyncio.sleep(0)
        assert watcher.heard_journal_id == "j1"
        return watcher.state, failures
    finally:
        watcher.close()


@fuzzing(12, 12_000)
@given(records(FEEDS), records(FEEDS))
def test_an_agent_goes_on_whatever_the_feed_says(first: bytes, second: bytes) -> None:
    state, failures = asyncio.run(hears([first, second]))
    assert failures == []
    assert state.seq >= len(ENTRIES)


@fuzzing(16, 9_000)
@given(records([*FEEDS, *COMMANDS, *EVENTS]))
def test_what_is_left_of_a_lost_journal_is_gathered(raw: bytes) -> None:
    lost = LostJournal()
    with bounded(len(raw)):
        lost.note_feed(raw)
        for note in (lost.note_command, lost.note_event, lost.note_heartbeat):
            note(raw)
        lost.note_feed(to_json(FEEDS[0]))
        list(lost.lines())
    assert 2 <= lost.epoch < 2**53
    assert "t/n" in lost.namespaces
    assert all(line.isprintable() for line in lost.lines())


@pytest.mark.parametrize(
    "raw",
    [b"[" * 100_000, b'{"v":1,"seq":1e999}', b'{"v":1,"seq":NaN}', b'{"v":1,"seq":' + b"9" * 400 + b"}",
     b'{"v":1,"seq":1,"instance":"' + b"x" * 9_000 + b'"}', json.dumps({**HONEST, "entries": [{**ROWS[6],
     "seq": "8"}]}).encode(),
     json.dumps({**HONEST, "entries": [{**ROWS[6], "data": "[" * 50_000}]}).encode(),
     json.dumps({**HONEST, "entries": [{**ROWS[6], "data": "[1]"}]}).encode(),
     json.dumps({**HONEST, "entries": [{**ROWS[6], "kind": "k" * 9_000}]}).encode(), b""],
    ids=range(10),
)  # fmt: skip
@pytest.mark.parametrize("read", [parse_feed, lambda raw: LostJournal().note_feed(raw)], ids=["agent", "lost journal"])
def test_records_that_ended_the_reader(raw: bytes, read: Callable[[bytes], object]) -> None:
    """Nesting and infinity are no ValueError; a text as seq was compared with a number in the loop of the agent."""
    found = read_or_refuse(read, raw, BadRecord, len(raw))
    assert found is None


def test_an_epoch_beyond_all_epochs_is_not_taken_over() -> None:
    """The new journal would begin above it, where no number of its own is legal any more."""
    lost = LostJournal()
    for epoch in (2**53, 10**30, -1, "9", True, 2.5):
        lost.note_feed(to_json({**HONEST, "entries": [{**ROWS[5], "epoch": epoch}, ROWS[5]]}))
    assert lost.epoch == 2
