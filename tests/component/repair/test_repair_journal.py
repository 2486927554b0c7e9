"""A damaged journal is mended: it tells the same state, entry by entry, or nothing is done to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.domain.entries import Entry, Kind
from controller.domain.errors import ForeignCommit
from controller.ledger.damage import DamagedTable
from controller.ledger.journal_commit import Journal
from controller.ledger.repair.workshop import Workshop
from controller.ledger.snapshots import load_state
from tests.component.ledger.ledger_history import by
from tests.component.repair.damaged_tables import (
    EXPIRED_FEED,
    HISTORY,
    LAST,
    NOW_MS,
    SNAPSHOT,
    SNAPSHOT_SEQ,
    WHOLE,
    Tables,
    check_whole,
    cut,
    feed_above,
    goes_on,
    listing,
    state_text,
    stored,
)

LOST_WITH_ITS_LOG = ("empty", "half", "zeros", "first line", "gone")


@pytest.mark.parametrize(
    ("version", "how"),
    [*((-1, how) for how in (*LOST_WITH_ITS_LOG, "last line")), (-2, "half"), (-3, "gone"), (-6, "empty")],
)
def test_a_commit_is_written_again_from_its_data_file(tables: Tables, version: int, how: str) -> None:
    cut(tables.commit_file(version), how)
    plan = tables.repair()
    assert plan.damage
    assert {step.loses for step in plan.steps} == {"nothing"}
    check_whole(tables)


def test_commits_in_a_row_get_back_what_each_had(tables: Tables) -> None:
    files = [tables.commit_file(version) for version in (-1, -2, -3)]
    before = [tables.root.log("journal").read(int(file.stem)) for file in files]
    for file in files:
        cut(file, "empty")
    tables.repair(EXPIRED_FEED)
    after = [tables.root.log("journal").read(int(file.stem)) for file in files]
    assert [commit.transactions for commit in after] == [commit.transactions for commit in before]
    assert [[f.path for f in commit.added] for commit in after] == [[f.path for f in commit.added] for commit in before]
    check_whole(tables)


def test_commit_and_data_come_from_the_feed(tables: Tables) -> None:
    for seq in (LAST, LAST - 5):
        cut(tables.data_file(seq), "empty")
    for version in (-1, -2):
        cut(tables.commit_file(version), "empty")
    plan = tables.repair(feed_above(LAST - 10))
    assert any("from the journal feed" in step.what for step in plan.steps)
    check_whole(tables)


@pytest.mark.parametrize(
    ("seq", "how"),
    [
        *((LAST, how) for how in ("empty", "half", "zeros", "gone")),
        (LAST - 8, "half"),
        (SNAPSHOT_SEQ, "gone"),
        (1, "half"),
    ],
)
def test_a_data_file_comes_back_from_the_feed(tables: Tables, seq: int, how: str) -> None:
    tables.forget_dead_files()
    cut(tables.data_file(seq), how)
    tables.repair(feed_above(0))
    check_whole(tables)


def test_merged_files_come_back_from_those_that_were_merged(tables: Tables) -> None:
    cut(tables.data_file(1), "half")
    plan = tables.repair()
    assert any("files that its log lost" in step.what for step in plan.steps)
    check_whole(tables)


@pytest.mark.parametrize("how", ["empty", "half", "zeros", "gone"])
def test_a_checkpoint_is_not_needed_while_all_commits_are_there(tables: Tables, how: str) -> None:
    cut(tables.checkpoint(), how)
    tables.repair()
    check_whole(tables)


@pytest.mark.parametrize(("how", "vacuumed"), [("empty", False), ("half", True), ("gone", True)])
def test_a_checkpoint_is_told_by_the_data_files(tables: Tables, how: str, vacuumed: bool) -> None:
    if vacuumed:
        tables.forget_dead_files()
    version = int(tables.checkpoint().name[:20])
    tables.clean_log(version + 1)
    cut(tables.checkpoint(), how)
    plan = tables.repair()
    assert any("write checkpoint" in step.what for step in plan.steps)
    check_whole(tables)


def test_checkpoint_and_newest_commit(tables: Tables) -> None:
    tables.clean_log(int(tables.checkpoint().name[:20]) + 1)
    cut(tables.checkpoint(), "half")
    cut(tables.commit_file(-1), "empty")
    tables.repair()
    check_whole(tables)


@pytest.mark.parametrize("version", [0, 5])
def test_the_first_commit_and_one_that_merged(tables: Tables, version: int) -> None:
    """The first has the table's columns and properties; without the other the merged files are in the table again."""
    cut(tables.checkpoint(), "half")
    cut(tables.commit_file(version), "empty")
    tables.repair()
    assert tables.root.open("journal").metadata().configuration["delta.appendOnly"] == "true"
    check_whole(tables)


# -- history --


def test_history_that_is_nowhere_is_lost_and_said(tables: Tables) -> None:
    tables.forget_dead_files()
    cut(tables.data_file(SNAPSHOT_SEQ), "half")
    plan = tables.repair(feed_above(SNAPSHOT_SEQ))
    (loss,) = {step.loses for step in plan.steps} - {"nothing"}
    first = HISTORY.batches[SNAPSHOT - 1][0].seq
    entries = f"entries {first} to {SNAPSHOT_SEQ} of the history"
    assert loss == f"{entries}; the base snapshot of entry {SNAPSHOT_SEQ} includes what they did"
    assert state_text(tables.root) == WHOLE
    again = tables.plan(EXPIRED_FEED)
    assert (again.damage, again.steps) == ((), ())
    assert again.notes == (f"{entries} cannot be restored; a base snapshot includes what they did",)
    goes_on(tables.root)


@pytest.mark.parametrize("with_commit", [True, False])
def test_the_end_may_be_known_by_its_snapshot_alone(tables: Tables, with_commit: bool) -> None:
    tables.save_snapshot()
    cut(tables.data_file(LAST), "half")
    if with_commit:
        cut(tables.commit_file(-1), "empty")
    plan = tables.repair(EXPIRED_FEED)
    assert any(f"an alarm as entry {LAST}, from which the journal goes on" in step.what for step in plan.steps)
    assert state_text(tables.root) == WHOLE
    goes_on(tables.root)


# -- around it --


def test_planning_changes_nothing_and_repairing_copies_first(tables: Tables) -> None:
    cut(tables.commit_file(-1), "half")
    before = listing(Path(tables.root.root))
    tables.plan()
    assert listing(Path(tables.root.root)) == before
    tables.repair()
    copied = listing(tables.copies() / "journal")
    assert copied == {path.removeprefix("journal/"): c for path, c in before.items() if path.startswith("journal/")}


def test_nothing_is_damaged_nothing_is_done(tables: Tables) -> None:
    before = listing(Path(tables.root.root))
    plan = tables.repair(feed_above(0))
    assert (plan.damage, plan.steps, plan.impossible) == ((), (), "")
    assert set(listing(Path(tables.root.root))) == set(before)


def test_a_controller_that_slept_goes_on_or_stops(tables: Tables) -> None:
    """The one that held the journal finds its last commit; another one finds that it has lost."""
    holder = Journal(tables.root.again())
    older = Journal(tables.root.again())
    cut(tables.commit_file(-1), "empty")
    tables.repair()
    started = Entry(LAST + 1, Kind.CONTROLLER_STARTED, "next", 0, 0)
    holder.commit([started], "next", 0)
    with pytest.raises(ForeignCommit):
        older.commit([by(started, "other")], "other", 0)
    assert load_state(tables.root).seq == LAST + 1


def test_history_put_back_does_not_stop_a_controller(tables: Tables) -> None:
    """It started on the damaged table, whose snapshot it began with."""
    cut(tables.data_file(1), "half")
    holder = Journal(tables.root.again())
    tables.repair()
    holder.commit([Entry(LAST + 1, Kind.CONTROLLER_STARTED, "next", 0, 0)], "next", 0)
    assert len(stored(tables.root)) == LAST + 1


def test_a_new_journal_begins_without_the_old_tables(tables: Tables) -> None:
    cut(tables.data_file(LAST), "half")
    before = listing(tables.folder("journal"))
    plan = tables.repair(EXPIRED_FEED, new_journal=True)
    assert plan.new_journal
    assert [step.table for step in plan.steps] == ["journal", "control_state", "ownership", "brokers", "overrides"]
    assert listing(tables.copies() / "journal") == before
    assert load_state(tables.root).seq == 0
    tables.root.again().create_all()
    Journal(tables.root.again()).commit([Entry(1, Kind.CONTROLLER_STARTED, "next", 0, 0)], "next", 0)


def test_a_journal_whose_log_is_gone_is_not_begun_again(tables: Tables) -> None:
    for file in (tables.folder("journal") / "_delta_log").iterdir():
        file.unlink()
    plan = tables.plan(feed_above(0))
    assert plan.impossible.startswith("its log is gone")
    assert plan.steps == ()
    tables.repair(feed_above(0), new_journal=True)
    assert not tables.folder("journal").exists()


def test_a_crash_in_the_middle_is_gone_on_from(tables: Tables) -> None:
    """After each step the journal is damaged, by its name, or whole."""
    for version in (-1, -2):
        cut(tables.commit_file(version), "empty")
    cut(tables.checkpoint(), "half")
    plan = tables.plan(EXPIRED_FEED)
    shop = Workshop(tables.root.again(), NOW_MS)
    for step in plan.steps[:-1]:
        step.carry_out(shop)
        with pytest.raises(DamagedTable):
            load_state(tables.root.again())
    tables.repair(EXPIRED_FEED)
    check_whole(tables)
