"""One controller: paused at any point and woken after another took over, or started at the same time as another.

Processes are real and so are the tables; Kafka and Spark are played (`crash_stage`). The same with the whole job, in
`tests/faults/test_one_controller.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry

from controller.config.policy_values import control_settings
from controller.config.sections.control import Rounds
from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import AnotherController
from controller.domain.state import ClusterState
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import Projections
from controller.ledger.snapshots import load_state
from controller.ledger.tables import TableRoot
from controller.service.metrics import ControlMetrics
from controller.service.projector import Projector
from controller.service.records import Row
from controller.service.start import become_controller, first_entries
from controller.service.tables import ControlTables
from tests.component.crash_child import JOURNAL, KAFKA, NAMES, Done, Failed, MicroBatch, Start, Started
from tests.component.crash_stage import Controller
from tests.e2e.waiting import wait_until

RIVALS = 4


class Stage:
    """Tables, and controllers that are started on them."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(tables=Tables(root=str(folder / "tables")), rounds=Rounds(mode="live"))
        self.root = TableRoot(folder / "tables")
        self.root.create_all()
        self.controllers: list[Controller] = []
        self._offset = 0

    def begin(self, instance: str, failpoints: str = "") -> Controller:
        """A process on its way; ask it for `started()`."""
        self.controllers.append(Controller(Start(self.settings, instance, failpoints, 1_000)))
        return self.controllers[-1]

    def start(self, instance: str, failpoints: str = "") -> Controller:
        started = self.begin(instance, failpoints)
        assert isinstance(started.started(), Started)
        return started

    def batch(self, number: int, namespace: str) -> MicroBatch:
        """A batch of one command."""
        self._offset += 1
        record = {
            "v": 1,
            "id": f"make-{namespace}",
            "kind": "create_namespace",
            "args": {"namespace": f"t/{namespace}"},
        }
        row = Row(NAMES.commands, 0, self._offset - 1, 5, json.dumps(record).encode())
        return MicroBatch(number, [row], [], 2_000, 2_000)

    def quiet(self, number: int) -> MicroBatch:
        return MicroBatch(number, [], [], 3_000, 3_000)

    @property
    def state(self) -> ClusterState:
        return load_state(self.root)

    @property
    def entries(self) -> list[Entry]:
        return Journal(self.root).read_since(0)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    for each in made.controllers:
        each.end()


@pytest.mark.parametrize(
    "point",
    [
        "control.before_journal",
        "journal.append",
        pytest.param("control.before_step", marks=pytest.mark.faults),
        pytest.param("control.before_evidence", marks=pytest.mark.faults),
    ],
)
def test_what_a_paused_instance_had_in_hand_does_not_count(stage: Stage, point: str) -> None:
    old = stage.start("old", f"{point}=stop@{2 if point == 'journal.append' else 1}")
    old.ask(stage.batch(0, "lost"))
    wait_until(lambda: stopped(old), 120)
    new = stage.start("new")
    again = MicroBatch(0, [*stage.batch(0, "kept").rows], [], 2_000, 2_000)
    assert isinstance(new.run(again), Done)
    seq = stage.state.seq
    wake(old)
    answer = old.answer()
    assert isinstance(answer, Failed)
    assert answer.error == "ForeignCommit"
    assert "new" in answer.text
    assert "old" in answer.text
    assert stage.state.seq == seq
    assert list(stage.state.namespaces) == ["t/kept"]
    assert isinstance(new.run(stage.batch(1, "later")), Done)


@pytest.mark.parametrize(
    "point",
    [
        "journal.appended",
        pytest.param("control.before_feed", marks=pytest.mark.faults),
        pytest.param("control.before_projection", marks=pytest.mark.faults),
    ],
)
def test_what_it_had_committed_before_stays_and_the_next_commit_ends_it(stage: Stage, point: str) -> None:
    old = stage.start("old", f"{point}=stop@{2 if point == 'journal.appended' else 1}")
    old.ask(stage.batch(0, "first"))
    wait_until(lambda: stopped(old), 120)
    new = stage.start("new")
    assert list(stage.state.namespaces) == ["t/first"]
    assert isinstance(new.run(stage.batch(0, "second")), Done)
    wake(old)
    assert isinstance(old.answer(), Done), "that commit was its own, and it is in the journal"
    refused = old.run(stage.batch(1, "third"))
    assert isinstance(refused, Failed)
    assert refused.error == "ForeignCommit"
    assert sorted(stage.state.namespaces) == ["t/first", "t/second"]
    assert [e.instance for e in stage.entries if e.kind is Kind.COMMAND_ACCEPTED] == ["old", "new"]


def test_an_idle_instance_ends_when_it_hears_the_other_tick(stage: Stage) -> None:
    old, new = stage.start("old"), stage.start("new")
    assert isinstance(new.run(stage.batch(0, "made")), Done)
    assert isinstance(old.run(stage.quiet(0)), Done), "without a word from anybody it cannot know"
    tick = {"v": 1, "kind": "tick", "instance": "new", "seq": stage.state.seq}
    heard = MicroBatch(1, [Row(NAMES.heartbeats, 0, 0, 5, json.dumps(tick).encode())], [], 4_000, 4_000)
    answer = old.run(heard)
    assert isinstance(answer, Failed)
    assert answer.error == "ForeignCommit"


@pytest.mark.covers("who-decides")
@pytest.mark.parametrize("turns", [2, pytest.param(12, marks=pytest.mark.faults)])
def test_of_several_started_at_once_one_survives(stage: Stage, turns: int) -> None:
    """Each of them heard nobody: the compare-and-set of `controller_started` decides."""
    for turn in range(turns):
        rivals = [stage.begin(f"rival-{turn}-{n}", "journal.append=delay(150)@1*1") for n in range(RIVALS)]
        first = [rival.started() for rival in rivals]
        winners = [r for r, word in zip(rivals, first, strict=True) if isinstance(word, Started)]
        losers = [word for word in first if isinstance(word, Failed)]
        # Who began to read only after another's commit takes over in order: each start is one commit, none is lost.
        started = [e.instance for e in stage.entries if e.kind is Kind.CONTROLLER_STARTED]
        assert [r.instance for r in winners] == sorted((i for i in started if i.startswith(f"rival-{turn}-")), key=str)
        assert {word.error for word in losers} <= {"ForeignCommit"}
        survivors = [r for r in winners if isinstance(r.run(stage.batch(0, f"n{turn}-{r.instance}")), Done)]
        assert [r.instance for r in survivors] == [started[-1]]


def test_a_starter_that_lost_the_race_looks_again_and_names_the_winner(stage: Stage) -> None:
    """Even with --take-over: who has just been replaced by a living one must not replace it in turn."""
    heard: list[bool] = []

    def prepare(state: ClusterState, take_over: bool) -> list[Entry]:
        heard.append(take_over)
        if len(heard) == 2:
            raise AnotherController("controller rival is alive")
        stage.start("rival")
        return first_entries(state, "loser", 5, control_settings(stage.settings), KAFKA, state.journal_id or JOURNAL)

    with pytest.raises(AnotherController, match="rival"):
        become_controller(lambda: tables_of(stage, "loser"), prepare, take_over=True)
    assert heard == [True, False]
    assert [e.instance for e in stage.entries if e.kind is Kind.CONTROLLER_STARTED] == ["rival"]


def test_one_that_is_taken_over_from_may_commit_meanwhile(stage: Stage) -> None:
    """In an object store, reading the journal and Kafka takes longer than a busy controller is silent."""
    busy, heard = stage.start("busy"), list[bool]()

    def prepare(state: ClusterState, take_over: bool) -> list[Entry]:
        heard.append(take_over)
        if len(heard) < 5:
            assert isinstance(busy.run(stage.batch(len(heard) - 1, f"n{len(heard)}")), Done)
        return first_entries(state, "next", 5, control_settings(stage.settings), KAFKA, state.journal_id or JOURNAL)

    _, state, _ = become_controller(lambda: tables_of(stage, "next"), prepare, take_over=True)
    assert heard == [True] * 5
    assert (state.instance, len(state.namespaces)) == ("next", 4)
    assert stage.state == state


def test_the_last_write_of_a_dead_one_that_arrives_late_does_not_stop_the_start(stage: Stage) -> None:
    dead = stage.start("dead")
    dead.end()
    late = Journal(stage.root)

    def prepare(state: ClusterState, take_over: bool) -> list[Entry]:
        if state.instance == "dead" and state.mode == "live":
            late.commit([Entry(state.seq + 1, Kind.MODE, "dead", 1, 5, data={"mode": "paused"})], "dead", 1)
        return first_entries(state, "next", 5, control_settings(stage.settings), KAFKA, state.journal_id or JOURNAL)

    _, state, entries = become_controller(lambda: tables_of(stage, "next"), prepare, take_over=False)
    assert (state.instance, state.mode) == ("next", "paused")
    assert entries[0].seq == late.last_seq + 1
    assert stage.state == state


def tables_of(stage: Stage, instance: str) -> ControlTables:
    metrics = ControlMetrics(CollectorRegistry())
    return ControlTables(stage.settings.tables.root, instance, stage.settings, metrics, threading.Event())


def stopped(controller: Controller) -> bool:
    return psutil.Process(controller.process.pid).status() == psutil.STATUS_STOPPED


def wake(controller: Controller) -> None:
    assert controller.process.pid is not None
    os.kill(controller.process.pid, signal.SIGCONT)


# ---------------------------------------------------------------- projections of a controller that was replaced


def state_at(seq: int, instance: str, namespace: str) -> ClusterState:
    namespaces = {"namespace": f"t/{namespace}", "bundles": [f"t/{namespace}/0x00000000_0xffffffff"]}
    entry = Entry(seq, Kind.NAMESPACE_CREATED, instance, 0, 0, data=namespaces)
    return fold(ClusterState(seq=seq - 1, instance=instance), [entry])


def test_a_replaced_controller_stops_writing_projections_for_good(stage: Stage) -> None:
    metrics = ControlMetrics(CollectorRegistry())
    projector = Projector(stage.settings.tables.root, 1_000, metrics)
    Projections(stage.root).write(state_at(9, "new", "theirs"))
    projector.start(state_at(5, "old", "ours"))
    wait_until(lambda: projector.overtaken is not None, 60)
    assert "seq 9" in str(projector.overtaken)
    projector.offer(state_at(20, "old", "ours"))
    projector.stop(state_at(20, "old", "ours"))
    rows = stage.root.open("ownership").to_pyarrow_table().to_pylist()
    assert {row["namespace"] for row in rows} == {"t/theirs"}


def test_one_that_wakes_in_the_middle_of_its_projections_ends_with_the_next_batch(stage: Stage) -> None:
    old = stage.begin("old", "projection.write=stop@1")
    wait_until(lambda: stopped(old), 120)
    new = stage.start("new")
    beat = {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n", "session": 1, "applied_seq": 0}
    registered = MicroBatch(0, [Row(NAMES.heartbeats, 0, 0, 5, json.dumps(beat).encode())], [], 2_000, 2_000)
    assert isinstance(new.run(registered), Done)
    new.stop()  # its projections are written
    wake(old)
    assert isinstance(old.started(), Started)
    answer = old.run(stage.quiet(0))
    for number in range(1, 1_200):  # a minute
        if isinstance(answer, Failed):
            break
        time.sleep(0.05)  # its projector is at it
        answer = old.run(stage.quiet(number))
    assert isinstance(answer, Failed)
    assert answer.error == "ForeignCommit"
    assert [row["broker"] for row in stage.root.open("brokers").to_pyarrow_table().to_pylist()] == ["b:1"]


@pytest.mark.parametrize("name", ["ownership", "brokers"])
def test_a_projection_that_was_removed_is_made_again_by_the_next_start(stage: Stage, name: str) -> None:
    first = stage.start("first")
    beat = {"v": 1, "broker": "b:1", "incarnation": 1, "nonce": "n", "session": 1, "applied_seq": 0}
    rows = [*stage.batch(0, "made").rows, Row(NAMES.heartbeats, 0, 0, 5, json.dumps(beat).encode())]
    assert isinstance(first.run(MicroBatch(0, rows, [], 2_000, 2_000)), Done)
    first.stop()
    before = stage.root.open(name).to_pyarrow_table().to_pylist()
    assert before
    shutil.rmtree(stage.root.uri(name))
    second = stage.start("second")
    second.stop()
    after = stage.root.open(name).to_pyarrow_table().to_pylist()
    assert [{**row, "seq": 0} for row in after] == [{**row, "seq": 0} for row in before]
