"""The sizes of tables, in the metrics once a clean-up has passed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from controller.domain.entries import Entry, Kind
from controller.ledger.cleanup import CleanupThread, ControlCleanup, Kept
from controller.ledger.journal_commit import Journal
from controller.ledger.maintenance import DAY_MS
from controller.ledger.table_size import measure_table
from controller.ledger.tables import TableRoot
from controller.service.table_metrics import MEASURED_MS, TableMetrics
from schemas.catalog import TABLES
from tests.e2e.waiting import wait_until

COMMITS = 3
NOW_MS = 1_780_000_000_000
KEPT = Kept(30 * DAY_MS, 400 * DAY_MS)


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    journal = Journal(tables)
    for number in range(COMMITS):
        journal.commit([Entry(number + 1, Kind.CONTROLLER_STARTED, "i", number, NOW_MS)], "i", number)
    return tables


def shown(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def test_files_bytes_and_log_are_those_of_the_newest_version(root: TableRoot) -> None:
    folder = Path(root.uri("journal"))
    files = list(folder.glob("*.parquet"))
    size = measure_table(root, "journal")
    assert (size.files, size.size_bytes) == (COMMITS, sum(file.stat().st_size for file in files))
    assert size.log_files == len([path for path in (folder / "_delta_log").iterdir() if path.is_file()]) > COMMITS
    assert measure_table(root, "decisions").size_bytes == 0


def test_tables_are_measured_now_and_then(root: TableRoot) -> None:
    registry = CollectorRegistry()
    metrics = TableMetrics(registry)
    metrics.note_pass(root, NOW_MS)
    assert {name for name in TABLES if shown(registry, "ballast_table_log_files", table=name)} == set(TABLES)
    assert shown(registry, "ballast_table_files", table="journal") == COMMITS
    Journal(root).commit([Entry(COMMITS + 1, Kind.CONTROLLER_STARTED, "i", 9, NOW_MS)], "i", 9)
    shutil.rmtree(root.uri("decisions"))
    metrics.note_pass(root, NOW_MS + MEASURED_MS - 1)
    assert shown(registry, "ballast_table_files", table="journal") == COMMITS
    metrics.note_pass(root, NOW_MS + MEASURED_MS)
    assert shown(registry, "ballast_table_files", table="journal") == COMMITS + 1
    assert shown(registry, "ballast_table_log_files", table="decisions") == 1, (
        "the last figures of a table that is gone"
    )
    assert shown(registry, "ballast_cleanup_passes_total") == 3


def test_the_cleanup_counts_its_passes_and_the_tables_that_it_fails_on(root: TableRoot) -> None:
    registry = CollectorRegistry()
    metrics = TableMetrics(registry)
    (Path(root.uri("ownership")) / "_delta_log" / f"{1:020d}.json").write_text("{")
    cleanup = ControlCleanup(root, KEPT, on_failed=metrics.note_failure)
    thread = CleanupThread(cleanup, 0.01, lambda: NOW_MS, metrics.note_pass)
    thread.start()
    try:
        wait_until(lambda: (shown(registry, "ballast_cleanup_passes_total") or 0) >= 2, 30)
    finally:
        thread.stop()
    assert (shown(registry, "ballast_cleanup_failures_total", table="ownership") or 0) >= 2
    assert shown(registry, "ballast_cleanup_failures_total", table="journal") == 0
