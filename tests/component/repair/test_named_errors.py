"""Every reader of a damaged table says which file is damaged and what to do; nobody reads less than was committed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from controller.domain.entries import Entry, Kind
from controller.domain.errors import BallastError, OutcomeUnknown
from controller.ledger.cleanup import ControlCleanup, Kept
from controller.ledger.damage import DamagedTable, JournalGap, find_fault
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES
from tests.component.ledger.ledger_history import compact
from tests.component.repair.damaged_tables import HISTORY, LAST, NOW_MS, SNAPSHOT, Tables, cut
from tests.short_run import play

BYTES = ("empty", "half", "zeros")
READERS: dict[str, Callable[[TableRoot], object]] = {
    "state": load_state,
    "controller": Journal,
    "agent": lambda root: Follower(root).bootstrap(),
}


def say(file: Path) -> str:
    """The beginning of what every reader says of this file, as a pattern."""
    return rf"table .*/journal is damaged: (_delta_log/)?{file.name} .*; `ballast repair` says what can be done"


@pytest.mark.parametrize(
    ("how", "reader"),
    [*((how, "state") for how in (*BYTES, "last line")), ("first line", "controller"), ("first line", "agent")],
)
def test_the_newest_commit(tables: Tables, reader: str, how: str) -> None:
    file = tables.commit_file(-1)
    cut(file, how)
    with pytest.raises(BallastError, match=say(file)):
        READERS[reader](tables.root)


@pytest.mark.parametrize(("how", "reader"), [("half", "state"), ("zeros", "controller"), ("gone", "agent")])
def test_a_commit_in_the_middle(tables: Tables, reader: str, how: str) -> None:
    file = tables.commit_file(-3)
    cut(file, how)
    with pytest.raises(BallastError, match=say(file)):
        READERS[reader](tables.root)


@pytest.mark.parametrize("how", ["empty", "first line"])
def test_a_commit_in_the_middle_that_delta_takes_for_an_empty_one(tables: Tables, how: str) -> None:
    cut(tables.commit_file(-3), how)
    with pytest.raises(JournalGap, match=r"entry \d+ is missing, the next one is \d+; `ballast repair`"):
        load_state(tables.root)


@pytest.mark.parametrize(
    ("how", "reader"), [("empty", "state"), ("half", "controller"), ("zeros", "state"), ("gone", "agent")]
)
def test_the_checkpoint(tables: Tables, reader: str, how: str) -> None:
    file = tables.checkpoint()
    cut(file, how)
    with pytest.raises(BallastError, match=say(file)):
        READERS[reader](tables.root)


@pytest.mark.parametrize(
    ("how", "reader"), [("empty", "state"), ("half", "controller"), ("zeros", "state"), ("gone", "agent")]
)
def test_the_newest_data_file(tables: Tables, reader: str, how: str) -> None:
    file = tables.data_file(LAST)
    cut(file, how)
    with pytest.raises(DamagedTable, match=say(file)):
        READERS[reader](tables.root)


def test_an_old_data_file_matters_to_whoever_reads_it(tables: Tables) -> None:
    file = tables.data_file(1)
    cut(file, "half")
    assert load_state(tables.root).seq == LAST, "the snapshot includes it"
    with pytest.raises(DamagedTable, match=say(file)):
        Journal(tables.root).read_since(0)


def test_a_damaged_hint_harms_nobody(tables: Tables) -> None:
    cut(tables.folder("journal") / "_delta_log" / "_last_checkpoint", "half")
    assert tables.root.log("journal").last_checkpoint() == int(tables.checkpoint().name[:20])
    journal = Journal(tables.root)
    for seq in (LAST + 1, LAST + 2):
        journal.commit([Entry(seq, Kind.CONTROLLER_STARTED, "next", seq, 0)], "next", seq)
    assert load_state(tables.root).seq == LAST + 2


@pytest.mark.parametrize("how", ["empty", "half", "first line"])
def test_who_follows_a_log_is_told_and_goes_on_after_the_repair(tables: Tables, how: str) -> None:
    newest = tables.commit_file(-1)
    whole = newest.read_bytes()
    newest.unlink()
    follower = Follower(tables.root)
    follower.bootstrap()
    behind = follower.seq
    newest.write_bytes(whole)
    cut(newest, how)
    with pytest.raises(DamagedTable, match=say(newest)):
        follower.catch_up()
    assert follower.seq == behind < LAST
    tables.repair()
    follower.catch_up()
    assert follower.state == HISTORY.state


def test_a_follower_beyond_a_gap_that_a_snapshot_includes_loads_it(tables: Tables) -> None:
    follower = Follower(tables.root)
    follower.state = load_state_at_snapshot(tables)
    follower._version = int(tables.commit_file(-1).stem)
    tables.save_snapshot()
    follower.state.seq = LAST - 10  # as if it had read no further
    tables.root.open("journal").alter.set_table_properties({"delta.appendOnly": "false"})
    tables.root.open("journal").delete(f"seq = {LAST - 5}")
    follower.hear(LAST)
    follower.catch_up()
    assert follower.state == HISTORY.state


def load_state_at_snapshot(tables: Tables) -> object:
    found = Snapshots(tables.root).latest()
    assert found is not None
    assert found.seq == HISTORY.batches[SNAPSHOT - 1][-1].seq
    return found


@pytest.mark.parametrize("name", ["ownership", "control_state", "brokers"])
def test_other_tables_are_named_as_well(tables: Tables, name: str) -> None:
    cut(tables.commit_file(-1, name), "half")
    with pytest.raises(DamagedTable, match=rf"table .*/{name} is damaged: _delta_log/0+1.json cannot be read"):
        tables.root.open(name)


def test_a_store_that_does_not_answer_is_no_damage(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(tables.commit_file(-1), "half")

    def refuse(log: object) -> None:
        raise OSError("connection refused")

    monkeypatch.setattr("controller.ledger.delta_log.DeltaLog.list_names", refuse)
    with pytest.raises(Exception, match="Kernel error") as raised:
        tables.root.open("journal")
    assert not isinstance(raised.value, DamagedTable)


def test_every_kind_of_commit_that_is_made_counts_as_whole(tmp_path: Path) -> None:
    """Else a healthy table would be called damaged."""
    root = play(tmp_path / "tables").root
    journal = root.open("journal")
    journal.alter.set_table_properties({"delta.appendOnly": "false"})
    journal.delete("seq <= 3")
    for name in ("journal", "decisions", "broker_panes"):
        compact(root, name)
        root.open(name).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    operations = set()
    for name in TABLES:
        for file in (Path(root.uri(name)) / "_delta_log").glob("*.json"):
            actions = [json.loads(line) for line in file.read_text().splitlines()]
            assert find_fault(actions) == "", file
            operations |= {action["commitInfo"]["operation"] for action in actions if "commitInfo" in action}
    assert {"CREATE TABLE", "WRITE", "OPTIMIZE", "DELETE", "VACUUM START", "SET TBLPROPERTIES"} <= operations
    assert pa.table(root.open("journal").get_add_actions()).num_rows == 1


def test_a_controller_that_cannot_verify_its_commit_says_why_it_blocks(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.ledger.journal_commit.READ_ATTEMPTS", 1)
    newest = tables.commit_file(-1)
    whole = newest.read_bytes()
    newest.unlink()
    journal = Journal(tables.root)
    newest.write_bytes(whole)
    cut(newest, "empty")
    entries = HISTORY.batches[-1]
    with pytest.raises(OutcomeUnknown, match=say(newest)):
        journal.commit(entries, "i", entries[0].batch)
    tables.repair()
    assert journal.commit(entries, "i", entries[0].batch) == int(newest.stem)
    assert load_state(tables.root) == HISTORY.state


def test_the_clean_up_names_the_file_that_it_cannot_merge(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("controller.ledger.cleanup.FEWEST_FILES", 2)
    file = tables.data_file(LAST)
    cut(file, "half")
    ControlCleanup(tables.root, Kept(10**12, 10**12)).run(NOW_MS)
    (line,) = [record.message for record in caplog.records if "clean-up of journal failed" in record.message]
    assert f"journal is damaged: {file.name} has " in line
    assert "`ballast repair`" in line
