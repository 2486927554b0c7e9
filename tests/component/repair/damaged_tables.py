"""A real journal with snapshots and projections, and ways to damage its files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from controller.domain.apply import fold
from controller.domain.entries import Entry, Kind
from controller.domain.state import ClusterState
from controller.domain.state_codec import encode
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import Projections
from controller.ledger.repair.execute import carry_out
from controller.ledger.repair.heard import NOTHING, Heard, gather
from controller.ledger.repair.plan import Plan, make_plan
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from tests.component.ledger.ledger_history import History, compact, vacuum


def beginning_of_history(batches: int) -> History:
    """A real journal's first batches: fewer files are as good for damaging them."""
    history = History()
    history.batches = history.batches[:batches]
    history.entries = [entry for batch in history.batches for entry in batch]
    history.state = fold(ClusterState(), history.entries)
    return history


NOW_MS = 1_790_000_000_000
HISTORY = beginning_of_history(16)
MERGED, SNAPSHOT = 4, 7  # batches that one merged file holds; batches that the base snapshot includes
END = HISTORY.batches[-1][0].seq  # the first entry of the last batch
MERGED_SEQ = HISTORY.batches[MERGED - 1][-1].seq
LAST = HISTORY.entries[-1].seq
SNAPSHOT_SEQ = HISTORY.batches[SNAPSHOT - 1][-1].seq
WHOLE = encode(HISTORY.state)  # what the journal has to tell after each repair


def state_after(batches: int) -> ClusterState:
    """The state after so many batches."""
    return fold(ClusterState(), [entry for batch in HISTORY.batches[:batches] for entry in batch])


def write_tables(folder: Path) -> TableRoot:
    """The journal of `HISTORY`: a merged file, a checkpoint, a snapshot, and a commit a batch after them."""
    root = TableRoot(folder)
    root.create_all()
    HISTORY.commit(Journal(root), 0, MERGED)
    compact(root)
    HISTORY.commit(Journal(root), MERGED, SNAPSHOT - 1)
    root.open("journal").create_checkpoint()
    HISTORY.commit(Journal(root), SNAPSHOT - 1, SNAPSHOT)
    Snapshots(root).save(state_after(SNAPSHOT), NOW_MS)
    HISTORY.commit(Journal(root), SNAPSHOT)
    Projections(root).write(HISTORY.state)
    return root


class Tables:
    """A copy of these tables to damage."""

    def __init__(self, pristine: Path, folder: Path) -> None:
        shutil.copytree(pristine, folder)
        self.root = TableRoot(folder)

    def folder(self, name: str) -> Path:
        """Of a table."""
        return Path(self.root.uri(name))

    def commit_file(self, version: int, name: str = "journal") -> Path:
        """Of a version of a table; -1 is the newest, -2 the one before."""
        files = sorted((self.folder(name) / "_delta_log").glob("*.json"))
        return files[version] if version < 0 else self.folder(name) / "_delta_log" / f"{version:020d}.json"

    def checkpoint(self, name: str = "journal") -> Path:
        """The file of the only checkpoint."""
        return next((self.folder(name) / "_delta_log").glob("*.checkpoint.parquet"))

    def data_file(self, seq: int) -> Path:
        """The file of the journal's newest version that holds an entry."""
        return self.folder("journal") / next(
            row["path"] for row in self._adds() if row["min.seq"] <= seq <= row["max.seq"]
        )

    def forget_dead_files(self) -> None:
        """VACUUM has removed what merging left behind."""
        vacuum(self.root)

    def _adds(self) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = pa.table(self.root.open("journal").get_add_actions(flatten=True)).to_pylist()
        return rows

    def forget_snapshots(self) -> None:
        """There never was one."""
        shutil.rmtree(self.folder("control_state"))
        self.root.create("control_state")

    def save_snapshot(self) -> None:
        """One of the newest state, as a clean stop leaves it."""
        Snapshots(self.root).save(HISTORY.state, NOW_MS)

    def clean_log(self, below: int) -> None:
        """The log's clean-up has removed the commits below a checkpoint."""
        for file in (self.folder("journal") / "_delta_log").glob("*.json"):
            if int(file.stem) < below:
                file.unlink()

    def plan(self, heard: Heard = NOTHING, **more: object) -> Plan:
        """What a repair would do."""
        return make_plan(self.root.again(), heard, now_ms=NOW_MS, **more)  # type: ignore[arg-type]

    def repair(self, heard: Heard = NOTHING, **more: object) -> Plan:
        """Plan, and carry it out."""
        plan = self.plan(heard, **more)
        carry_out(plan, self.root.again(), NOW_MS)
        return plan

    def copies(self) -> Path:
        """Where the copies of a repair lie."""
        return next((Path(self.root.root) / "_damaged").iterdir())


def cut(file: Path, how: str) -> None:
    """Damage a file as a crash of a machine or a disk does."""
    content = file.read_bytes()
    if how == "gone":
        file.unlink()
        return
    damaged = {
        "empty": b"",
        "half": content[: len(content) // 2],
        "zeros": bytes(len(content)),
        "first line": content.split(b"\n")[0],
        "last line": content.rpartition(b"\n")[0],
    }
    file.write_bytes(damaged[how])


def feed_above(seq: int) -> Heard:
    """The entries above this one, as the journal feed has them."""
    return gather([entry for entry in HISTORY.entries if entry.seq > seq], LAST, "the journal feed")


EXPIRED_FEED = Heard(newest_seq=LAST, newest_from="the agent of b1")


def listing(folder: Path) -> Mapping[str, bytes]:
    """Every file with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored(root: TableRoot) -> Sequence[Entry]:
    """All entries, read from the first one on."""
    return Journal(root.again()).read_since(0)


def state_text(root: TableRoot) -> str:
    """The state that a start would load, canonical."""
    return encode(load_state(root.again()))


def check_whole(tables: Tables) -> None:
    """Every entry is there, the state is the same, nothing is damaged, and a controller can go on."""
    assert state_text(tables.root) == WHOLE
    assert stored(tables.root) == HISTORY.entries
    assert tables.plan(EXPIRED_FEED).damage == ()
    goes_on(tables.root)


def goes_on(root: TableRoot) -> None:
    """A next controller starts."""
    started = Entry(LAST + 1, Kind.CONTROLLER_STARTED, "next", 0, 0)
    Journal(root.again()).commit([started], "next", 0)
    assert load_state(root.again()) == fold(HISTORY.state, [started])
