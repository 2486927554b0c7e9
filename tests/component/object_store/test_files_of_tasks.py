"""Files that tasks store in an object store, and the driver commits."""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pytest

from controller.domain.errors import BallastError
from controller.ledger.store.data_files import PART_BYTES, FileSink, NotStored, name_by_content
from controller.ledger.tables import TableRoot
from controller.loads.driver_writer import DriverWriter
from controller.loads.pane_files import make_file, pack_panes
from tests.component.loads.test_pane_files import BATCH, NAME, panes_of, plain
from tests.component.object_store.conftest import Store


@pytest.fixture
def sink(root: TableRoot) -> FileSink:
    root.create(NAME)
    return FileSink(root.uri(NAME), root.storage_options)


@pytest.mark.parametrize("size", [10, PART_BYTES, 3 * PART_BYTES + 1, 12 * PART_BYTES])
def test_a_file_is_stored_whole_by_the_name_of_its_content(root: TableRoot, sink: FileSink, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    sink.store(content)
    assert root.log(NAME).read_file(name_by_content(content)) == content


def test_the_driver_commits_what_a_task_has_stored(root: TableRoot, sink: FileSink, store: Store) -> None:
    panes = panes_of("b1:8080", 30)
    packed = pack_panes(panes, BATCH.columns(), 10, sink)
    before = len(store.written())
    DriverWriter(root).append_files(NAME, [packed], BATCH, stored=True)
    stored_since = [PurePosixPath(path).name for path in store.written()[before:]]
    assert stored_since == ["00000000000000000001.json"]
    rows = root.open(NAME).to_pyarrow_table().select(panes.column_names)
    assert plain(rows) == plain(pa.table(panes))


def test_what_is_not_in_the_store_is_not_committed(root: TableRoot, sink: FileSink) -> None:
    file = make_file(panes_of("b1:8080", 3), BATCH.columns())
    with pytest.raises(BallastError, match="do workers use another store"):
        DriverWriter(root).append_files(NAME, [file], BATCH, stored=True)
    assert root.open(NAME).version() == 0


def test_a_task_tells_whether_it_may_store_files_and_leaves_none(root: TableRoot, sink: FileSink) -> None:
    before = root.log(NAME).list_data_files()
    assert sink.find_refusal() == ""
    assert root.log(NAME).list_data_files() == before
    elsewhere = FileSink("s3://nobodys/table", sink.storage_options)
    refusal = elsewhere.find_refusal()
    assert refusal.startswith("s3://nobodys/table takes no file from a task: ")
    assert "Spark's workers need credentials" in refusal
    with pytest.raises(NotStored, match="takes no file from a task"):
        elsewhere.store(b"anything")
