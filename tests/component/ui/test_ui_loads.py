"""The newest load of a bundle, whichever pane and broker it comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from deltalake import write_deltalake

from controller.config.load import load_settings
from controller.ledger.tables import TableRoot
from controller.operations.load_history import load_history
from controller.operations.reading import Reader
from controller.ui.loads import LOOK_BACK_MS, Loads, NewestLoads
from schemas.arrow import arrow_schema, arrow_table
from schemas.catalog import TABLES

NEWEST_MS = 1_000_000


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    """Empty tables."""
    root = TableRoot(tmp_path / "tables")
    root.create_all()
    return root


def reader_of(root: TableRoot) -> Reader:
    return Reader(load_settings(None, "local", [f"tables.root={root.root}"], env={}))


def write(root: TableRoot, *rows: tuple[int, str, float], batch: int = 0, reports: int | None = None) -> None:
    """Averages: ms before the newest pane, bundle, messages/s each way; a message has a kilobyte. A later batch has
    more reports, if nothing else is said."""
    count = 1 + batch if reports is None else reports
    nothing = {f.name: "" if str(f.type) == "string" else 0 for f in arrow_schema(TABLES["bundle_load"])}
    written = [
        {**nothing, "as_of_ms": NEWEST_MS - ago_ms, "bundle": bundle, "msg_rate_in": rate, "msg_rate_out": rate,
         "throughput_in": 1_000 * rate, "throughput_out": 1_000 * rate, "reports": count, "batch_id": batch}
        for ago_ms, bundle, rate in rows
    ]  # fmt: skip
    write_deltalake(root.open("bundle_load"), arrow_table(TABLES["bundle_load"], written), mode="append")


def test_the_newest_pane_that_has_the_bundle_counts(root: TableRoot) -> None:
    write(root, (0, "a", 1.0), (10_000, "a", 9.0), (10_000, "b", 2.0), (20_000, "b", 9.0), (20_000, "c", 3.0))
    write(root, (LOOK_BACK_MS, "long-ago", 4.0))
    found = Loads(reader_of(root)).of(["c", "nobody's", "a", "b", "long-ago", "a"])
    np.testing.assert_array_equal(found.msg_rate, [6.0, np.nan, 2.0, 4.0, np.nan, 2.0])
    np.testing.assert_array_equal(found.throughput, [6_000.0, np.nan, 2_000.0, 4_000.0, np.nan, 2_000.0])


def test_a_bundle_that_two_brokers_reported_has_the_load_of_one(root: TableRoot) -> None:
    write(root, (0, "a", 1.0), (0, "b", 2.0), (0, "a", 3.0))
    found = Loads(reader_of(root)).of(["a", "b"]).msg_rate.tolist()
    assert found in ([2.0, 4.0], [6.0, 4.0])


@pytest.mark.parametrize("late_first", [False, True])
def test_the_average_with_all_reports_counts(root: TableRoot, late_first: bool) -> None:
    batches = [(1, 5.0), (2, 1.0), (3, 2.0)]
    for batch, rate in reversed(batches) if late_first else batches:
        write(root, (0, "a", rate), (20_000, "b", rate), batch=batch)
    reader = reader_of(root)
    assert Loads(reader).of(["a", "b"]).msg_rate.tolist() == [4.0, 4.0]
    (row,) = (row for row in reader.newest_by("bundle_load", "as_of_ms", ("bundle",), 30_000) if row["bundle"] == "a")
    assert row["msg_rate_in"] == 2.0


def test_after_a_new_checkpoint_batches_begin_again_and_the_most_reports_count(root: TableRoot) -> None:
    write(root, (0, "a", 5.0), (10_000, "b", 9.0), batch=700, reports=3)
    write(root, (0, "a", 1.0), (0, "b", 2.0), batch=0, reports=6)
    write(root, (0, "a", 4.0), batch=1, reports=2)
    reader = reader_of(root)
    assert Loads(reader).of(["a", "b"]).msg_rate.tolist() == [2.0, 4.0]
    rows = reader.newest_by("bundle_load", "as_of_ms", ("bundle",), 30_000)
    assert {row["bundle"]: row["msg_rate_in"] for row in rows} == {"a": 1.0, "b": 2.0}


def test_a_moment_is_one_point_of_a_history(root: TableRoot) -> None:
    write(root, (0, "a", 5.0), (10_000, "a", 3.0), batch=2)
    write(root, (0, "a", 4.0), batch=1)
    history = load_history(reader_of(root), "a", 60_000)
    assert history["at_ms"] == [NEWEST_MS - 10_000, NEWEST_MS]
    assert history["msg_rate"] == [6.0, 10.0]


def test_no_load_is_known_before_there_are_reports(root: TableRoot) -> None:
    reader = reader_of(root)
    assert np.isnan(Loads(reader).of(["a"]).throughput).all()
    assert len(Loads(reader).of([]).throughput) == 0


def test_loads_are_read_once_for_each_version(root: TableRoot) -> None:
    loads, reader = NewestLoads(), reader_of(root)
    assert loads.get(reader, 1) is loads.get(reader, 1)
    write(root, (0, "a", 1.0))
    assert loads.get(reader, 2).of(["a"]).msg_rate.tolist() == [2.0]
