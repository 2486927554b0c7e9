"""A journal that a newer version has written into: agents, projections, snapshots and commands of this one go on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind, UnknownKind
from controller.domain.state import ClusterState
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import Projections, broker_rows, ownership_rows
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from tests.component.ledger.ledger_history import History, interleaved
from tests.component.test_agent_watcher import NoKafka, Stage

TIDE = UnknownKind("tide_turned")
NEWER = interleaved(History().entries, TIDE)
STATE = fold(ClusterState(), interleaved(History().entries, Kind.ALARM))
HALF = len(NEWER) // 2


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    tables = TableRoot(tmp_path / "tables")
    tables.create_all()
    return tables


def commit(root: TableRoot, entries: list[Entry]) -> None:
    Journal(root).commit(entries, "i", entries[-1].batch)


def test_state_snapshot_and_projections_are_the_fold(root: TableRoot) -> None:
    commit(root, NEWER)
    assert load_state(root) == STATE
    assert Snapshots(root).save(load_state(root), at_ms=1)
    assert load_state(root) == STATE
    Projections(root).write(load_state(root))
    for name, rows in (("ownership", ownership_rows(STATE)), ("brokers", broker_rows(STATE))):
        found = root.open(name).to_pyarrow_table().drop_columns("seq").to_pylist()
        assert sorted(found, key=str) == sorted(rows, key=str)


def test_a_follower_counts_them_from_the_table_and_from_the_feed(root: TableRoot) -> None:
    commit(root, NEWER[:HALF])
    follower = Follower(root)
    follower.bootstrap()
    commit(root, NEWER[HALF:-4])
    assert [e.seq for e in follower.catch_up()] == [e.seq for e in NEWER[HALF:-4]]
    assert follower.offer(NEWER[-4:]) == NEWER[-4:]
    assert follower.state == STATE


def test_an_agent_applies_them_in_their_turn(tmp_path: Path) -> None:
    async def play() -> None:
        stage = Stage(tmp_path / "tables")
        stage.commit(Kind.CONTROLLER_STARTED)
        await stage.watcher.start(NoKafka())
        running = asyncio.create_task(stage.watcher.run())
        try:
            for kind in (TIDE, Kind.MODE, TIDE):
                stage.tell(stage.commit(kind, data={"mode": "live"}))  # type: ignore[arg-type]
            await stage.follows()
            stage.commit(TIDE)  # type: ignore[arg-type]
            stage.repeat()
            await stage.follows()  # from the table, as the feed did not bring it
            assert stage.applied == [2, 3, 4, 5]
            assert stage.watcher.state.mode == "live"
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            stage.watcher.close()

    asyncio.run(play())


def test_a_controller_of_this_version_may_commit_behind_them(root: TableRoot) -> None:
    cut = next(e.seq for e in reversed(NEWER) if e.kind == TIDE)
    commit(root, NEWER[:cut])
    journal = Journal(root)
    assert journal.last() == NEWER[cut - 1]
    journal.commit(NEWER[cut:] or [Entry(cut + 1, Kind.MODE, "i", 99, 0, data={"mode": "live"})], "i", 99)
    assert load_state(root).seq == max(cut + 1, len(NEWER))


@pytest.mark.parametrize(
    "command", ["journal --limit 1000", "journal --json --limit 1000", "status --offline", "bundles"]
)
def test_commands_show_them_or_pass_them_over(
    root: TableRoot, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(root, NEWER)
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--set", f"tables.root={root.root}"])
    told = capsys.readouterr()
    assert ended.value.code == 0, told.err
    if command.startswith("journal"):
        assert told.out.count(TIDE) == sum(e.kind == TIDE for e in NEWER)
    if "--json" in command:
        assert [row["seq"] for row in json.loads(told.out)] == [e.seq for e in NEWER]


def test_what_a_bundle_went_through_is_explained_all_the_same(
    root: TableRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(root, NEWER)
    bundle = next(e.bundle for e in NEWER if e.kind == TIDE and e.bundle)
    with pytest.raises(SystemExit) as ended:
        main(["explain", str(bundle), "--json", "--set", f"tables.root={root.root}"])
    assert ended.value.code == 0
    assert TIDE in {row["kind"] for row in json.loads(capsys.readouterr().out)["journal"]}
