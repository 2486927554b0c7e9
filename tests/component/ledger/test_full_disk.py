"""A full disk: one error that names table, folder and what to do; nothing is written, and it goes on with room."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from deltalake.exceptions import CommitFailedError, DeltaError

from controller.domain.errors import describe_error
from controller.ledger.append import append_rows
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import Projections
from controller.ledger.snapshots import Snapshots
from controller.ledger.store import room
from controller.ledger.store.room import LEAST_FREE_BYTES, NoRoom, check_room, writing
from controller.ledger.tables import TableRoot
from tests.component.ledger.ledger_history import History

HISTORY = History()
SETTINGS = {"config_version": "v", "instance": "i", "at_ms": 1, "code_version": "1", "config_json": "{}"}


class Usage(NamedTuple):
    """As `shutil.disk_usage` has it."""

    total: int
    used: int
    free: int


class Disk:
    """The disk below the tables. `free`: what it says; `takes`: whether a write finds room all the same."""

    def __init__(self) -> None:
        self.free, self.takes = 10 * LEAST_FREE_BYTES, True

    def usage(self, folder: Path) -> Usage:
        return Usage(3 * LEAST_FREE_BYTES, 0, self.free)

    def write(self, folder: Path) -> None:
        if not self.takes:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(room.shutil, "disk_usage", found.usage)
    monkeypatch.setattr(room, "_try_to_write", found.write)
    return found


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


def fill(disk: Disk) -> None:
    disk.free, disk.takes = 4096, False


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("journal", lambda root: HISTORY.commit(Journal(root))),
        ("config_history", lambda root: append_rows(root, "config_history", [SETTINGS])),
        ("control_state", lambda root: Snapshots(root).save(HISTORY.state, 0)),
        ("ownership", lambda root: Projections(root).write(HISTORY.state)),
    ],
)
def test_every_writer_names_table_folder_and_what_to_do(
    disk: Disk, root: TableRoot, name: str, write: Callable[[TableRoot], object]
) -> None:
    versions = {each: root.open(each).version() for each in ("journal", name)}
    fill(disk)
    with pytest.raises(NoRoom) as failed:
        write(root)
    assert describe_error(failed.value) == (
        f"no room for table {root.uri(name)}: the disk of that folder is full (4 KiB of 3 MiB are free); make room "
        "there, or give tables.root a larger one (docs/operations.md#disk)"
    )
    assert {each: root.open(each).version() for each in versions} == versions
    disk.takes = True
    write(root)
    assert root.open(name).version() > versions[name]


def test_a_table_that_cannot_be_created_is_named_as_well(disk: Disk, tmp_path: Path) -> None:
    fill(disk)
    with pytest.raises(NoRoom, match=r"no room for table .*/new/journal: the disk of that folder is full"):
        TableRoot(tmp_path / "new").create_all()


def test_a_blocked_journal_says_so_once_for_each_commit(
    disk: Disk, root: TableRoot, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 1)
    fill(disk)
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            with pytest.raises(NoRoom):
                HISTORY.commit(journal, 1, 2)
    assert caplog.records == []
    disk.takes = True
    HISTORY.commit(journal, 1)
    assert Journal(root).read_since(0) == HISTORY.entries


@pytest.mark.parametrize(
    "error",
    [
        DeltaError(
            "Failed to parse parquet: External: Unable to copy data to file: No space left on device (os error 28)"
        ),
        CommitFailedError("Disk quota exceeded (os error 122)"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_write_that_finds_no_room_in_its_midst_is_told_alike(root: TableRoot, error: Exception) -> None:
    with pytest.raises(NoRoom, match=f"no room for table {root.uri('rounds')}: "), writing(root.uri("rounds")):
        raise error


def test_other_errors_stay_and_are_noted_to_be_of_the_table(root: TableRoot) -> None:
    with pytest.raises(DeltaError) as failed, writing(root.uri("rounds")):
        raise DeltaError("the store does not answer")
    assert describe_error(failed.value) == f"table {root.uri('rounds')}: the store does not answer"


def test_little_room_is_tried_and_the_attempt_leaves_nothing(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(Path(root.root).iterdir())
    monkeypatch.setattr(room.shutil, "disk_usage", lambda folder: Usage(0, 0, 0))
    check_room(root.uri("journal"))
    assert sorted(Path(root.root).iterdir()) == before


def test_an_object_store_is_not_asked(disk: Disk) -> None:
    fill(disk)
    check_room("s3://bucket/tables/journal")
    with pytest.raises(NoRoom):
        check_room("file:///nowhere/journal")
