"""A store whose listings lag behind its writes: a commit lands once, and its writer waits for the listing.

S3 lists at once what was written. While a store does not, a controller blocks at its next commit, and says so. The
condition of a put does not depend on listings, so no entry is lost, and none is written twice.
"""

from __future__ import annotations

import pytest

from controller.domain.entries import Entry, Kind
from controller.domain.errors import ForeignCommit, OutcomeUnknown
from controller.ledger.journal_commit import Journal
from controller.ledger.tables import TableRoot
from tests.component.object_store.conftest import Store

LOG = "/journal/_delta_log/"
BLOCKED = r"entries 2\.\.2 were not committed in 8 attempts, .*; check the table store at s3://"


def entry(seq: int, instance: str) -> Entry:
    return Entry(seq, Kind.ALARM, instance, seq, 1_000 + seq, reason="test")


@pytest.fixture
def journal(root: TableRoot) -> Journal:
    """Of a controller that has committed one entry."""
    root.create("journal")
    made = Journal(root)
    made.commit([entry(1, "one")], "one", 1)
    return made


def written(root: TableRoot) -> list[Entry]:
    """What a fresh handle reads."""
    return Journal(root.again()).read_since(0)


@pytest.mark.parametrize("answers_lost", [0, 1])
def test_a_commit_that_no_listing_shows_blocks_its_controller_and_lands_once(
    answers_lost: int, journal: Journal, root: TableRoot, store: Store
) -> None:
    """delta-rs lists the log after a commit, and misses its own."""
    store.set(method="PUT", part=LOG, lose=answers_lost, stale=True)
    with pytest.raises(OutcomeUnknown, match=BLOCKED):
        journal.commit([entry(2, "one")], "one", 2)
    assert written(root) == [entry(1, "one")], "listings do not lag"
    store.set()
    for seq in (2, 3):
        journal.commit([entry(seq, "one")], "one", seq)
    assert written(root) == [entry(seq, "one") for seq in (1, 2, 3)]


def test_a_second_controller_that_lists_an_old_journal_writes_nothing(
    journal: Journal, root: TableRoot, store: Store
) -> None:
    """The first has written what the second wants to write. The second blocks, too, until it sees by whom it lost."""
    store.set(stale=True)
    with pytest.raises(OutcomeUnknown, match=BLOCKED):
        journal.commit([entry(2, "one")], "one", 2)
    second = Journal(root.again())
    assert second.last_seq == 1
    with pytest.raises(OutcomeUnknown, match=BLOCKED):
        second.commit([entry(2, "two")], "two", 2)
    store.set()
    with pytest.raises(ForeignCommit, match="controller one committed journal entries up to seq 2"):
        second.commit([entry(2, "two")], "two", 2)
    for seq in (2, 3):
        journal.commit([entry(seq, "one")], "one", seq)
    assert written(root) == [entry(seq, "one") for seq in (1, 2, 3)]
