"""A damaged journal in an object store: the damaged objects and the log are copied, then it is mended."""

from __future__ import annotations

import pyarrow.fs as pafs
import pytest

from controller.domain.entries import Entry, Kind
from controller.ledger.damage import DamagedTable
from controller.ledger.delta_log import DeltaLog, commit_path
from controller.ledger.journal_commit import Journal
from controller.ledger.repair.execute import carry_out
from controller.ledger.repair.heard import gather
from controller.ledger.repair.plan import make_plan
from controller.ledger.repair.workshop import Workshop
from controller.ledger.snapshots import load_state
from controller.ledger.tables import TableRoot

NOW_MS = 1_790_000_000_000
ENTRIES = [Entry(seq, Kind.ALARM, "one", seq, 1_000 + seq, reason="test") for seq in range(1, 7)]


@pytest.fixture
def journal(root: TableRoot) -> TableRoot:
    """Six commits of an entry each."""
    for name in ("journal", "control_state", "ownership"):
        root.create(name)
    writer = Journal(root)
    for entry in ENTRIES:
        writer.commit([entry], "one", entry.batch)
    return root


def damage(root: TableRoot, path: str, content: bytes = b"") -> None:
    Workshop(root, NOW_MS).put("journal", path, content)


def copies(root: TableRoot) -> set[str]:
    files = DeltaLog(f"{root.root}/_damaged", root.storage_options)
    found = files.files.get_file_info(pafs.FileSelector("", recursive=True))
    return {info.path.partition("/")[2] for info in found if info.is_file}


def test_the_newest_commit_and_a_data_file(journal: TableRoot) -> None:
    log = journal.log("journal")
    third = next(f.path for f in log.read(3).added)
    damage(journal, commit_path(6))
    damage(journal, third, b"PAR1")
    with pytest.raises(DamagedTable, match=r"_delta_log/0+6.json is empty"):
        load_state(journal)
    plan = make_plan(journal, gather(ENTRIES[1:4], 6, "the journal feed"), now_ms=NOW_MS)
    assert plan.impossible == ""
    carry_out(plan, journal, NOW_MS)
    assert Journal(journal.again()).read_since(0) == ENTRIES
    kept = copies(journal)
    assert {f"journal/{third}", f"journal/{commit_path(6)}", f"journal/{commit_path(0)}"} <= kept
    assert sum(path.endswith(".parquet") for path in kept) == 1, "of the data files only the damaged one"
    Journal(journal.again()).commit([Entry(7, Kind.ALARM, "two", 0, 0, reason="test")], "two", 0)


@pytest.mark.thorough
def test_a_projection_is_set_aside(journal: TableRoot) -> None:
    Workshop(journal, NOW_MS).put("ownership", commit_path(0), b"{")
    plan = make_plan(journal, now_ms=NOW_MS)
    assert [step.table for step in plan.steps] == ["ownership"]
    carry_out(plan, journal, NOW_MS)
    assert not journal.exists("ownership")
    assert f"ownership/{commit_path(0)}" in copies(journal)
    assert journal.create("ownership")
