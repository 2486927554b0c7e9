"""Snapshots, the follower and the projections, on real tables: whatever way one reads, the state is the fold."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st

import controller.ledger.follower as follower_module
import controller.ledger.projections as projections_module
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.errors import ForeignCommit, InvariantBroken
from controller.domain.observed import Block, Observation, Order, OrderKind
from controller.domain.ring import initial_bundles
from controller.domain.state import ClusterState
from controller.ledger.append import append_rows
from controller.ledger.damage import JournalGap
from controller.ledger.delta_log import DeltaLog
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import Projections, broker_rows, ownership_rows
from controller.ledger.snapshots import KEPT, Snapshots, load_state
from controller.ledger.tables import TableRoot
from controller.testbed.demo.scenario import check_journal
from tests.component.ledger.ledger_history import History, compact, vacuum

HISTORY = History()
LAST = len(HISTORY.entries)


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


def state_at(seq: int) -> ClusterState:
    return fold(ClusterState(), HISTORY.entries[:seq])


# -- snapshots --


def test_load_state_is_the_fold_with_and_without_a_snapshot(root: TableRoot) -> None:
    HISTORY.commit(Journal(root))
    assert load_state(root) == HISTORY.state
    assert Snapshots(root).latest() is None
    assert Snapshots(root).save(state_at(20), at_ms=5)
    assert Snapshots(root).latest() == state_at(20)
    assert load_state(root) == HISTORY.state


def test_only_the_newest_snapshots_are_kept_and_none_falls_back(root: TableRoot) -> None:
    snapshots = Snapshots(root)
    assert all(snapshots.save(state_at(seq), at_ms=seq) for seq in (5, 10, 15, 20))
    assert not Snapshots(root).save(state_at(12), at_ms=1)
    assert not Snapshots(root).save(state_at(20), at_ms=1)
    kept = root.open("control_state").to_pyarrow_table().to_pylist()
    assert sorted(row["seq"] for row in kept) == [10, 15, 20]
    assert len(kept) == KEPT
    assert Snapshots(root).latest() == state_at(20)


def test_a_demos_check_of_its_journal_is_not_misled_by_a_commit_beside_it(root: TableRoot) -> None:
    journal = Journal(root)
    HISTORY.commit(journal, 0, 10)
    follower = Follower(root)
    follower.bootstrap()

    def commit_and_read() -> ClusterState:
        """A round commits while the demo looks at the state."""
        HISTORY.commit(journal, 10, 12)
        follower.catch_up()
        return follower.state

    check_journal(root.root, commit_and_read)
    assert follower.seq == journal.last_seq


def test_a_demos_check_of_its_journal_names_what_differs(root: TableRoot) -> None:
    HISTORY.commit(Journal(root))
    wrong = HISTORY.state.copy()
    wrong.rounds += 1
    with pytest.raises(
        InvariantBroken, match=f"up to {wrong.seq} differs from the projection at {wrong.seq} in rounds"
    ):
        check_journal(root.root, lambda: wrong)


def test_an_unreadable_snapshot_costs_time_and_nothing_else(root: TableRoot) -> None:
    HISTORY.commit(Journal(root))
    assert Snapshots(root).save(state_at(20), at_ms=5)
    broken = {"instance": "i", "at_ms": 6}
    append_rows(root, "control_state", [{**broken, "seq": 25, "state_json": '{"seq":25}'}])
    append_rows(root, "control_state", [{**broken, "seq": 26, "state_json": "{"}])
    assert Snapshots(root).latest() == state_at(20)
    assert load_state(root) == HISTORY.state


def test_no_tables_is_the_empty_state(tmp_path: Path) -> None:
    assert load_state(tmp_path / "none") == ClusterState()


# -- follower --


def test_bootstrap_then_tail(root: TableRoot) -> None:
    journal, follower = Journal(root), Follower(root)
    HISTORY.commit(journal, 0, 10)
    Snapshots(root).save(state_at(journal.last_seq), at_ms=1)
    HISTORY.commit(journal, 10, 12)
    assert follower.bootstrap() == state_at(journal.last_seq)
    before = follower.seq
    HISTORY.commit(journal, 12)
    assert follower.catch_up() == HISTORY.entries[before:]
    assert follower.state == HISTORY.state
    assert follower.catch_up() == []


@pytest.mark.covers("ownership-replicated")
def test_feed_entries_apply_once_and_in_order_whatever_their_order(root: TableRoot) -> None:
    shuffled = [*HISTORY.entries, *HISTORY.entries]
    random.Random(7).shuffle(shuffled)
    follower = Follower(root)
    follower.bootstrap()
    applied = [entry for one in shuffled for entry in follower.offer([one])]
    assert applied == HISTORY.entries
    assert follower.state == HISTORY.state
    assert follower.behind == 0


@pytest.mark.covers("ownership-replicated")
def test_a_gap_in_the_feed_waits_and_is_filled_from_the_table(root: TableRoot) -> None:
    follower = Follower(root)
    follower.bootstrap()
    HISTORY.commit(Journal(root), 0, 20)
    committed = Journal(root).last_seq
    assert follower.offer(HISTORY.entries[5:committed]) == []
    assert (follower.seq, follower.known_seq, follower.behind) == (0, committed, committed)
    assert follower.catch_up() == HISTORY.entries[:committed]
    assert follower.behind == 0
    follower.hear(committed + 3)
    assert follower.behind == 3


def test_entries_offered_before_bootstrap_are_kept_for_it(root: TableRoot) -> None:
    HISTORY.commit(Journal(root), 0, 10)
    committed = Journal(root).last_seq
    follower = Follower(root)
    assert follower.offer(HISTORY.entries[committed - 2 :]) == []
    follower.bootstrap()
    assert follower.state == HISTORY.state


def test_catch_up_drains_what_the_feed_said_beyond_the_table(root: TableRoot) -> None:
    follower = Follower(root)
    follower.bootstrap()
    follower.offer(HISTORY.entries[10:])
    HISTORY.commit(Journal(root), 0, 5)
    committed = Journal(root).last_seq
    expected = HISTORY.entries if committed >= 10 else HISTORY.entries[:committed]
    assert follower.catch_up() == expected


def test_the_buffer_is_bounded_and_the_table_fills_the_rest(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "BUFFERED", 5)
    follower = Follower(root)
    follower.bootstrap()
    assert follower.offer(HISTORY.entries[1:]) == []
    assert follower.offer(HISTORY.entries[:1]) == HISTORY.entries[:6]
    HISTORY.commit(Journal(root))
    assert follower.catch_up() == HISTORY.entries[6:]


def test_compaction_and_vacuum_behind_a_follower(root: TableRoot) -> None:
    journal, follower = Journal(root), Follower(root)
    HISTORY.commit(journal, 0, 5)
    follower.bootstrap()
    HISTORY.commit(journal, 5, 8)
    compact(root)
    vacuum(root)  # the files that the follower's next commits name are gone
    HISTORY.commit(journal, 8, 10)
    follower.catch_up()
    assert follower.state == state_at(journal.last_seq)
    compact(root)
    assert follower.catch_up() == []


def test_cleaned_up_log_files_do_not_stop_a_follower(root: TableRoot) -> None:
    journal, follower = Journal(root), Follower(root)
    HISTORY.commit(journal, 0, 5)
    follower.bootstrap()
    HISTORY.commit(journal, 5)
    root.open("journal").create_checkpoint()
    for version in range(6, journal.version):
        (Path(root.uri("journal")) / "_delta_log" / f"{version:020d}.json").unlink()
    assert follower.catch_up() == [], "nothing tells that there is news"
    follower.hear(LAST)
    follower.catch_up()
    assert follower.state == HISTORY.state


def test_a_follower_that_heard_nothing_looks_at_the_whole_table_now_and_then(
    root: TableRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "REOPEN_AFTER_VERSIONS", 3)
    journal, follower = Journal(root), Follower(root)
    HISTORY.commit(journal, 0, 5)
    follower.bootstrap()
    HISTORY.commit(journal, 5)
    root.open("journal").create_checkpoint()
    for version in range(6, journal.version):
        (Path(root.uri("journal")) / "_delta_log" / f"{version:020d}.json").unlink()
    for _ in range(3):
        follower.catch_up()
    assert follower.state == HISTORY.state


def test_one_entry_behind_many_that_the_feed_told_costs_as_much_as_behind_few(
    root: TableRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that lives on the feed has read no version since its start; each takes an object store 150 ms."""
    asked: list[str] = []
    for name in ("_kind_of", "read_file"):
        real = getattr(DeltaLog, name)
        monkeypatch.setattr(DeltaLog, name, lambda log, *args, _real=real: asked.append(log.uri) or _real(log, *args))
    journal, follower = Journal(root), Follower(root)
    follower.bootstrap()
    costs = []
    for told in (2, 8, 30):
        seqs = range(follower.seq + 1, follower.seq + told + 2)
        entries = [Entry(seq, Kind.ALARM, "i", seq, 0, reason="x") for seq in seqs]
        for entry in entries:
            journal.commit([entry], "i", entry.batch)
        follower.offer(entries[:-1])
        asked.clear()
        assert follower.catch_up() == entries[-1:]
        costs.append(len(asked))
    assert costs[2] <= costs[1] <= 10, costs
    assert follower.catch_up() == []


def test_a_seq_that_the_whole_table_does_not_have_is_forgotten(root: TableRoot) -> None:
    """Somebody made it up: it must not have the table read as a whole at every poll from now on."""
    HISTORY.commit(Journal(root))
    follower = Follower(root)
    follower.bootstrap()
    follower.hear(2**40)
    assert follower.catch_up() == []
    assert (follower.known_seq, follower.behind) == (LAST, 0)


def test_a_follower_may_start_before_the_tables(tmp_path: Path) -> None:
    tables = TableRoot(tmp_path / "later")
    follower = Follower(tmp_path / "later")
    assert follower.bootstrap() == ClusterState()
    assert follower.catch_up() == []
    tables.create_all()
    HISTORY.commit(Journal(tables))
    assert follower.catch_up() == HISTORY.entries


def test_a_table_that_has_gone_is_one_that_cannot_be_read_until_it_is_back(root: TableRoot) -> None:
    journal, folder = Journal(root), Path(root.uri("journal"))
    HISTORY.commit(journal, 0, 20)
    follower = Follower(root)
    follower.bootstrap()
    away = folder.rename(folder.with_name("away"))
    follower.hear(follower.seq + 1)
    with pytest.raises((DeltaError, OSError)):
        follower.catch_up()
    away.rename(folder)
    HISTORY.commit(journal, 20)
    follower.catch_up()
    assert follower.state == HISTORY.state


def test_a_gap_in_the_table_is_not_followed(root: TableRoot) -> None:
    HISTORY.commit(Journal(root), 0, 3)
    follower = Follower(root)
    follower.bootstrap()
    append_rows(root, "journal", [Entry(follower.seq + 2, Kind.CONTROLLER_STOPPED, "i", 99, 0).to_row()])
    with pytest.raises(JournalGap, match=rf"entry {follower.seq + 1} is missing, .* `ballast repair`"):
        follower.catch_up()


# -- projections --


def table_rows(root: TableRoot, name: str, key: str) -> list[dict[str, object]]:
    rows = root.open(name).to_pyarrow_table().sort_by(key).to_pylist()
    return [{k: v for k, v in row.items() if k != "seq"} for row in rows]


def table_seqs(root: TableRoot, name: str) -> set[int]:
    return set(root.open(name).to_pyarrow_table()["seq"].to_pylist())


@pytest.mark.covers("list-distribution", "ownership-recorded")
def test_projections_are_the_fold_after_every_batch(root: TableRoot) -> None:
    journal, projections, state = Journal(root), Projections(root), ClusterState()
    for batch in HISTORY.batches:
        journal.commit(batch, "i", batch[0].batch)
        state = fold(state, batch)
        projections.write(state)
        assert table_rows(root, "ownership", "bundle") == ownership_rows(state)
        assert table_rows(root, "brokers", "broker") == broker_rows(state)
    assert load_state(root) == state
    owners = {row["bundle"]: row["by_broker"] for row in table_rows(root, "ownership", "bundle")}
    assert owners == {name: r.by.broker if r.by else None for name, r in HISTORY.state.bundles.items()}
    states = {row["broker"]: row["state"] for row in table_rows(root, "brokers", "broker")}
    assert states == {"a:1": "alive", "b:1": "gone"}


def test_only_rows_that_entries_changed_are_made_again(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def rows_of(state: ClusterState, names: Iterable[str]) -> list[dict[str, Any]]:
        made.extend(names)
        return list(real(state, names))

    real = projections_module._rows_of
    projections = Projections(root)
    projections.write(HISTORY.state)
    monkeypatch.setattr(projections_module, "_rows_of", rows_of)
    later = HISTORY.state.copy()
    name, record = next(iter(later.bundles.items()))
    later.put(replace(record, cause="another"))
    later.seq += 1
    projections.write(later)
    assert made == [name]
    assert table_rows(root, "ownership", "bundle") == ownership_rows(later)


@given(st.data())
def test_rows_of_observed_bundles_follow_what_they_are_made_of(data: st.DataObject) -> None:
    """Bundles that come, change and go; their orders and blocks; a part of them owned by the journal."""
    table, state = projections_module._OwnershipTable(), ClusterState()
    bundles = initial_bundles("t/n", 4)
    owned = next(iter(HISTORY.state.bundles.values()))
    for seq in range(1, data.draw(st.integers(2, 8))):
        bundle = data.draw(st.sampled_from(bundles))
        name, seen = str(bundle), Observation(bundle, data.draw(st.sampled_from(["a", "b", None])), seq)
        order = Order("o", OrderKind.MOVE, bundle, "a", "n", seq, target=data.draw(st.sampled_from(["b", "c"])))
        state = state.copy()
        for held, value in (
            (state.bundles, replace(owned, bundle=bundle, seq=seq)), (state.observed.bundles, seen),
            (state.observed.orders, order), (state.observed.blocks, Block(failures=seq)),
        ):  # fmt: skip
            deed = data.draw(st.sampled_from(["put", "leave", "drop"]))
            if deed == "put":
                held[name] = value  # type: ignore[index]
            elif deed == "drop":
                held.pop(name, None)  # type: ignore[attr-defined]
        assert table.of(state).to_pylist() == ownership_rows(state)


def test_a_table_without_changes_is_not_written(root: TableRoot) -> None:
    projections = Projections(root)
    assert projections.write(HISTORY.state) == ["ownership", "brokers"]
    later = HISTORY.state.copy()
    later.seq += 1
    assert projections.write(later) == []
    assert Projections(root).write(later) == [], "a new process finds it as it should be"
    assert table_seqs(root, "ownership") == {LAST}


def test_a_projection_never_falls_back(root: TableRoot) -> None:
    old, new = Projections(root), Projections(root)
    old.write(state_at(10))
    new.write(HISTORY.state)
    with pytest.raises(ForeignCommit, match=f"includes journal seq {LAST}"):
        old.write(state_at(20))
    with pytest.raises(ForeignCommit):
        Projections(root).write(state_at(20))
    assert table_seqs(root, "ownership") == {LAST}


def test_a_projection_goes_on_after_compaction_and_reopening(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projections_module, "REOPEN_AFTER_VERSIONS", 2)
    projections = Projections(root)
    for seq in range(3, LAST + 1):
        projections.write(state_at(seq))
        if seq % 10 == 0:
            compact(root, "ownership")
            vacuum(root, "ownership")
    assert table_rows(root, "ownership", "bundle") == ownership_rows(HISTORY.state)


def test_a_lost_projection_is_rebuilt(root: TableRoot) -> None:
    Projections(root).write(HISTORY.state)
    root.open("ownership").delete()
    assert Projections(root).write(HISTORY.state) == ["ownership"]
    assert table_rows(root, "ownership", "bundle") == ownership_rows(HISTORY.state)
