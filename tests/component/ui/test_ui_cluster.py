"""What the page keeps in memory is what the tables say, also after files were merged and removed under it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.config.load import load_settings
from controller.domain.entries import Kind
from controller.ledger.tables import TableRoot
from controller.ledger.tail import TableTail
from controller.operations.overview import broker_rows
from controller.operations.reading import NoTables, Reader
from controller.ui.cluster import LiveCluster
from tests.short_run import ShortRun, play


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShortRun, LiveCluster]:
    """A run that tests may go on with, and a cluster that has followed it from the start."""
    run = play(tmp_path_factory.mktemp("followed") / "tables")
    cluster = LiveCluster(run.settings)
    cluster.poll()
    return run, cluster


def test_splits_are_found_by_the_halves_that_they_made(own: tuple[ShortRun, LiveCluster]) -> None:
    run, cluster = own
    splits = [entry for entry in run.entries if entry.kind is Kind.SPLIT]
    assert len(splits) >= 2
    reader = Reader(run.settings)
    for entry in splits:
        for half in entry.data["children"]:
            assert cluster.split_into(half) == entry
            assert reader.split_into(half) == entry
    first = str(next(iter(run.state.namespaces["shop/clicks"])))
    assert cluster.split_into(first) is None
    assert reader.split_into(first) is None


@pytest.mark.parametrize("limit", [1, 3, 1_000])
def test_the_newest_entries_about_a_bundle(own: tuple[ShortRun, LiveCluster], limit: int) -> None:
    run, cluster = own
    bundle = next(entry.bundle for entry in reversed(run.entries) if entry.bundle)
    about = [entry for entry in run.entries if entry.bundle == bundle][-limit:]
    assert cluster.reader.newest_entries("bundle", bundle, limit) == about
    assert cluster.reader.newest_entries("bundle", "no/such/bundle", limit) == []


def test_what_is_followed_is_what_is_read_anew(own: tuple[ShortRun, LiveCluster]) -> None:
    run, cluster = own
    before = len(cluster.evidence().rounds())
    run.command("mode", mode="shadow")
    assert cluster.poll()
    assert cluster.state().mode == "shadow"
    set_by = cluster.set_by("mode")
    assert set_by is not None
    assert set_by.data["args"] == {"mode": "shadow"}
    run.panes(2)
    run.round()
    assert cluster.poll()
    assert cluster.attempts() == Reader(run.settings).attempts()
    assert len(cluster.evidence().rounds()) == before + 1
    assert broker_rows(cluster.reader, cluster.evidence()) == broker_rows(Reader(run.settings))
    kept, since = cluster.recent()[1], {entry.seq for entry in run.entries}
    assert {entry.seq for entry in kept} <= since


def test_files_may_be_merged_and_removed_under_an_open_table(own: tuple[ShortRun, LiveCluster]) -> None:
    run, cluster = own
    names = ("decisions", "broker_scores", "rounds", "journal")
    before = {name: cluster.reader.rows(name, "at_ms").num_rows for name in names}
    for name in names:
        table = run.root.open(name)
        table.optimize.compact()
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert {name: cluster.reader.rows(name, "at_ms").num_rows for name in names} == before
    assert cluster.evidence().decisions(limit=5)


def test_a_table_is_followed_by_its_versions(tmp_path: Path) -> None:
    root = TableRoot(tmp_path)
    tail = TableTail(root, "quarantine")
    assert tail.poll() == -1
    root.create("quarantine")
    assert tail.poll() == 0
    root.open("quarantine").alter.set_table_properties({"delta.appendOnly": "false"})
    assert tail.poll() == 1 == root.open("quarantine").version()


def test_tables_that_are_not_read_yet_are_not_taken_for_missing(run: ShortRun, tmp_path: Path) -> None:
    cluster = LiveCluster(run.settings)
    with pytest.raises(NoTables, match="are being read; this page tries again"):
        _ = cluster.reader
    cluster.trouble = "table journal is damaged"
    with pytest.raises(NoTables, match="cannot be read: table journal is damaged; this page tries again"):
        _ = cluster.reader
    nowhere = load_settings(None, "local", [f"tables.root={tmp_path}/none"], env={})
    with pytest.raises(NoTables, match="start a controller"):
        _ = LiveCluster(nowhere).reader
