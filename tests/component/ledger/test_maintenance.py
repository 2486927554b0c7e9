"""Retention, merging and VACUUM on real tables, beside the journal's writer, followers and pinned readers."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import controller.ledger.cleanup as cleanup_module
import controller.ledger.snapshots as snapshots_module
from controller.cli.main import main
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ForeignCommit
from controller.domain.state import ClusterState
from controller.ledger.append import append, append_rows
from controller.ledger.cleanup import CleanupThread, ControlCleanup, Kept
from controller.ledger.damage import JournalGap
from controller.ledger.evidence import read_joined
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.journal_rows import EntriesExpired
from controller.ledger.loads import read_panes
from controller.ledger.maintenance import BULK, DAY_MS, DeltaRsEngine, Tended, expire_rows, maintain, retention_key
from controller.ledger.projections import Projections
from controller.ledger.snapshots import KEPT, Snapshots, load_state
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from schemas.arrow import arrow_table
from schemas.catalog import TABLES
from schemas.delta import delta_properties
from tests.component.ledger.ledger_history import History
from tests.component.loads.pane_rows import broker_pane, bundle_pane

HISTORY = History()
LAST = len(HISTORY.entries)
NOW_MS = 1_780_000_000_000
WEEK_MS = 7 * DAY_MS
KEPT_MS = {"loads_days": WEEK_MS, "evidence_days": WEEK_MS, "quarantine_days": WEEK_MS}


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merging pays from two files on."""
    monkeypatch.setattr(cleanup_module, "FEWEST_FILES", 2)


def aged(days: float = 31) -> list[Entry]:
    """The history, its first half written so many days before NOW_MS, the rest now."""
    old_ms = NOW_MS - round(days * DAY_MS)
    return [Entry.from_row(e.to_row() | {"at_ms": old_ms if e.seq <= LAST // 2 else NOW_MS}) for e in HISTORY.entries]


def commit(root: TableRoot, entries: list[Entry]) -> Journal:
    """Each batch as a commit of its own."""
    journal = Journal(root)
    for batch in sorted({e.batch for e in entries}):
        journal.commit([e for e in entries if e.batch == batch], "i", batch)
    return journal


def snapshots_at(root: TableRoot, entries: list[Entry], *seqs: int) -> None:
    for seq in seqs:
        assert Snapshots(root).save(fold(ClusterState(), entries[:seq]), at_ms=seq)


def cleanup(root: TableRoot, days: float = 30) -> ControlCleanup:
    return ControlCleanup(root, Kept(journal_ms=round(days * DAY_MS), config_history_ms=400 * DAY_MS))


def parquet_files(root: TableRoot, name: str) -> list[Path]:
    return sorted(Path(root.uri(name)).glob("*.parquet"))


def outdate(root: TableRoot, name: str, hours: float = 24) -> None:
    """Make what lies on the disk look `hours` old: VACUUM judges files by it, and tombstones by the log."""
    moment = time.time() - hours * 3600
    for path in parquet_files(root, name):
        os.utime(path, (moment, moment))


def seqs_of(root: TableRoot) -> list[int]:
    return sorted(root.open("journal").to_pyarrow_table()["seq"].to_pylist())


# -- definitions --


@pytest.mark.covers("load-data-short-lived")
def test_every_table_either_expires_or_is_bounded_by_what_it_describes() -> None:
    expiring = {name for name, record in TABLES.items() if record.table and record.table.expires_by}
    assert expiring == {*BULK, "journal", "config_history"}
    assert set(TABLES) - expiring == {"ownership", "brokers", "control_state", "overrides", "usage_model"}
    assert {retention_key(name) for name in BULK} == set(KEPT_MS)


def test_a_table_of_an_older_version_gets_the_retention_of_this_one(root: TableRoot) -> None:
    old = {"delta.logRetentionDuration": "interval 30 days", "delta.checkpointInterval": "10"}
    root.open("journal").alter.set_table_properties(old)
    journal = Journal(root)
    assert TableRoot(root.root).create_all() == []
    assert root.open("journal").metadata().configuration == delta_properties(TABLES["journal"])
    journal.commit([Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0)], "i", 0)  # nobody takes it for a foreign controller
    before = root.open("journal").version()
    TableRoot(root.root).create_all()
    assert root.open("journal").version() == before


# -- the control tables --


def test_a_quiet_cluster_is_not_touched(root: TableRoot) -> None:
    entries = aged(days=1)
    commit(root, entries)
    Projections(root).write(HISTORY.state)
    snapshots_at(root, entries, 10, 20)
    cleanup(root).run(NOW_MS)
    before = {name: root.open(name).version() for name in TABLES}
    for hour in range(24):
        assert not any(tended.anything for tended in cleanup(root).run(NOW_MS + hour * 3_600_000))
    assert {name: root.open(name).version() for name in TABLES} == before


def test_what_has_been_removed_is_not_removed_again(root: TableRoot, eager: None) -> None:
    """The log names dead files until a checkpoint forgets them; VACUUM would commit at every pass of a quiet night."""
    dead_at_once = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    root.open("journal").alter.set_table_properties(dead_at_once)
    entries = aged(days=1)
    commit(root, entries)
    assert cleanup(root).run(NOW_MS)[0].removed_files == len(HISTORY.batches)
    version = root.open("journal").version()
    assert cleanup(root).run(NOW_MS)[0] == Tended("journal")
    assert root.open("journal").version() == version


def test_merging_keeps_statistics_entries_and_the_writer(root: TableRoot, eager: None) -> None:
    half = HISTORY.batches[len(HISTORY.batches) // 2][-1].seq
    journal, follower = Journal(root), Follower(root)
    follower.bootstrap()
    middle = len(HISTORY.batches) // 2
    HISTORY.commit(journal, 0, middle)
    (tended,) = [t for t in cleanup(root).run(1) if t.table == "journal"]
    assert tended.merged_files == middle
    assert root.open("journal").get_add_actions().num_rows == 1
    assert Journal(root).last_seq == half - (half - HISTORY.batches[middle - 1][-1].seq)
    HISTORY.commit(journal, middle)  # its handle is outdated by the merge
    assert Journal(root).read_since(0) == HISTORY.entries
    follower.catch_up()
    assert follower.state == HISTORY.state


def test_who_wants_a_few_entries_reads_a_small_part_of_a_merged_journal(root: TableRoot, eager: None) -> None:
    journal, of_a_commit = Journal(root), 12_000
    for batch in range(3):
        seqs = range(batch * of_a_commit + 1, (batch + 1) * of_a_commit + 1)
        entries = [Entry(n, Kind.OFFSETS, "i", batch, NOW_MS, data={"topics": {"t": {"0": n}}}) for n in seqs]
        journal.commit(entries, "i", batch)
    cleanup(root).run(NOW_MS)
    (merged,) = root.open("journal").file_uris()
    groups = pq.ParquetFile(merged).metadata
    sizes = [groups.row_group(n).num_rows for n in range(groups.num_row_groups)]
    assert sum(sizes) == 3 * of_a_commit
    assert max(sizes) <= 2**14, "a reader decodes the groups that may have what it wants"
    assert groups.row_group(0).column(0).compression == "ZSTD", "as delta-rs merges by itself"


def test_entries_are_dropped_only_below_every_base_snapshot(root: TableRoot) -> None:
    entries = aged()
    commit(root, entries)
    assert cleanup(root).run(NOW_MS)[0] == Tended("journal"), "without a snapshot nothing may go"
    snapshots_at(root, entries, 6, LAST)
    tended = cleanup(root).run(NOW_MS)[0]
    assert tended.expired_rows
    assert seqs_of(root)[0] <= 7
    assert load_state(root) == HISTORY.state
    held = root.open("control_state").to_pyarrow_table().to_pylist()
    assert min(row["seq"] for row in held) == 6
    assert len(held) <= KEPT


def test_without_a_readable_snapshot_no_entry_may_expire(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold would start at the first entry: were it gone, no controller could start any more."""
    entries = aged()
    commit(root, entries)
    snapshots_at(root, entries, LAST)
    assert Snapshots(root).floor() == LAST

    def unreadable(text: str) -> ClusterState:
        raise ValueError("cut off")

    monkeypatch.setattr(snapshots_module, "decode", unreadable)
    assert Snapshots(root).floor() is None


def test_a_start_after_dropping_finds_the_same_state_from_any_snapshot(root: TableRoot) -> None:
    entries = aged()
    commit(root, entries)
    snapshots_at(root, entries, LAST // 2, LAST - 2, LAST)
    cleanup(root).run(NOW_MS)
    assert 1 < seqs_of(root)[0] <= LAST // 2 + 1
    for seq in (LAST, LAST - 2):
        root.open("control_state").delete(f"seq = {seq}")
        assert load_state(root) == HISTORY.state
    root.open("control_state").delete()
    with pytest.raises(EntriesExpired, match="restore control_state"):
        load_state(root)


def test_young_entries_stay_and_so_does_the_newest(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = aged(days=29)
    commit(root, entries)
    snapshots_at(root, entries, LAST)
    reading = "a base snapshot was read, which holds up the control loop for seconds where there are a million bundles"
    monkeypatch.setattr(snapshots_module, "decode", lambda text: pytest.fail(reading))
    assert cleanup(root).run(NOW_MS)[0].expired_rows == 0
    assert cleanup(root).run(NOW_MS + 365 * DAY_MS)[0].expired_rows == 0, "the clock is ahead, or the cluster was off"
    assert seqs_of(root) == list(range(1, LAST + 1))


def test_the_running_controller_and_its_followers_survive_dropping(root: TableRoot) -> None:
    entries = aged()
    journal = commit(root, entries[:-3])
    follower = Follower(root)
    follower.bootstrap()
    snapshots_at(root, entries, len(entries) - 3)
    assert cleanup(root).run(NOW_MS)[0].expired_rows
    journal.check_not_replaced("i")
    for entry in entries[-3:]:
        journal.commit([entry], "i", 10_000 + entry.seq)
    follower.catch_up()
    assert follower.state == load_state(root) == HISTORY.state


def test_a_foreign_delete_is_still_noticed(root: TableRoot) -> None:
    journal = commit(root, aged())
    root.open("journal").alter.set_table_properties({"delta.appendOnly": "false"})
    root.open("journal").delete("seq < 5")
    with pytest.raises(ForeignCommit):
        journal.commit([Entry(LAST + 1, Kind.CONTROLLER_STOPPED, "i", 99, 0)], "i", 99)


@pytest.mark.covers("ownership-store")
def test_the_journal_stays_append_only(root: TableRoot) -> None:
    entries = aged()
    commit(root, entries)
    snapshots_at(root, entries, LAST)
    assert cleanup(root).run(NOW_MS)[0].expired_rows
    assert root.open("journal").metadata().configuration == delta_properties(TABLES["journal"])
    with pytest.raises(Exception, match="append-only"):
        root.open("journal").delete("seq > 3")


def test_a_follower_older_than_the_journal_starts_again_from_a_snapshot(root: TableRoot) -> None:
    """An agent that was suspended for longer than the journal is kept."""
    entries = aged()
    early = [e for e in entries if e.batch <= entries[2].batch]
    journal = commit(root, early)
    follower = Follower(root)
    follower.bootstrap()
    assert follower.seq == len(early)
    for batch in sorted({e.batch for e in entries[len(early) :]}):
        journal.commit([e for e in entries if e.batch == batch], "i", batch)
    snapshots_at(root, entries, LAST)
    assert cleanup(root).run(NOW_MS)[0].expired_rows
    log = Path(root.uri("journal")) / "_delta_log"
    root.open("journal").create_checkpoint()
    for path in sorted(log.glob("*.json"))[:-1]:
        path.unlink()
    follower.hear(LAST)
    follower.catch_up()
    assert follower.state == HISTORY.state


def test_a_gap_within_the_journal_is_still_damage(root: TableRoot) -> None:
    entries = aged()
    commit(root, entries)
    root.open("journal").alter.set_table_properties({"delta.appendOnly": "false"})
    root.open("journal").delete("seq = 9")
    with pytest.raises(JournalGap, match="entry 9 is missing"):
        load_state(root)


def test_dead_files_of_the_projections_go_and_young_ones_stay(root: TableRoot) -> None:
    projections = Projections(root)
    for seq in range(3, LAST + 1):
        projections.write(fold(ClusterState(), HISTORY.entries[:seq]))
    written = len(parquet_files(root, "ownership"))
    pinned = root.open("ownership", version=root.open("ownership").version() - 1)
    cleanup(root).run(NOW_MS)
    assert len(parquet_files(root, "ownership")) == written, "younger than the retention: somebody may be reading them"
    assert pinned.to_pyarrow_table().num_rows


def test_a_controller_that_dies_while_it_drops_leaves_a_journal_that_guards_itself_again(root: TableRoot) -> None:
    root.open("journal").alter.set_table_properties({"delta.appendOnly": "false"})
    TableRoot(root.root).create_all()
    assert root.open("journal").metadata().configuration["delta.appendOnly"] == "true"


def test_batches_go_on_while_the_thread_cleans_up(root: TableRoot, eager: None) -> None:
    """The journal's writer and the clean-up at full speed beside each other: nothing lost, nobody stopped."""
    thread = CleanupThread(cleanup(root), 0.01, lambda: NOW_MS)
    journal, projections, state = Journal(root), Projections(root), ClusterState()
    follower = Follower(root)
    follower.bootstrap()
    thread.start()
    try:
        for at, entry in enumerate(HISTORY.entries):
            journal.commit([entry], "i", at)
            state = fold(state, [entry])
            projections.write(state)
            follower.catch_up()
    finally:
        thread.stop()
    assert root.open("journal").get_add_actions().num_rows < LAST, "nothing was merged while it ran"
    assert follower.state == state == load_state(root)


def test_a_failing_table_does_not_keep_the_others_waiting(root: TableRoot, eager: None) -> None:
    commit(root, aged(days=1))
    (Path(root.uri("ownership")) / "_delta_log" / f"{1:020d}.json").write_text("{")
    done = {tended.table for tended in cleanup(root).run(NOW_MS)}
    assert "journal" in done
    assert "ownership" not in done


def logs_of(root: TableRoot, name: str) -> set[int]:
    return {int(path.stem) for path in (Path(root.uri(name)) / "_delta_log").glob("*.json")}


@pytest.mark.parametrize("quiet_since", [14, 15, 16, 17, 18, 19])
def test_a_quiet_controller_is_not_overtaken_by_its_own_cleanup(
    root: TableRoot, monkeypatch: pytest.MonkeyPatch, quiet_since: int
) -> None:
    """Were the log cleaned up beyond the writer's handle, its next commit would go where nobody reads any more."""
    monkeypatch.setattr(cleanup_module, "FEWEST_FILES", 8)
    now = {
        "delta.logRetentionDuration": "interval 0 seconds",
        "delta.deletedFileRetentionDuration": "interval 0 seconds",
        "delta.checkpointInterval": "10",
    }
    for name in ("journal", "brokers"):
        root.open(name).alter.set_table_properties(now)
    journal, projections = Journal(root), Projections(root)
    state = HISTORY.state.copy()
    state.seq = 0
    for seq in range(1, quiet_since):  # version 1 set the properties
        entry = Entry(seq, Kind.OFFSETS, "i", seq, NOW_MS, data={"topics": {"t": {"0": seq}}})
        journal.commit([entry], "i", seq)
        state.seq = seq
        name, broker = next(iter(state.brokers.items()))
        state.brokers[name] = type(broker)(name, broker.session, {"lookup_url": str(seq)})
        projections.write(state)
    version = root.open("journal").version()
    for _ in range(3):
        cleanup(root).run(wall_ms() + 3_600_000)  # it has been quiet for an hour
    assert root.open("journal").version() > version
    assert set(range(version + 1, root.open("journal").version() + 1)) <= logs_of(root, "journal")
    for seq in (quiet_since, quiet_since + 1):
        entry = Entry(seq, Kind.OFFSETS, "i", seq, NOW_MS, data={"topics": {"t": {"0": seq}}})
        journal.commit([entry], "i", seq)
        state.seq = seq
        state.brokers[name] = type(broker)(name, broker.session, {"lookup_url": str(seq)})
        assert projections.write(state) == ["brokers"]
    assert Journal(root).last_seq == quiet_since + 1
    assert set(root.open("brokers").to_pyarrow_table()["lookup_url"].to_pylist()) >= {str(quiet_since + 1)}


# -- the bulk tables --


def fill(root: TableRoot, day: int, batch: int) -> None:
    """A batch of the loads query: panes that end within the day `day` days before NOW_MS."""
    end_ms = (NOW_MS - day * DAY_MS) // 10_000 * 10_000
    append(root, "bundle_panes", arrow_table(TABLES["bundle_panes"], [bundle_pane(end_ms, batch)]), "w:b", batch)
    append(root, "broker_panes", arrow_table(TABLES["broker_panes"], [broker_pane(end_ms, batch)]), "w:p", batch)


def tend(root: TableRoot, name: str, now_ms: int = NOW_MS) -> Tended:
    return maintain(root, DeltaRsEngine(root), KEPT_MS, now_ms, name)


@pytest.mark.covers("load-data-short-lived")
def test_expired_panes_go_and_the_rest_is_merged(root: TableRoot) -> None:
    for batch, day in enumerate([30, 20, 9, 7, 6, 5, 4, 3, 2, 1, 1, 0, 0]):
        fill(root, day, batch)
    tended = tend(root, "broker_panes")
    assert tended.expired_rows == 3, "the day that is not over yet stays"
    assert tended.merged_files == 10
    ends = root.open("broker_panes").to_pyarrow_table()["pane_end_ms"].to_pylist()
    assert min(ends) >= (NOW_MS - WEEK_MS) // DAY_MS * DAY_MS
    (merged,) = root.open("broker_panes").file_uris()
    assert pq.ParquetFile(merged).metadata.row_group(0).column(0).compression == "ZSTD"
    assert tend(root, "broker_panes") == Tended("broker_panes")


def test_markers_of_batches_survive(root: TableRoot) -> None:
    for batch, day in enumerate([30, 29, 0]):
        fill(root, day, batch)
    tend(root, "broker_panes")
    rows = arrow_table(TABLES["broker_panes"], [broker_pane(NOW_MS, 0)])
    assert not append(TableRoot(root.root), "broker_panes", rows, "w:p", 2), "the batch is there already"
    assert append(TableRoot(root.root), "broker_panes", rows, "w:p", 3)


def test_a_recording_of_last_year_and_a_clock_that_is_ahead_delete_nothing(root: TableRoot) -> None:
    for batch, day in enumerate([400, 399]):
        fill(root, day, batch)
    assert tend(root, "broker_panes").expired_rows == 0
    assert expire_rows(root, "bundle_panes", WEEK_MS, NOW_MS + 4000 * DAY_MS) == 0


def test_a_pinned_reader_and_a_running_writer_survive_maintenance(root: TableRoot) -> None:
    for batch in range(20):
        fill(root, 0 if batch > 4 else 12, batch)
    pinned = read_panes(root, NOW_MS, 60_000)
    stop, failures, written = threading.Event(), [], [20]

    def write() -> None:
        tables = TableRoot(root.root)
        while not stop.is_set():
            try:
                fill(tables, 0, written[0])
            except Exception as error:
                failures.append(error)
                return
            written[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            for name in ("broker_panes", "bundle_panes"):
                tend(root, name)
    finally:
        stop.set()
        writer.join()
    assert failures == []
    again = read_panes(root, NOW_MS, 60_000, versions=pinned.versions)
    assert again.versions == pinned.versions
    assert {k: v.tolist() for k, v in again.brokers.items()} == {k: v.tolist() for k, v in pinned.brokers.items()}
    batches = root.open("broker_panes").to_pyarrow_table()["batch_id"].to_pylist()
    assert sorted(batches) == list(range(5, written[0]))


def test_a_writer_that_rested_longer_than_the_log_is_kept_goes_on(root: TableRoot) -> None:
    """Merging and VACUUM clean up the log of bulk tables; the loads query's handle may be older than what is left."""
    now = {"delta.logRetentionDuration": "interval 0 seconds", "delta.checkpointInterval": "5"}
    root.open("broker_panes").alter.set_table_properties(now)
    tables = TableRoot(root.root)
    fill(tables, 0, 0)
    for batch in range(1, 30):
        rows = arrow_table(TABLES["broker_panes"], [broker_pane(NOW_MS, batch)])
        append(TableRoot(root.root), "broker_panes", rows, "other", batch)
        tend(root, "broker_panes")
    assert min(logs_of(root, "broker_panes")) > 10
    fill(tables, 0, 1)
    batches = root.open("broker_panes").to_pyarrow_table()["writer"].to_pylist()
    assert len(batches) == 31


def test_evidence_and_quarantine_expire(root: TableRoot) -> None:
    for days in (30, 9, 0):
        at_ms = NOW_MS - days * DAY_MS
        row: dict[str, Any] = {"detected_ms": at_ms, "topic": "t", "partition": 0, "kafka_offset": days, "rule": "r"}
        append_rows(root, "quarantine", [row | {"text": "x", "raw_base64": False, "source": "control", "batch_id": 0}])
        score = {"round_id": str(days), "attempt_id": f"a{days}", "at_ms": at_ms, "broker": "b", "hits": 0}
        append_rows(root, "broker_scores", [score | {"eligible": True, "is_source": False}])
    commit(root, [Entry(1, Kind.ROUND, "i", 0, NOW_MS, attempt_id="a0", data={"round_id": "0"})])
    assert tend(root, "quarantine").expired_rows == 2
    assert tend(root, "broker_scores").expired_rows == 2
    assert read_joined(root, "broker_scores")["round_id"].to_pylist() == ["0"]


# -- nothing grows --


def test_what_is_left_does_not_grow_with_what_was_committed(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A month in small: 12 "days" of 25 commits and a pass each, of which two are kept; a log of 3 seconds."""
    monkeypatch.setattr(cleanup_module, "FEWEST_FILES", 8)
    monkeypatch.setattr(cleanup_module, "TARGET_BYTES", 20_000)
    short = dict.fromkeys(("delta.logRetentionDuration", "delta.deletedFileRetentionDuration"), "interval 3 seconds")
    short["delta.checkpointInterval"] = "10"
    for name in ("journal", "control_state"):
        root.open(name).alter.set_table_properties(
            {**short, "delta.deletedFileRetentionDuration": "interval 3 seconds"}
        )
    journal, state, cleaner = Journal(root), ClusterState(), cleanup(root, days=2)
    first_ms = wall_ms() - 12 * DAY_MS
    for batch in range(12 * 25):
        now_ms = first_ms + batch // 25 * DAY_MS + batch % 25
        entry = Entry(batch + 1, Kind.OFFSETS, "i", batch, now_ms, data={"topics": {"t": {"0": batch}}})
        journal.commit([entry], "i", batch)
        state = fold(state, [entry])
        if batch % 25 == 24:
            Snapshots(root).save(state, at_ms=batch)
            cleaner.run(now_ms)
    time.sleep(3.2)
    for extra in range(1, 12):  # a checkpoint beyond what is to go
        entry = Entry(state.seq + 1, Kind.OFFSETS, "i", 600 + extra, now_ms, data={"topics": {"t": {"0": 0}}})
        journal.commit([entry], "i", 600 + extra)
        state = fold(state, [entry])
    cleaner.run(wall_ms())
    files = {name: list(Path(root.uri(name)).rglob("*.*")) for name in ("journal", "control_state")}
    assert len(files["journal"]) < 90
    assert len(files["control_state"]) < 60
    assert len(seqs_of(root)) <= 25 * 5
    assert load_state(root) == state


# -- the command --


def test_the_command_tends_all_bulk_tables_and_says_so(root: TableRoot, capsys: pytest.CaptureFixture[str]) -> None:
    for batch, day in enumerate([30, 20, *[1] * 8]):
        fill(root, day, batch)
    assert ballast("maintain", "--json", "--set", f"tables.root={root.root}") == 0
    tables = {row["table"]: row for row in json.loads(capsys.readouterr().out)["tables"]}
    assert list(tables) == list(BULK)
    assert tables["broker_panes"] | {"removed_files": 0} == {
        "table": "broker_panes", "expired_rows": 2, "merged_files": 8, "removed_files": 0,
    }  # fmt: skip
    kept = ["--set", "retention.loads_days=60", "--set", f"tables.root={root.root}", "--table", "bundle_panes"]
    assert ballast("maintain", *kept) == 0
    assert root.open("bundle_panes").to_pyarrow_table().num_rows == 8


def test_the_control_tables_are_not_for_the_command(root: TableRoot, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("maintain", "--table", "journal", "--set", f"tables.root={root.root}") == 2
    assert "cleaned up by the controller" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", ["retention.journal_days=3", "retention.loads_days=0.5", "retention.evidence_days=31"]
)
def test_retentions_that_do_not_fit_each_other_are_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ballast("maintain", "--set", wrong) == 2
    assert "does not fit" in capsys.readouterr().err


def ballast(*words: str) -> int:
    """The command's exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)
