"""The control batch without Spark and Kafka, on real tables: time, what is dropped, what a failure leaves behind."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.bus.topics import TopicNames
from controller.config.policy_values import control_settings
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.control.context import Evidence
from controller.control.watch import LAG_ALLOWANCE_MS, OVERDUE_MS, Watch
from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ForeignCommit, OutcomeUnknown
from controller.domain.events import RoundFinished
from controller.domain.ids import Session
from controller.domain.settings.policy import ControlSettings
from controller.domain.state import ClusterState
from controller.ledger.evidence import read_joined
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.store.room import NoRoom
from controller.ledger.tables import TableRoot
from controller.process import failpoints
from controller.service import loop as control_loop
from controller.service import tables as control_tables
from controller.service.feed import Feed
from controller.service.loop import OWNER_CHECK_MS, Claim, Clocks, ControlLoop, Stopping
from controller.service.metrics import ControlMetrics
from controller.service.records import Row
from controller.service.start import claim, first_entries
from controller.service.tables import ControlTables

NAMES = TopicNames("t.")
KAFKA = {"cluster_id": "k", "topic_ids": {}}


class Ear(Feed):
    """A feed that keeps what it would send."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.pokes = 0

    def publish(self, entries: Sequence[Entry]) -> None:
        self.sent += [entry.seq for entry in entries]

    def poke(self) -> None:
        self.pokes += 1


@dataclass
class World:
    """One controller on tables in a folder, with a clock that the test turns."""

    folder: Path
    instance: str = "one"
    now_ms: int = 1_000
    offset: int = 0
    batch: int = 0
    feed: Ear = field(default_factory=Ear)
    owner_checks: list[int] = field(default_factory=list)  # when it was looked whose topics these are
    lost: bool = False  # the topics were given to another journal
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        settings = Settings(tables=Tables(root=str(self.folder / "tables")))
        metrics = ControlMetrics(self.registry)
        self.tables = ControlTables(settings.tables.root, self.instance, settings, metrics, threading.Event())
        control = control_settings(settings)
        state = self.tables.load_state()
        state = claim(state, first_entries(state, self.instance, 5, control, KAFKA, "ours"), self.tables.commit)
        clocks = Clocks(lambda: self.now_ms, lambda: 5)
        held = Claim(self.instance, state, KAFKA)
        self.loop = ControlLoop(held, self.tables, self.feed, NAMES, control, clocks, metrics, self.check_owner)
        self.patience_ms = control.lease_ms + control.margin_ms
        self.lag_limit_entries = control.lag_limit_entries

    def check_owner(self) -> None:
        self.owner_checks.append(self.now_ms)
        if self.lost:
            raise ForeignCommit("these topics have been given to journal other")

    def heartbeat(self) -> Row:
        record = {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n", "session": 1, "applied_seq": 0}
        return self._row(NAMES.heartbeats, record)

    def tick(self) -> Row:
        return self._row(NAMES.heartbeats, {"v": 1, "kind": "tick", "instance": self.instance, "seq": 0})

    def command(self, id: str) -> Row:
        args = {"namespace": f"t/{id}", "bundles": 1}
        return self._row(NAMES.commands, {"v": 1, "id": id, "kind": "create_namespace", "args": args})

    def run(self, *rows: Row, read_at_ms: int | None = None, end_ms: int | None = None) -> ClusterState:
        """One batch whose rows are read at `read_at_ms` and that ends at `end_ms`."""

        def collect() -> list[Row]:
            self.now_ms = read_at_ms if read_at_ms is not None else self.now_ms
            return list(rows)

        clock = self.loop._clocks.boot_ms
        if end_ms is not None:
            ticks = iter([read_at_ms if read_at_ms is not None else self.now_ms, end_ms])
            self.loop._clocks.boot_ms = lambda: next(ticks)
        self.loop.process(collect, self.batch)
        self.loop._clocks.boot_ms = clock
        self.now_ms = end_ms if end_ms is not None else self.now_ms
        self.batch += 1
        return self.loop.state

    def _row(self, topic: str, record: dict[str, Any]) -> Row:
        self.offset += 1
        return Row(topic, 0, self.offset, 5, json.dumps(record).encode())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def journal_of(world: World) -> ClusterState:
    return Follower(world.folder / "tables").bootstrap()


@pytest.mark.covers("move-proposed-and-recorded")
def test_a_batch_is_journaled_and_fed(world: World) -> None:
    state = world.run(world.heartbeat(), world.command("c"))
    assert journal_of(world) == state
    assert list(state.namespaces) == ["t/c"]
    assert world.feed.sent == list(range(3, state.seq + 1))


def test_while_a_lease_is_about_to_end_one_batch_causes_the_next(world: World) -> None:
    """Found by `make chaos`: up to 0.8 s passed until the next record, and the next batch, noticed a dead broker."""
    world.run(world.heartbeat())
    heard_ms, lease_ms = world.now_ms, world.loop._settings.lease_ms
    poked = []
    for silent_ms in (lease_ms, lease_ms + 1, world.patience_ms, world.patience_ms + 1):
        before = world.feed.pokes
        world.now_ms = heard_ms + silent_ms
        world.run(world.tick())
        poked.append(world.feed.pokes - before)
    assert poked == [0, 1, 1, 1]
    world.run(world.tick())
    assert world.feed.pokes == 3, "the session has ended"
    assert not world.loop.state.sessions


def test_a_lease_that_the_breaker_keeps_does_not_cause_batches_for_ever() -> None:
    settings, session = ControlSettings(), Session("b", 1, "n", 1)
    watch = Watch(heard={session: 0})
    end_ms = settings.lease_ms + settings.margin_ms
    awaited = [watch.awaits_expiry(end_ms + more_ms, settings) for more_ms in (1, OVERDUE_MS, OVERDUE_MS + 1)]
    assert awaited == [True, True, False]


def test_a_stop_gives_up_a_batch_whose_rows_do_not_come(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from a Kafka that hangs: Spark's tasks wait for it for minutes."""
    monkeypatch.setattr("controller.service.loop.ROWS_WAIT_S", 0.05)
    before, asked, come = world.loop.state.seq, threading.Event(), threading.Event()
    ended: list[BaseException] = []

    def collect() -> list[Row]:
        asked.set()
        come.wait()
        return [world.command("late")]

    def run() -> None:
        try:
            world.loop.process(collect, 0)
        except BaseException as error:
            ended.append(error)

    batch = threading.Thread(target=run)
    batch.start()
    asked.wait()
    world.loop.stop()
    assert batch.is_alive()
    come.set()
    batch.join()
    assert [type(error) for error in ended] == [Stopping]
    assert world.loop.failure is None, "the controller has stopped cleanly"
    assert journal_of(world).seq == world.loop.state.seq == before, "the next start reads the rows again"


def test_a_quiet_batch_commits_nothing(world: World) -> None:
    before = world.run(world.heartbeat()).seq
    assert world.run(world.heartbeat(), world.tick()).seq == before


def test_rounds_hear_which_broker_has_not_read_the_journal(world: World) -> None:
    world.run(world.heartbeat(), world.tick())
    world.run(*(world.command(f"c{number}") for number in range(world.lag_limit_entries + 1)))
    assert world.loop.lagging == frozenset(), "what was committed a moment ago makes nobody a laggard"
    world.run(world.tick())
    world.now_ms += LAG_ALLOWANCE_MS + 1
    world.run(world.heartbeat())
    assert world.loop.lagging == {"b:1"}


def test_a_heartbeat_counts_from_its_reading(world: World) -> None:
    """Batch 2 is planned long after batch 1 ended; the beat that it reads came late in between."""
    world.run(world.tick(), end_ms=10_000)
    world.run(world.heartbeat(), read_at_ms=15_000, end_ms=15_100)
    world.run(world.tick(), read_at_ms=16_000, end_ms=20_000)
    state = world.run(world.tick(), end_ms=15_000 + world.patience_ms)
    state = world.run(world.tick(), end_ms=15_001 + world.patience_ms)
    assert len(state.sessions) == 1  # judged at exactly its end: not yet over
    assert world.run(world.tick()).sessions == {}


def test_a_lease_is_judged_by_the_end_of_the_batch_before(world: World) -> None:
    """The controller was paused for a minute with heartbeats waiting in Kafka: they are read before it judges."""
    world.run(world.heartbeat(), end_ms=1_100)
    world.now_ms = 61_000
    state = world.run(world.tick(), read_at_ms=61_000, end_ms=61_100)
    assert len(state.sessions) == 1
    assert len(world.run(world.heartbeat(), read_at_ms=61_200, end_ms=61_300).sessions) == 1
    assert len(world.run(world.tick(), read_at_ms=61_400, end_ms=61_500).sessions) == 1


def test_the_first_batch_ends_no_lease(tmp_path: Path) -> None:
    first = World(tmp_path)
    first.run(first.heartbeat())
    second = World(tmp_path, instance="two", offset=10)
    second.now_ms += 10 * second.patience_ms
    second.loop._now_ms = second.now_ms  # as if the start had taken minutes
    assert len(second.run(second.tick()).sessions) == 1
    for _ in range(4):  # nobody could be heard before the next one was read, so a lease begins then
        second.now_ms += second.patience_ms // 3
        assert len(second.run(second.tick()).sessions) == 1
    second.now_ms += second.patience_ms // 3
    second.run(second.tick())
    assert second.run(second.tick()).sessions == {}


def test_records_are_applied_once_across_a_restart(tmp_path: Path) -> None:
    first = World(tmp_path)
    rows = [first.command("a"), first.command("b")]
    first.run(rows[0])
    first.run(rows[1])
    second = World(tmp_path, instance="two", offset=10)
    state = second.run(*rows, second.command("c"))
    assert list(state.commands) == ["a", "b", "c"]
    assert set(state.commands.values()) == {"accepted"}
    kinds = [e.kind for e in Journal(tmp_path / "tables").read_since(0)]
    assert kinds.count(Kind.COMMAND_ACCEPTED) == 3


def test_the_loser_of_a_take_over_changes_nothing_and_ends(tmp_path: Path) -> None:
    old = World(tmp_path)
    old.run(old.command("a"))
    World(tmp_path, instance="two")
    before = old.loop.state
    with pytest.raises(ForeignCommit, match="two"):
        old.run(old.command("b"))
    assert isinstance(old.loop.failure, ForeignCommit)
    assert old.loop.state is before
    assert old.feed.sent[-1] == before.seq
    with pytest.raises(Stopping):
        old.run(old.tick())


def test_a_quiet_controller_hears_of_its_successor(tmp_path: Path) -> None:
    old = World(tmp_path)
    new = World(tmp_path, instance="two")
    old.run(old._row(NAMES.heartbeats, {"v": 1, "kind": "tick", "instance": "zero", "seq": 1}))  # of an earlier life
    with pytest.raises(ForeignCommit, match="controller two"):
        old.run(old._row(NAMES.heartbeats, {"v": 1, "kind": "tick", "instance": "two", "seq": new.loop.state.seq}))


def test_a_tick_that_the_journal_does_not_bear_out_stops_nobody(world: World) -> None:
    """The record would be read again at each start: believed, it would stop every controller to come."""
    forged = world._row(NAMES.heartbeats, {"v": 1, "kind": "tick", "instance": "ghost", "seq": 2**40})
    before = world.loop.state.seq
    state = world.run(forged, world.command("a"))
    assert state.commands == {"a": "accepted"}
    assert state.seq > before
    assert world.loop.failure is None


def test_after_the_stop_no_batch_is_read(world: World) -> None:
    world.loop.stop()
    with pytest.raises(Stopping):
        world.run(world.command("late"))
    assert journal_of(world).commands == {}
    assert world.loop.failure is None


def test_a_bad_record_is_counted_even_alone(world: World) -> None:
    before = world.loop.state.seq
    state = world.run(Row(NAMES.commands, 0, 0, 5, b"{"))
    assert state.offsets == {NAMES.commands: {"0": 1}}
    assert state.seq == before + 1


def inventory(world: World) -> Row:
    record = {"v": 1, "kind": "inventory", "broker": "b:1", "incarnation": 1, "nonce": "n", "session": 1}
    return world._row(NAMES.broker_events, {**record, "applied_seq": 0, "serving": {}})


def test_what_changes_nothing_is_journaled_with_what_does(world: World) -> None:
    """The next start goes on at the journaled offsets: it would read every quiet record since the last commit again."""
    before = world.run(world.heartbeat()).seq
    quiet = inventory(world)
    state = world.run(quiet)
    assert state.seq == before
    assert world.loop.unjournaled[NAMES.broker_events] == {"0": quiet.offset + 1}
    state = world.run(world.command("a"))
    assert state.offsets[NAMES.broker_events] == {"0": quiet.offset + 1}
    assert world.loop.unjournaled == {}


def test_a_long_quiet_time_is_journaled_now_and_then(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_loop, "QUIET_RECORDS", 3)
    before = world.run(world.heartbeat()).seq
    world.run(*(world.tick() for _ in range(10)))
    assert world.run(inventory(world), inventory(world)).seq == before
    third = inventory(world)
    state = world.run(third)
    assert (state.seq, state.offsets[NAMES.broker_events]) == (before + 1, {"0": third.offset + 1})
    assert world.run(inventory(world)).seq == before + 1


def quarantined(world: World) -> list[int]:
    rows = TableRoot(world.folder / "tables").open("quarantine").to_pyarrow_table().to_pylist()
    return sorted(row["kafka_offset"] for row in rows)


def test_a_quarantine_that_cannot_be_written_stops_nothing_and_gets_its_rows_later(world: World) -> None:
    """Ownership does not depend on where the evidence of garbage goes."""
    broken = world.folder / "tables" / "quarantine" / "_delta_log" / f"{1:020d}.json"
    first = Row(NAMES.commands, 0, 1, 5, b"{")
    broken.write_text("{")
    world.offset = 1
    state = world.run(first, world.heartbeat(), world.command("meanwhile"))
    assert list(state.namespaces) == ["t/meanwhile"]
    assert world.loop.failure is None
    assert world.loop.metrics.quarantine_failures._value.get() == 1
    broken.unlink()
    second = Row(NAMES.commands, 0, world.offset + 1, 5, b"}")
    world.run(second)
    assert quarantined(world) == [first.offset, second.offset]


def round_of(at_ms: int) -> RoundFinished:
    decision = Decision("d1", DecisionKind.SKIP, Label.SKIP, Reason.BALANCED)
    score = {"broker": "b:1", "score": 0.5, "eligible": True, "is_source": False, "hits": 0}
    inputs = {"config_version": "c", "code_version": "1"}
    return RoundFinished(RoundResult("r1", at_ms, 0, "steady", (decision,), (score,), {}, "hash", inputs=inputs))


def test_evidence_whose_first_tries_failed_counts_once(world: World) -> None:
    failpoints.activate("evidence.write=error@1*2")
    try:
        world.loop.add_round(round_of(10_000), 7)
        state = world.run(world.heartbeat())
    finally:
        failpoints.activate("")
    assert (state.rounds, world.loop.failure) == (1, None)
    root = TableRoot(world.folder / "tables")
    tries = root.open("broker_scores").to_pyarrow_table()["attempt_id"].to_pylist()
    assert len(set(tries)) == len(tries) == 3
    (entry,) = [e for e in Journal(root).read_since(0) if e.kind is Kind.ROUND]
    for name in ("rounds", "decisions", "broker_scores"):
        assert read_joined(root, name)["attempt_id"].to_pylist() == [entry.attempt_id], name
    assert journal_of(world) == state


def test_evidence_waits_for_a_store_that_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a commit does: the process does not end because the store is away for a minute."""
    write, tries = control_tables.write_evidence, 3 * control_tables.EVIDENCE_TRIES
    left = iter(range(tries))

    def write_later(*given: object) -> None:
        if next(left, None) is not None:
            raise OSError("Kernel error -> Generic S3 error\n ↳ HTTP error\n ↳ error sending request")
        write(*given)

    monkeypatch.setattr(control_tables, "write_evidence", write_later)
    monkeypatch.setattr(control_tables, "EVIDENCE_PAUSE_S", 0.001)
    world.loop.add_round(round_of(10_000), 7)
    state = world.run(world.heartbeat())
    assert (state.rounds, world.loop.failure) == (1, None)
    assert read_joined(world.folder / "tables", "rounds").num_rows == 1
    assert world.loop.metrics.commit_blocked._value.get() == 0


def test_a_challenger_that_comes_while_its_round_is_written_keeps_its_duration(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting, write = round_of(10_000), world.tables.append_evidence
    challenger = RoundFinished(replace(acting.result, strategy="headroom", challenger=True))

    def write_slowly(evidence: Sequence[Evidence], wall_ms: int, durations_ms: Mapping[str, int]) -> dict[str, str]:
        renamed = write(evidence, wall_ms, durations_ms)
        if not evidence[0].result.challenger:
            world.loop.add_round(challenger, 7)
        return renamed

    monkeypatch.setattr(world.tables, "append_evidence", write_slowly)
    world.loop.add_round(acting, 7)
    world.run(world.heartbeat())
    world.run(world.heartbeat())
    rows = read_joined(world.folder / "tables", "rounds").to_pylist()
    assert {row["strategy"]: row["duration_ms"] for row in rows} == {"steady": 7, "headroom": 7}


def look_up(world: World, topic_of: str) -> Row:
    """A lookup of the namespace's only bundle."""
    record = {"v": 1, "broker": "b:1", "bundle": f"{topic_of}/0x00000000_0xffffffff"}
    return world._row(NAMES.assign_requests, record)


def decided(world: World) -> list[tuple[str, str, str]]:
    rows = read_joined(world.folder / "tables", "decisions").to_pylist()
    return sorted((row["decision_id"], row["reason"], row["outcome"]) for row in rows)


def test_what_the_step_decides_is_a_row_that_the_journal_names(world: World) -> None:
    world.run(world.heartbeat(), world.command("a"))
    world.run(world.heartbeat(), look_up(world, "t/a"))
    assert decided(world) == [("step-one-1-0000", "105_first_lookup", "executed")]
    (entry,) = [e for e in Journal(world.folder / "tables").read_since(0) if e.state == "assigning"]
    assert entry.decision_id == "step-one-1-0000"
    assert read_joined(world.folder / "tables", "rounds").num_rows == 0


def test_a_bundle_is_served_though_its_decision_cannot_be_written_yet(world: World) -> None:
    """Then it is written later, once and in order."""
    world.run(world.heartbeat(), world.command("a"), world.command("b"))
    failpoints.activate("evidence.step=error@1*2")
    try:
        state = world.run(world.heartbeat(), look_up(world, "t/a"))
        assert [r.state.value for r in state.bundles.values()] == ["assigning", "free"]
        assert (decided(world), world.loop.failure) == ([], None)
        assert world.loop.metrics.decision_failures._value.get() == 2
        world.run(world.heartbeat(), look_up(world, "t/b"))
    finally:
        failpoints.activate("")
    expected = [(f"step-one-{n}-0000", "105_first_lookup", "executed") for n in (1, 2)]
    assert decided(world) == expected
    assert world.loop.state == journal_of(world)


def test_decisions_of_a_batch_that_was_never_journaled_do_not_count(world: World) -> None:
    world.run(world.heartbeat(), world.command("a"))
    failpoints.activate("control.before_journal=error")
    try:
        with pytest.raises(OSError, match="does not answer"):
            world.run(world.heartbeat(), look_up(world, "t/a"))
    finally:
        failpoints.activate("")
    written = TableRoot(world.folder / "tables").open("decisions").to_pyarrow_table()
    assert (written.num_rows, decided(world)) == (1, [])


def test_evidence_that_never_gets_through_ends_the_batch_before_its_commit(world: World) -> None:
    failpoints.activate("evidence.write=error")
    before = journal_of(world)
    try:
        world.loop.add_round(round_of(10_000), 7)
        with pytest.raises(OSError, match="does not answer"):
            world.run(world.heartbeat(), world.command("c"))
    finally:
        failpoints.activate("")
    assert journal_of(world) == before
    assert isinstance(world.loop.failure, OSError)


def stray(world: World) -> Row:
    tick = {"v": 1, "kind": "tick", "instance": "stray", "seq": 10_000, "journal_id": "other"}
    return world._row(NAMES.heartbeats, tick)


def test_a_controller_of_another_journal_ends_this_one_only_when_the_topics_are_its_own(world: World) -> None:
    alarmed = world.run(stray(world))
    assert world.owner_checks == [1_000]
    for end_ms in (2_000, 1_000 + OWNER_CHECK_MS - 1):
        world.run(stray(world), end_ms=end_ms)
    assert world.owner_checks == [1_000], "now and then is enough"
    assert world.loop.state.seq == alarmed.seq, "alarmed once"
    world.lost = True
    world.now_ms = 1_000 + OWNER_CHECK_MS
    with pytest.raises(ForeignCommit, match="given to journal other"):
        world.run(stray(world))
    assert isinstance(world.loop.failure, ForeignCommit)


def test_ticks_of_this_journal_and_of_older_versions_are_no_strays(world: World) -> None:
    for journal_id in ({"journal_id": "ours"}, {}):
        tick = {"v": 1, "kind": "tick", "instance": "another", "seq": 1, **journal_id}
        world.run(world._row(NAMES.heartbeats, tick))
    assert world.owner_checks == []
    world.run(world.tick())  # its own
    counted = {whose: world.registry.get_sample_value("ballast_control_other_ticks_total", {"journal": whose}) for whose
               in ("own", "another")}  # fmt: skip
    assert counted == {"own": 2, "another": 0}


@pytest.mark.parametrize("trouble", [OutcomeUnknown("the store does not answer"), NoRoom("the disk is full")])
def test_a_commit_whose_outcome_is_unknown_or_without_room_shows_until_it_is_known(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    commit, shown = world.tables._journal.commit, []

    def lose_twice(entries: Sequence[Entry], instance: str, batch: int) -> None:
        shown.append(world.registry.get_sample_value("ballast_journal_blocked"))
        if len(shown) <= 2:
            raise trouble
        commit(entries, instance, batch)

    monkeypatch.setattr(control_tables, "UNKNOWN_PAUSE_S", 0.0)
    monkeypatch.setattr(world.tables._journal, "commit", lose_twice)
    world.run(world.command("a"))
    assert shown == [0, 1, 1]
    assert world.registry.get_sample_value("ballast_journal_blocked") == 0
    assert world.registry.get_sample_value("ballast_journal_commit_retries_total") == 2
