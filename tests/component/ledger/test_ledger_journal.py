"""The journal's commit: compare-and-set, unknown outcomes, compaction in between."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import controller.ledger.journal_commit as journal_module
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ForeignCommit, InvariantBroken, OutcomeUnknown
from controller.ledger.append import append_rows
from controller.ledger.damage import JournalGap
from controller.ledger.delta_log import EXPIRED_UP_TO
from controller.ledger.journal_commit import Journal
from controller.ledger.maintenance import delete_rows
from controller.ledger.tables import TableRoot
from tests.component.ledger.ledger_history import History, by, compact, vacuum

HISTORY = History()


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


def stored(root: TableRoot) -> list[Entry]:
    return Journal(root).read_since(0)


@pytest.mark.covers("ownership-store")
def test_entries_come_back_as_they_were_committed(root: TableRoot) -> None:
    journal = Journal(root)
    assert journal.last() is None
    HISTORY.commit(journal)
    assert journal.last() == HISTORY.entries[-1]
    again = Journal(root)
    assert again.last() == HISTORY.entries[-1]
    assert again.read_since(0) == HISTORY.entries
    assert again.read_since(7) == HISTORY.entries[7:]
    assert again.read_since(again.last_seq) == []


def test_a_batch_is_one_version_with_a_marker(root: TableRoot) -> None:
    journal = Journal(root)
    HISTORY.commit(journal)
    assert journal.version == len(HISTORY.batches)
    commit = root.log("journal").read(journal.version)
    last = HISTORY.batches[-1]
    assert commit.transactions == {"i": last[0].batch}
    assert commit.info["ballast.seq"] == last[-1].seq
    assert root.open("journal").transaction_version("i") == last[0].batch


@pytest.mark.covers("who-decides", "ownership-store")
def test_the_older_instance_loses_to_a_foreign_commit(root: TableRoot) -> None:
    older, newer = Journal(root), Journal(root)
    HISTORY.commit(older, 0, 2)
    newer = Journal(root)
    taken = [by(e, "other") for e in HISTORY.batches[2]]
    newer.commit(taken, "other", 0)
    with pytest.raises(ForeignCommit, match=f"controller other .* up to seq {taken[-1].seq} .* while i held seq"):
        HISTORY.commit(older, 2, 3)
    assert stored(root)[-len(taken) :] == taken


def test_a_stale_state_loses_whether_the_journal_was_opened_before_or_after(root: TableRoot) -> None:
    early = Journal(root)
    HISTORY.commit(Journal(root), 0, 3)
    with pytest.raises(ForeignCommit):
        early.commit([by(HISTORY.entries[0], "other")], "other", 0)
    with pytest.raises(ForeignCommit, match="state is old"):
        Journal(root).commit([by(HISTORY.entries[0], "other")], "other", 0)
    # the state was read after somebody committed what the handle has not seen
    earlier = Journal(root)
    HISTORY.commit(Journal(root), 3, 4)
    next_seq = HISTORY.batches[3][-1].seq + 1
    with pytest.raises(ForeignCommit):
        earlier.commit([Entry(next_seq, Kind.CONTROLLER_STARTED, "other", 0, 0)], "other", 0)


def test_compaction_in_between_is_followed(root: TableRoot) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 4)
    compact(root)
    HISTORY.commit(journal, 4, 6)
    root.open("journal").alter.set_table_properties({"delta.checkpointInterval": "70"})
    HISTORY.commit(journal, 6)
    vacuum(root)
    assert stored(root) == HISTORY.entries


def test_entries_must_be_dense_and_continue(root: TableRoot) -> None:
    journal = Journal(root)
    with pytest.raises(InvariantBroken, match="does not follow"):
        journal.commit([HISTORY.entries[1]], "i", 1)
    with pytest.raises(InvariantBroken, match="gap"):
        journal.commit([HISTORY.entries[0], HISTORY.entries[2]], "i", 0)
    with pytest.raises(InvariantBroken, match="without entries"):
        journal.commit([], "i", 0)
    assert stored(root) == []


def test_the_same_commit_again_is_no_error_and_adds_nothing(root: TableRoot) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    version = journal.version
    assert journal.commit(HISTORY.batches[1], "i", HISTORY.batches[1][0].batch) == version
    assert stored(root) == [e for batch in HISTORY.batches[:2] for e in batch]


class Store:
    """Stands between the journal and delta-rs: may fail before or after the real write, or do something first."""

    def __init__(self, real: Callable[..., None]) -> None:
        self.real = real
        self.plan: list[str | Callable[[], None]] = []
        self.after: Callable[[], object] | None = None  # the next write happens, then this, and nobody hears of it
        self.behind: Callable[[], object] | None = None  # the next write happens, then this, and all is well
        self.calls = 0

    def write(self, *args: Any, **kwargs: Any) -> None:
        self.calls += 1
        step = self.plan.pop(0) if self.plan else ""
        if callable(step):
            step()
        if step == "lost":
            raise OSError("connection reset before the request")
        self.real(*args, **kwargs)
        behind, self.behind = self.behind, None
        if behind is not None:
            behind()
        after, self.after = self.after, None
        if after is not None:
            after()
            raise TimeoutError("no answer")
        if step == "unheard":
            raise TimeoutError("no answer")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    store = Store(journal_module.write_deltalake)
    monkeypatch.setattr(journal_module, "write_deltalake", store.write)
    yield store
    assert store.plan == []


def test_a_commit_whose_answer_was_lost_is_found_in_the_log(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    store.plan = ["", "unheard"]
    HISTORY.commit(journal, 0, 2)
    assert store.calls == 2
    HISTORY.commit(journal, 2)
    assert stored(root) == HISTORY.entries


def test_a_commit_that_did_not_happen_is_tried_again_with_the_same_entries(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    store.plan = ["lost", "lost", "unheard"]
    HISTORY.commit(journal, 0, 1)
    assert store.calls == 3
    assert stored(root) == HISTORY.batches[0]


def test_compaction_after_an_unheard_commit_does_not_hide_it(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 3)
    store.after = lambda: compact(root)
    HISTORY.commit(journal, 3, 4)
    HISTORY.commit(journal, 4)
    assert stored(root) == HISTORY.entries


def test_a_foreign_commit_stops_even_when_ones_own_entry_is_there(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    real, batch = store.real, HISTORY.batches[2]

    def write_then_another_takes_over(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        store.real = real
        started = Entry(batch[-1].seq + 1, Kind.CONTROLLER_STARTED, "other", -1, 0)
        Journal(root).commit([started], "other", -1)
        raise TimeoutError("no answer")

    store.real = write_then_another_takes_over
    with pytest.raises(ForeignCommit, match="controller other"):
        HISTORY.commit(journal, 2, 3)
    assert [e.instance for e in stored(root)[-2:]] == ["i", "other"]


def test_a_foreign_commit_found_after_a_lost_request_stops(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)

    def another() -> None:
        Journal(root).commit([by(e, "other") for e in HISTORY.batches[2]], "other", 7)

    store.plan = [another, ""]
    with pytest.raises(ForeignCommit, match="controller other"):
        HISTORY.commit(journal, 2, 3)


def test_an_unreadable_log_blocks_and_the_same_commit_later_succeeds(
    root: TableRoot, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "READ_ATTEMPTS", 2)
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    folder = Path(root.uri("journal"))
    aside = folder.with_name("aside")

    def write_then_vanish(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        shutil.move(folder, aside)
        raise TimeoutError("no answer")

    real, store.real = store.real, write_then_vanish
    with pytest.raises(OutcomeUnknown, match="cannot be read"):
        HISTORY.commit(journal, 2, 3)
    shutil.move(aside, folder)
    store.real = real
    HISTORY.commit(journal, 2)
    assert stored(root) == HISTORY.entries


def sleeps_through_a_clean_up(root: TableRoot, sleeper: Journal, batches: int, *, kept: int = 1) -> None:
    """Others commit while one sleeps; then their log files are cleaned up, but for the newest `kept`."""
    other = Journal(root)
    first = sleeper.version + 1
    for batch in HISTORY.batches[2 : 2 + batches]:
        other.commit([by(e, "other") for e in batch], "other", batch[0].batch)
    root.open("journal").create_checkpoint()
    for version in range(first, other.version + 1 - kept):
        (Path(root.uri("journal")) / "_delta_log" / f"{version:020d}.json").unlink()


@pytest.mark.parametrize("slept_for", [2, 3])
def test_who_slept_while_the_log_was_cleaned_up_notices_after_writing(root: TableRoot, slept_for: int) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    sleeps_through_a_clean_up(root, journal, slept_for)
    with pytest.raises(ForeignCommit):
        HISTORY.commit(journal, 2, 3)
    mine = sum(map(len, HISTORY.batches[:2]))
    foreign = sum(map(len, HISTORY.batches[2 : 2 + slept_for]))
    assert [e.instance for e in stored(root)] == ["i"] * mine + ["other"] * foreign


@pytest.mark.parametrize("slept_for", [2, 8])
def test_who_wrote_below_the_newest_checkpoint_has_been_replaced(root: TableRoot, slept_for: int) -> None:
    """The write succeeds and the log behind it is whole: that the checkpoint lies beyond it is the only sign."""
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    sleeps_through_a_clean_up(root, journal, slept_for, kept=0)
    with pytest.raises(ForeignCommit, match=r"controller other .* while i held seq"):
        HISTORY.commit(journal, 2, 3)


@pytest.mark.parametrize("answer", ["", "unheard"])
def test_below_a_checkpoint_the_rows_tell_and_not_the_log(root: TableRoot, store: Store, answer: str) -> None:
    """One's own commit took the place of the other controller's, and only a compaction follows it in the log. (delta-rs
    writes into no gap that it sees, so the file behind the gap is away while it writes.)"""
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    folder = Path(root.uri("journal")) / "_delta_log"
    theirs, merged = (folder / f"{journal.version + n:020d}.json" for n in (1, 2))
    batch = HISTORY.batches[2]
    Journal(root).commit([by(e, "other") for e in batch], "other", batch[0].batch)
    compact(root)
    root.open("journal").create_checkpoint()
    theirs.unlink()
    aside = merged.rename(folder.parent / "aside")
    store.plan, store.behind = [answer], lambda: aside.rename(merged)
    with pytest.raises(ForeignCommit, match=r"controller other .* while i held seq"):
        HISTORY.commit(journal, 2, 3)


def test_a_checkpoint_of_what_was_just_written_is_ones_own(root: TableRoot, caplog: pytest.LogCaptureFixture) -> None:
    root.open("journal").alter.set_table_properties({"delta.checkpointInterval": "1"})
    journal = Journal(root)
    HISTORY.commit(journal)
    assert root.log("journal").last_checkpoint() == journal.version, "every commit made one"
    assert stored(root) == HISTORY.entries
    assert caplog.messages == [], "no commit was in doubt"


def change_a_property(root: TableRoot) -> None:
    root.open("journal").alter.set_table_properties({"delta.logRetentionDuration": "interval 8 days"})


def merge_and_vacuum(root: TableRoot) -> None:
    compact(root)
    vacuum(root)


@pytest.mark.parametrize("clean_up", [compact, change_a_property, merge_and_vacuum])
def test_a_clean_up_right_behind_a_commit_replaces_nobody(
    root: TableRoot, store: Store, clean_up: Callable[[TableRoot], None]
) -> None:
    """The checkpoint that the clean-up's commit makes lies beyond the version just written, as another controller's
    would."""
    root.open("journal").alter.set_table_properties({"delta.checkpointInterval": "1"})
    journal = Journal(root)
    HISTORY.commit(journal, 0, 3)
    store.behind = lambda: clean_up(root)
    HISTORY.commit(journal, 3, 4)
    assert root.log("journal").last_checkpoint() > 5
    HISTORY.commit(journal, 4)
    assert stored(root) == HISTORY.entries
    assert store.calls == len(HISTORY.batches), "none was written twice"


def test_a_commit_behind_a_clean_up_is_not_written_twice_while_the_rows_cannot_be_read(
    root: TableRoot, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.open("journal").alter.set_table_properties({"delta.checkpointInterval": "1"})
    journal, opened, failing = Journal(root), TableRoot.open, [OSError("503"), OSError("503")]
    HISTORY.commit(journal, 0, 3)

    def open_or_fail(tables: TableRoot, name: str, version: int | None = None) -> Any:
        if failing:
            raise failing.pop()
        return opened(tables, name, version=version)

    def clean_up() -> None:
        compact(root)
        monkeypatch.setattr(TableRoot, "open", open_or_fail)

    store.behind = clean_up
    HISTORY.commit(journal, 3, 4)
    assert (failing, store.calls) == ([], 4)
    HISTORY.commit(journal, 4)
    assert stored(root) == HISTORY.entries


def test_a_cleaned_up_log_is_judged_by_the_rows(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    sleeps_through_a_clean_up(root, journal, 3)
    store.plan = ["lost"]
    with pytest.raises(ForeignCommit, match="controller other"):
        HISTORY.commit(journal, 2, 3)


def test_ones_own_commit_is_known_by_its_rows_when_the_log_no_longer_tells(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    doubted = journal.version + 1

    def clean_up() -> None:
        compact(root)
        root.open("journal").create_checkpoint()
        (Path(root.uri("journal")) / "_delta_log" / f"{doubted:020d}.json").unlink()

    store.after = clean_up
    HISTORY.commit(journal, 2, 3)
    HISTORY.commit(journal, 3)
    assert stored(root) == HISTORY.entries


def test_a_store_that_never_takes_the_commit_is_told_as_such(root: TableRoot, store: Store) -> None:
    journal = Journal(root)
    store.plan = ["lost"] * journal_module.COMMIT_ATTEMPTS
    with pytest.raises(OutcomeUnknown, match=r"1\.\.1 were not committed in 8 attempts.*connection reset"):
        HISTORY.commit(journal, 0, 1)
    HISTORY.commit(journal)
    assert stored(root) == HISTORY.entries


def test_reopening_by_habit_keeps_a_foreign_commit_visible(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "reopen_after", 2)
    journal = Journal(root)
    HISTORY.commit(journal, 0, 5)
    Journal(root).commit([by(e, "other") for e in HISTORY.batches[5]], "other", 0)
    with pytest.raises(ForeignCommit):
        HISTORY.commit(journal, 5, 6)


def test_a_handle_that_cannot_be_opened_anew_undoes_no_success(
    root: TableRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, "reopen_after", 2)
    journal, opened, failing = Journal(root), TableRoot.open, [OSError("503"), OSError("503")]

    def open_or_fail(tables: TableRoot, name: str, version: int | None = None) -> Any:
        if version is not None and failing:
            raise failing.pop()
        return opened(tables, name, version=version)

    monkeypatch.setattr(TableRoot, "open", open_or_fail)
    HISTORY.commit(journal)
    assert failing == []
    assert stored(root) == HISTORY.entries


def test_who_slept_until_what_followed_has_expired_has_been_replaced(root: TableRoot, store: Store) -> None:
    """The journal's rows no longer tell who came after, only that somebody did."""
    journal = Journal(root)
    HISTORY.commit(journal, 0, 2)
    sleeps_through_a_clean_up(root, journal, 3)
    last = sum(map(len, HISTORY.batches[:4]))
    delete_rows(root.open("journal"), f"seq <= {last}", {EXPIRED_UP_TO: str(last)})
    store.plan = ["lost"]
    with pytest.raises(ForeignCommit, match="have expired meanwhile"):
        HISTORY.commit(journal, 2, 3)
    with pytest.raises(ForeignCommit, match="have expired meanwhile"):
        journal.check_not_replaced("i")


def test_a_gap_or_double_in_the_table_is_never_folded(root: TableRoot) -> None:
    HISTORY.commit(Journal(root), 0, 2)
    append_rows(root, "journal", [HISTORY.batches[3][0].to_row()])
    with pytest.raises(JournalGap, match="is missing, the next one is"):
        stored(root)
    append_rows(root, "journal", [e.to_row() for e in (*HISTORY.batches[2], HISTORY.batches[2][0])])
    with pytest.raises(JournalGap, match="is there twice"):
        stored(root)
