"""What a repair refuses: to give up entries that somebody has acted upon, to believe files that may not count."""

from __future__ import annotations

import shutil
from pathlib import Path

from controller.domain.entries import Entry
from controller.ledger.journal_commit import Journal
from controller.ledger.repair.heard import NOTHING, Heard, gather
from controller.ledger.tables import TableRoot
from tests.component.ledger.ledger_history import by
from tests.component.repair.damaged_tables import (
    END,
    EXPIRED_FEED,
    HISTORY,
    LAST,
    MERGED_SEQ,
    Tables,
    check_whole,
    cut,
    feed_above,
    listing,
    stored,
)


def test_needed_entries_that_are_nowhere_stop_everything(tables: Tables) -> None:
    tables.forget_dead_files()
    cut(tables.data_file(LAST), "half")
    before = listing(Path(tables.root.root))
    plan = tables.repair(EXPIRED_FEED)
    assert plan.steps == ()
    assert plan.impossible.startswith(
        f"entries {END} to {LAST} of {LAST} (the agent of b1 tells of entry {LAST}) cannot be"
    )
    assert listing(Path(tables.root.root)) == before


def test_without_snapshots_everything_is_needed(tables: Tables) -> None:
    tables.forget_dead_files()
    tables.forget_snapshots()
    cut(tables.data_file(1), "half")
    assert tables.plan(feed_above(20)).impossible.startswith(f"entries 1 to {MERGED_SEQ} of {LAST}")
    tables.repair(feed_above(0))
    check_whole(tables)


def test_what_an_agent_has_applied_is_not_given_up(tables: Tables) -> None:
    """Nothing of the table is damaged, but the newest commit is gone, and the file is as well."""
    file = tables.data_file(LAST)
    tables.commit_file(-1).unlink()
    file.unlink()
    shutil.rmtree(tables.folder("ownership"))
    shutil.rmtree(tables.folder("brokers"))
    assert tables.plan().damage == (), "nobody knows of it"
    plan = tables.plan(EXPIRED_FEED)
    assert [(damage.file, damage.what) for damage in plan.damage] == [(f"entries {END} to {LAST}", "are missing")]
    assert f"the agent of b1 tells of entry {LAST}" in plan.impossible
    tables.repair(feed_above(LAST - 10))
    assert stored(tables.root) == HISTORY.entries


def test_an_unreadable_file_at_the_end_may_have_held_anything(tables: Tables) -> None:
    cut(tables.data_file(LAST), "empty")
    cut(tables.commit_file(-1), "empty")
    assert "nothing on Kafka tells which entries they held" in tables.plan(NOTHING).impossible
    assert not tables.plan(feed_above(LAST - 10)).impossible


def test_a_rival_whose_commit_failed_is_not_believed(tables: Tables) -> None:
    """Its file has other entries with the same numbers; who went on was the other one."""
    rivals = [by(entry, "rival") for entry in HISTORY.batches[-3]]
    _leave_a_file(tables, rivals, version=-4)
    cut(tables.commit_file(-3), "empty")
    tables.repair()
    check_whole(tables)


def test_of_two_at_the_end_the_feed_tells_which_counted(tables: Tables) -> None:
    rivals = [by(entry, "rival") for entry in HISTORY.batches[-1]]
    _leave_a_file(tables, rivals, version=-2)
    cut(tables.commit_file(-1), "empty")
    assert tables.plan(EXPIRED_FEED).impossible, "either may have been the one"
    tables.repair(feed_above(LAST - 10))
    check_whole(tables)


def test_a_feed_that_contradicts_the_table_is_not_used(tables: Tables) -> None:
    told = [by(entry, "forger") for entry in HISTORY.entries if entry.seq > LAST - 20]
    cut(tables.data_file(LAST), "half")
    plan = tables.plan(gather(told, LAST, "the journal feed"))
    assert plan.impossible
    assert "it is not used" in plan.notes[0]
    twice = gather([*told, *HISTORY.entries[-20:]], LAST, "the journal feed")
    assert twice.contradictory
    assert tables.plan(twice).impossible


def test_an_absurd_number_of_entries_only_makes_it_impossible(tables: Tables) -> None:
    cut(tables.commit_file(-1), "empty")
    assert "of 1000000000000" in tables.plan(Heard(newest_seq=10**12, newest_from="the agent of b9")).impossible


def _leave_a_file(tables: Tables, entries: list[Entry], version: int) -> None:
    """A data file whose commit failed."""
    aside = tables.folder("journal").parent / "aside"
    at = int(tables.commit_file(version).stem)
    shutil.copytree(tables.folder("journal"), aside / "journal")
    for file in (aside / "journal" / "_delta_log").glob("*.json"):
        if int(file.stem) > at:
            file.unlink()
    known = {path.name for path in (aside / "journal").glob("*.parquet")}
    Journal(TableRoot(aside)).commit(entries, entries[0].instance, entries[0].batch)
    (left,) = (path for path in (aside / "journal").glob("*.parquet") if path.name not in known)
    shutil.copy(left, tables.folder("journal") / left.name)
    shutil.rmtree(aside)
