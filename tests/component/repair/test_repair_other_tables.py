"""Tables beside the journal: snapshots are gathered, projections made again, of all others what can be read is kept."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from controller.ledger.append import append_rows
from controller.ledger.projections import Projections
from controller.ledger.repair.steps import SetAside
from controller.ledger.snapshots import Snapshots, load_state
from controller.service.control_quarantine import quarantine_row
from controller.service.records import BadRow, Row
from tests.component.ledger.ledger_history import compact
from tests.component.repair.damaged_tables import (
    HISTORY,
    LAST,
    MERGED_SEQ,
    SNAPSHOT_SEQ,
    WHOLE,
    Tables,
    cut,
    state_text,
)

HOWS = ("empty", "half", "gone")


def configuration(number: int) -> dict[str, object]:
    return {"config_version": f"v{number}", "instance": "i", "at_ms": number, "code_version": "1", "config_json": "{}"}


def versions_of(tables: Tables) -> list[str]:
    rows: list[str] = tables.root.open("config_history").to_pyarrow_table()["config_version"].to_pylist()
    return sorted(rows)


@pytest.mark.parametrize("how", HOWS)
def test_snapshots_are_gathered_from_replaced_files(tables: Tables, how: str) -> None:
    """The newest file is lost; the one before it has the older snapshot, which is enough."""
    before = set(tables.folder("control_state").glob("*.parquet"))
    tables.save_snapshot()
    (newest,) = set(tables.folder("control_state").glob("*.parquet")) - before
    cut(newest, how)
    plan = tables.repair()
    assert [step.table for step in plan.steps] == ["control_state", "control_state"]
    assert f"with the snapshots that can be read, of entries {SNAPSHOT_SEQ}" in plan.steps[1].what
    found = Snapshots(tables.root.again()).latest()
    assert found is not None
    assert found.seq == SNAPSHOT_SEQ
    assert state_text(tables.root) == WHOLE


def test_without_a_readable_snapshot_the_journal_is_read_from_its_beginning(tables: Tables) -> None:
    for file in tables.folder("control_state").glob("*.parquet"):
        cut(file, "half")
    plan = tables.repair()
    assert "the next start reads the journal from its first entry" in plan.steps[1].what
    assert Snapshots(tables.root.again()).latest() is None
    assert state_text(tables.root) == WHOLE
    assert Snapshots(tables.root.again()).save(HISTORY.state, 0)


def test_a_journal_that_begins_later_needs_a_snapshot(tables: Tables) -> None:
    tables.root.open("journal").alter.set_table_properties({"delta.appendOnly": "false"})
    tables.root.open("journal").delete(f"seq <= {MERGED_SEQ}")
    tables.forget_dead_files()
    for file in tables.folder("control_state").glob("*.parquet"):
        cut(file, "half")
    assert tables.plan().impossible.startswith(f"entries 1 to {MERGED_SEQ} of {LAST}")


@pytest.mark.parametrize("name", ["ownership", "brokers"])
@pytest.mark.parametrize("how", ["empty", "half"])
def test_projections_are_made_again(tables: Tables, name: str, how: str) -> None:
    rows = tables.root.open(name).to_pyarrow_table().to_pylist()
    cut(tables.commit_file(-1, name), how)
    plan = tables.repair()
    assert [step.table for step in plan.steps] == [name]
    assert not tables.root.exists(name)
    tables.root.create(name)
    Projections(tables.root.again()).write(load_state(tables.root))
    key = "bundle" if name == "ownership" else "broker"
    again = tables.root.open(name).to_pyarrow_table().sort_by(key).to_pylist()
    assert again == sorted(rows, key=lambda row: row[key])


@pytest.mark.parametrize("how", HOWS)
def test_of_other_rows_those_that_can_be_read_are_kept(tables: Tables, how: str) -> None:
    for number in range(3):
        append_rows(tables.root, "config_history", [configuration(number)])
    paths = pa.table(tables.root.open("config_history").get_add_actions(flatten=True)).to_pylist()
    (lost,) = (row["path"] for row in paths if row["min.at_ms"] == 1)
    cut(tables.folder("config_history") / lost, how)
    plan = tables.repair()
    assert plan.steps[-1].loses == f"the rows in {lost}"
    assert versions_of(tables) == ["v0", "v2"]
    assert (tables.copies() / "config_history" / lost).exists() is (how != "gone")


@pytest.mark.parametrize("version", [0, 2, -1])
def test_a_commit_of_other_rows_may_be_lost(tables: Tables, version: int) -> None:
    for number in range(3):
        append_rows(tables.root, "config_history", [configuration(number)])
    cut(tables.commit_file(version, "config_history"), "empty")
    plan = tables.repair()
    assert "the rows of that commit" in plan.steps[-1].loses
    lost = {0: set(), 2: {"v1"}, -1: {"v2"}}[version]
    assert set(versions_of(tables)) == {"v0", "v1", "v2"} - lost
    append_rows(tables.root, "config_history", [configuration(9)])
    assert "v9" in versions_of(tables)


@pytest.mark.parametrize("merge_lost", [False, True])
def test_a_lost_merge_that_others_built_on_is_too_much(tables: Tables, merge_lost: bool) -> None:
    """Rows would come back twice. Of merges before a checkpoint nothing is lost."""
    for number in range(3):
        append_rows(tables.root, "config_history", [configuration(number)])
    compact(tables.root, "config_history")
    merged = tables.commit_file(-1, "config_history")
    if not merge_lost:
        tables.root.open("config_history").create_checkpoint()
    append_rows(tables.root, "config_history", [configuration(3)])
    compact(tables.root, "config_history")
    append_rows(tables.root, "config_history", [configuration(4)])
    cut(merged if merge_lost else tables.commit_file(-1, "config_history"), "empty")
    plan = tables.repair()
    if merge_lost:
        assert [type(step) for step in plan.steps] == [SetAside]
        assert "of which the copies hold what can be read" in plan.steps[0].loses
    else:
        assert versions_of(tables) == ["v0", "v1", "v2", "v3"]


def test_of_bulk_tables_only_sizes_are_looked_at_unless_named(tables: Tables) -> None:
    bad = BadRow(Row("commands", 0, 1, 1, b"{}"), "version", "no version")
    append_rows(tables.root, "quarantine", [quarantine_row(bad, 1, 1)])
    (file,) = tables.folder("quarantine").glob("*.parquet")
    cut(file, "zeros")
    assert tables.plan().damage == ()
    assert [damage.table for damage in tables.plan(only=["quarantine"]).damage] == ["quarantine"]
    assert [damage.table for damage in tables.plan(only=["journal"]).damage] == []
    tables.repair(only=["quarantine"])
    assert tables.root.open("quarantine").to_pyarrow_table().num_rows == 0


def test_several_tables_at_once(tables: Tables) -> None:
    cut(tables.commit_file(-1), "empty")
    cut(tables.commit_file(-1, "ownership"), "half")
    cut(next(tables.folder("control_state").glob("*.parquet")), "half")
    plan = tables.repair()
    assert {damage.table for damage in plan.damage} == {"journal", "ownership", "control_state"}
    assert state_text(tables.root) == WHOLE
    assert load_state(tables.root).seq == LAST
    assert {path.name for path in tables.copies().iterdir()} == {"journal", "ownership", "control_state"}
    assert Path(tables.root.root, "_damaged").is_dir()
