"""Panes that a task encodes as a file of the table are the panes that a packed table holds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from controller.domain.errors import BallastError
from controller.ledger.append import append_files
from controller.ledger.store.data_files import FileSink, name_by_content
from controller.ledger.tables import TableRoot
from controller.loads.driver_writer import DriverWriter, Marker
from controller.loads.layout import BUNDLE
from controller.loads.pane_files import files_of, make_file, pack_panes, unpack_panes
from controller.loads.settings import LoadsSettings
from schemas.arrow import arrow_schema
from schemas.catalog import TABLES
from tests.component.loads.loads_records import answered, order_of
from tests.spark.loads.loads_samples import START_MS, report, row

BATCH = Marker("query", 7, {"ballast.max_event_ms": "5"})
NAME = BUNDLE.panes


def panes_of(broker: str, count: int, at_ms: int = START_MS) -> pa.Table:
    """What a task makes of a report of so many bundles."""
    document = report(broker, 1, list(range(count)), random.Random(count), tail=False)
    return answered([row(document, broker, 0, at_ms)], order_of(LoadsSettings()))["bundles"]


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda r: (r["broker"], r["bundle"]))


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path)
    tables.create(NAME)
    return tables


@pytest.mark.parametrize(("rows", "from_rows", "is_file"), [(9, 10, False), (10, 10, True), (11, None, False)])
def test_many_rows_become_a_file(rows: int, from_rows: int | None, is_file: bool) -> None:
    panes = panes_of("b1:8080", rows)
    part = pack_panes(panes, BATCH.columns(), from_rows)
    assert part.startswith(b"PAR1") is is_file
    assert unpack_panes(part).equals(panes)


def test_files_and_packed_tables_go_together() -> None:
    """Tasks of one batch may have few rows or many."""
    parts = [panes_of("b1:8080", 30), panes_of("b2:8080", 5)]
    packed = [pack_panes(part, BATCH.columns(), 10) for part in parts]
    assert pa.concat_tables([unpack_panes(part) for part in packed]).equals(pa.concat_tables(parts))
    made, rest = files_of(packed, BATCH.columns())
    assert made == packed[:1]
    assert [unpack_panes(part) for part in rest] == parts[1:]


def test_a_file_is_written_as_delta_rs_writes_its_rows(root: TableRoot, tmp_path: Path) -> None:
    """The same rows, types and statistics, so that readers see no difference."""
    other = TableRoot(tmp_path / "other")
    other.create(NAME)
    parts = [panes_of("b1:8080", 30), panes_of("b2:8080", 5, START_MS + 60_000)]
    DriverWriter(other).append(NAME, pa.concat_tables(parts), BATCH, BATCH.columns())
    packed = [pack_panes(part, BATCH.columns(), 10) for part in parts]
    made, rest = files_of(packed, BATCH.columns())
    DriverWriter(root).append_files(NAME, [*made, *rest], BATCH)
    mine, theirs = root.open(NAME), other.open(NAME)
    assert plain(mine.to_pyarrow_table()) == plain(theirs.to_pyarrow_table())
    assert mine.history(1)[0]["ballast.max_event_ms"] == theirs.history(1)[0]["ballast.max_event_ms"]
    statistics = [pa.table(table.get_add_actions(flatten=True)).to_pylist() for table in (mine, theirs)]
    assert sum(f["num_records"] for f in statistics[0]) == statistics[1][0]["num_records"] == 35
    ends = ("min.pane_end_ms", "max.pane_end_ms", "null_count.pane_end_ms")
    assert set(ends) <= set(statistics[1][0])
    assert min(f[ends[0]] for f in statistics[0]) == statistics[1][0][ends[0]]
    assert max(f[ends[1]] for f in statistics[0]) == statistics[1][0][ends[1]]
    assert {key for f in statistics[0] for key in f if f[key] is not None} == set(statistics[1][0])


def test_a_file_that_a_task_has_stored_is_committed_and_not_stored_again(
    root: TableRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that runs again stores the same file again."""
    panes = panes_of("b1:8080", 30)
    packed = [pack_panes(panes, BATCH.columns(), 10, FileSink(root.uri(NAME))) for _ in range(2)]
    monkeypatch.setattr("controller.ledger.append.file_name", _die)  # of a file that the driver would store
    DriverWriter(root).append_files(NAME, packed[:1], BATCH, stored=True)
    table = root.open(NAME)
    assert plain(table.to_pyarrow_table().select(panes.column_names)) == plain(panes)
    assert [path.name for path in tmp_path.rglob("*.parquet")] == [name_by_content(packed[0])]


@pytest.mark.parametrize("there", [None, b"shorter"])
def test_a_file_that_is_not_what_a_task_has_stored_is_not_committed(root: TableRoot, there: bytes | None) -> None:
    """As when workers use another store; nobody could read the table."""
    file = make_file(panes_of("b1:8080", 3), BATCH.columns())
    if there is not None:
        (Path(root.uri(NAME)) / name_by_content(file)).write_bytes(there)
    with pytest.raises(BallastError, match="do workers use another store"):
        DriverWriter(root).append_files(NAME, [file], BATCH, stored=True)
    assert root.open(NAME).version() == 0


def test_a_batch_is_appended_once(root: TableRoot) -> None:
    files = [make_file(panes_of("b1:8080", 3), BATCH.columns())]
    for _ in range(2):
        DriverWriter(root).append_files(NAME, files, BATCH)
    table = root.open(NAME)
    assert table.to_pyarrow_table().num_rows == 3
    assert table.version() == 1


def test_without_a_file_there_is_nothing_to_append(root: TableRoot) -> None:
    packed = [pack_panes(panes_of("b1:8080", 3), BATCH.columns(), None)]
    assert files_of(packed, BATCH.columns()) == ([], [])
    assert not append_files(root, NAME, [], "me", 1)


def test_a_file_without_its_commit_is_no_part_of_the_table(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process died in between: the batch is run again, and the file of the first run is left to maintenance."""
    files = [make_file(panes_of("b1:8080", 3), BATCH.columns())]
    with monkeypatch.context() as patch:
        patch.setattr("deltalake.DeltaTable.create_write_transaction", _die)
        with pytest.raises(SystemError):
            DriverWriter(root).append_files(NAME, files, BATCH)
    assert root.open(NAME).to_pyarrow_table().num_rows == 0
    DriverWriter(root).append_files(NAME, files, BATCH)
    table = root.open(NAME)
    assert table.to_pyarrow_table().num_rows == 3
    (lost,) = table.vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)
    assert lost.endswith(".parquet")
    assert root.open(NAME).to_pyarrow_table().num_rows == 3


def test_a_table_without_a_column_of_the_file_is_named(tmp_path: Path) -> None:
    older = TableRoot(tmp_path)
    schema = arrow_schema(TABLES[NAME])
    DeltaTable.create(older.uri(NAME), schema.remove(schema.get_field_index("reports")))
    file = make_file(panes_of("b1:8080", 3), BATCH.columns())
    with pytest.raises(BallastError, match="has no column reports: start the job, which adds it"):
        append_files(older, NAME, [file], "me", 1)
    assert list(Path(older.uri(NAME)).glob("*.parquet")) == []


def _die(*_: Any, **__: Any) -> None:
    raise SystemError("killed")
