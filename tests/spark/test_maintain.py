"""Maintenance by Spark under the same contract as by delta-rs: beside writers of both kinds and a pinned reader."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from controller.config.sections.platform import Tables
from controller.config.settings import Settings
from controller.ledger.append import append
from controller.ledger.loads import read_panes
from controller.ledger.maintenance import BULK, DAY_MS, Tended, maintain
from controller.ledger.tables import TableRoot
from controller.loads.driver_writer import Marker
from jobs.loads_writers import SparkWriter
from jobs.maintain_job import SparkEngine, maintain_all
from schemas.arrow import arrow_table
from schemas.catalog import TABLES
from tests.component.loads.pane_rows import broker_pane

NOW_MS = 1_800_000_000_000
KEPT_MS = {"loads_days": 7 * DAY_MS}


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


def fill(root: TableRoot, day: float, batch: int) -> None:
    end_ms = round(NOW_MS - day * DAY_MS) // 10_000 * 10_000
    append(root, "broker_panes", arrow_table(TABLES["broker_panes"], [broker_pane(end_ms, batch)]), "w", batch)


@pytest.mark.spark
def test_expired_rows_go_small_files_are_merged_and_a_second_run_does_nothing(spark: Any, root: TableRoot) -> None:
    for batch, day in enumerate([30, 20, 9, *[2] * 6, *[0] * 6]):
        fill(root, day, batch)
    engine = SparkEngine(spark, root)
    assert maintain(root, engine, KEPT_MS, NOW_MS, "broker_panes") == Tended("broker_panes", 12, 3, 0)
    assert maintain(root, engine, KEPT_MS, NOW_MS, "broker_panes") == Tended("broker_panes")
    assert sorted(root.open("broker_panes").to_pyarrow_table()["batch_id"].to_pylist()) == list(range(3, 15))


@pytest.mark.spark
@pytest.mark.thorough
def test_writers_of_both_kinds_and_a_pinned_reader_survive(spark: Any, root: TableRoot) -> None:
    for batch in range(12):
        fill(root, 12 if batch < 4 else 0, batch)
    pinned = read_panes(root, NOW_MS, 60_000)
    stop, failures, written = threading.Event(), [], [12]

    def write() -> None:
        tables = TableRoot(root.root)
        while not stop.is_set():
            try:
                fill(tables, 0, written[0])
            except Exception as error:
                failures.append(error)
                return
            written[0] += 1
            stop.wait(0.5)  # the loads query commits every two seconds

    writer = threading.Thread(target=write)
    writer.start()
    try:
        maintain(root, SparkEngine(spark, root), KEPT_MS, NOW_MS, "broker_panes")
        marker = Marker("q", 7, {})
        row = spark.createDataFrame(arrow_table(TABLES["broker_panes"], [broker_pane(NOW_MS, 7)]).to_pandas())
        for _ in range(2):  # the second is the same batch again
            SparkWriter(root).append("broker_panes", row, marker, marker.columns())
        maintain(root, SparkEngine(spark, root), KEPT_MS, NOW_MS, "broker_panes")
    finally:
        stop.set()
        writer.join()
    assert failures == []
    again = read_panes(root, NOW_MS, 60_000, versions=pinned.versions)
    assert {k: v.tolist() for k, v in again.brokers.items()} == {k: v.tolist() for k, v in pinned.brokers.items()}
    rows = root.open("broker_panes").to_pyarrow_table()
    assert sorted(rows["batch_id"].to_pylist()) == sorted([7, *range(4, written[0])])


@pytest.mark.spark
def test_dead_files_are_removed(spark: Any, root: TableRoot) -> None:
    """By the table's own property: here everything that is no longer named is dead at once."""
    root.open("broker_panes").alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    for batch in range(9):
        fill(root, 0, batch)
    engine = SparkEngine(spark, root)
    assert engine.compact("broker_panes") == 9
    assert engine.vacuum("broker_panes") == 9
    assert len(list(Path(root.uri("broker_panes")).glob("*.parquet"))) == 1
    assert engine.vacuum("broker_panes") == 0


@pytest.mark.spark
def test_one_broken_table_does_not_keep_the_others_waiting(spark: Any, root: TableRoot) -> None:
    (Path(root.uri("quarantine")) / "_delta_log" / f"{1:020d}.json").write_text("{")
    settings = Settings(tables=Tables(root=root.root))
    done = dict(zip(BULK, maintain_all(root, SparkEngine(spark, root), settings, BULK), strict=True))
    assert [name for name, tended in done.items() if tended is None] == ["quarantine"]
