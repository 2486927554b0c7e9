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
from controller.ledger.table_size import TableSize, measure_table
from controller.ledger.tables import TableRoot
from controller.service import table_metrics
from controller.service.table_metrics import LONGEST_MS, MS_A_FILE, TableMetrics
from schemas.catalog import TABLES
from tests.e2e.waiting import wait_until

COMMITS = 3
NOW_MS = 1_780_000_000_000
PASS_MS = 120_000
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


def add_entry(root: TableRoot) -> None:
    Journal(root).commit([Entry(COMMITS + 1, Kind.CONTROLLER_STARTED, "i", 9, NOW_MS)], "i", 9)


def test_a_small_table_is_measured_again_after_each_pass(root: TableRoot) -> None:
    """Tables are empty when a cluster's first controller cleans up first; they once were shown so for ten minutes."""
    registry = CollectorRegistry()
    metrics = TableMetrics(registry)
    metrics.note_pass(root, NOW_MS)
    assert {name for name in TABLES if shown(registry, "ballast_table_log_files", table=name)} == set(TABLES)
    assert shown(registry, "ballast_table_files", table="journal") == COMMITS
    add_entry(root)
    shutil.rmtree(root.uri("decisions"))
    metrics.note_pass(root, NOW_MS + PASS_MS)
    assert shown(registry, "ballast_table_files", table="journal") == COMMITS + 1
    assert shown(registry, "ballast_table_log_files", table="decisions") == 1, (
        "the last figures of a table that is gone"
    )
    assert shown(registry, "ballast_cleanup_passes_total") == 2


@pytest.mark.parametrize(("files", "again_ms"), [(200, 200 * MS_A_FILE), (100_000, LONGEST_MS)])
def test_the_more_files_a_table_has_the_longer_it_is_not_measured(
    root: TableRoot, monkeypatch: pytest.MonkeyPatch, files: int, again_ms: int
) -> None:
    measured: list[str] = []

    def measure(tables: TableRoot, name: str) -> TableSize:
        measured.append(name)
        return TableSize(files - 1, 0, 1) if name == "bundle_panes" else measure_table(tables, name)

    monkeypatch.setattr(table_metrics, "measure_table", measure)
    metrics = TableMetrics(CollectorRegistry())
    for at_ms in (0, again_ms - 1, again_ms, again_ms + 1):
        metrics.note_pass(root, NOW_MS + at_ms)
    assert measured.count("bundle_panes") == 2
    metrics.note_pass(root, NOW_MS - 1)
    assert measured.count("bundle_panes") == 3, "a clock that was put back waits for nothing"


def test_a_table_that_cannot_be_measured_is_left_for_long(root: TableRoot) -> None:
    registry = CollectorRegistry()
    metrics = TableMetrics(registry)
    shutil.move(root.uri("journal"), root.uri("journal") + ".gone")
    metrics.note_pass(root, NOW_MS)
    shutil.move(root.uri("journal") + ".gone", root.uri("journal"))
    metrics.note_pass(root, NOW_MS + LONGEST_MS - 1)
    assert shown(registry, "ballast_table_files", table="journal") is None
    metrics.note_pass(root, NOW_MS + LONGEST_MS)
    assert shown(registry, "ballast_table_files", table="journal") == COMMITS


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
