"""`LiveCluster`: the cluster as it is now, followed by one reader and shared by all users of the page.

One thread calls `poll`; any thread may ask. What is handed out does not change any more: a state is a copy, and an
`EvidenceView` keeps what it has read once. `Versions` says what has changed, so that a document is made once for each;
a document has at least what its versions name.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Collection, Mapping
from typing import NamedTuple

from deltalake import DeltaTable

from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry
from controller.domain.errors import without_login
from controller.domain.state import ClusterState
from controller.ledger.follower import Follower
from controller.ledger.partial.outline import Outline
from controller.ledger.tail import TableTail
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import NoTables, Reader, no_tables
from controller.operations.stopped import DEMO
from controller.process.clock import wall_ms
from controller.ui.history import ScoreHistory
from controller.ui.memory import Memory

DAY_MS = 24 * 3_600_000
LOADS_EVERY_POLLS = 4  # looks at the load tables: they change every ten seconds


class Versions(NamedTuple):
    """What documents depend on: the newest entry that says something, the newest evidence, the newest loads."""

    seq: int
    evidence: int
    loads: int


class LiveCluster:
    """Follows the tables of one cluster; before they exist, `reader` raises NoTables and `poll` looks again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.history = ScoreHistory()
        self.trouble = ""  # why the tables could not be read last
        self._lock = threading.RLock()
        self._root = table_root(settings)
        self._follower = Follower(self._root)
        self._loads = TableTail(self._root, "bundle_load")
        self._memory = Memory()
        self._reader: LiveReader | None = None
        self._state: ClusterState | None = None
        self._evidence: EvidenceView | None = None
        self._evidence_of = (0, 0)  # entries: newest evidence, newest round
        self._polls = 0

    @property
    def versions(self) -> Versions:
        """Of what is known now."""
        return Versions(self._memory.news_seq, self._memory.evidence_seq, self._loads.version)

    @property
    def seq(self) -> int:
        """The newest entry that is known."""
        return self._follower.seq

    @property
    def journal_id(self) -> str | None:
        """Of the journal that is followed; None before there is one."""
        with self._lock:
            return self._follower.state.journal_id

    @property
    def tables(self) -> str:
        """Where they are, without a login."""
        return without_login(self._root.root)

    @property
    def reader(self) -> LiveReader:
        """Reads this cluster's tables. Raises NoTables, also while the first reading takes its time."""
        if self._reader is None:
            if self._root.exists("journal"):
                why = f"cannot be read: {self.trouble}" if self.trouble else "are being read"
                raise NoTables(f"the tables at {self.tables} {why}; this page tries again")
            if self.settings.profile == DEMO:  # its page is served before all else
                raise NoTables(
                    f"no tables at {self.tables} yet: a demo creates them at its start; this page tries again"
                )
            raise no_tables(self._root.root, self.settings.file)
        return self._reader

    def poll(self) -> bool:
        """Look for what is new; whether anything changed. Raises DeltaError or OSError: try again later."""
        with self._lock:
            before = self.versions
            if self._reader is None and not self._begin():
                return False
            if self._polls % LOADS_EVERY_POLLS == 0:
                self._loads.poll()
            self._polls += 1
            was = self._follower.seq
            entries = self._follower.catch_up()
            if entries or self._follower.seq != was:
                self._state = None
            if self._follower.seq == was + len(entries):
                self._memory.note(entries, wall_ms())
            else:  # it began again at a base snapshot
                self._memory = Memory.read(self.reader, self._follower.seq, wall_ms())
            return self.versions != before

    def warm(self) -> None:
        """Read what views of the newest round need, before somebody asks."""
        if self._reader is not None:
            view = self.evidence()
            self.history.extend(self.reader, view)
            if (last := view.last_round()) is not None:
                view.scores(last)

    def state(self) -> ClusterState:
        """A copy of the state, shared by all who ask before it changes: read it only. Raises NoTables."""
        with self._lock:
            _ = self.reader
            if self._state is None:
                self._state = self._follower.state.copy()
            return self._state

    def evidence(self) -> EvidenceView:
        """The evidence as of the newest entry that names some. Raises NoTables."""
        with self._lock:
            version = self._memory.evidence_seq, self._memory.round_seq
            if self._evidence is None:
                self._evidence = EvidenceView(self.reader)
            elif self._evidence_of != version:
                self._evidence = self._evidence.again(same_rounds=self._evidence_of[1] == version[1])
            self._evidence_of = version
            return self._evidence

    def attempts(self) -> Mapping[str, int]:
        """Attempt id -> seq of the first entry that names it."""
        with self._lock:
            return dict(self._memory.attempts)

    def recent(self) -> tuple[int, list[Entry]]:
        """Since when, and all entries since then, oldest first, but for those that only say how far Kafka was read."""
        with self._lock:
            return self._memory.since_ms, list(self._memory.recent)

    def day_since_ms(self, now_ms: int) -> int:
        """When the last 24 hours began; those before the newest round where that is older: the cluster has stopped."""
        return min(now_ms, self.state().round_at_ms or now_ms) - DAY_MS

    def split_into(self, bundle: str) -> Entry | None:
        """The split that made this bundle."""
        with self._lock:
            return self._memory.splits.get(bundle)

    def plan_entries(self) -> list[Entry]:
        """The entries about plans that an operator decides about, oldest first."""
        with self._lock:
            return list(self._memory.plans)

    def set_by(self, kind: str) -> Entry | None:
        """The last accepted command of this kind."""
        with self._lock:
            return self._memory.set_by.get(kind)

    def _begin(self) -> bool:
        try:
            reader = LiveReader(self.settings, self)
        except NoTables:
            return False
        self._follower.bootstrap()
        self._memory = Memory.read(reader, self._follower.seq, wall_ms())
        self._reader = reader
        gc.freeze()  # else each full collection goes through the state, which is a million objects and no garbage
        return True


# What a table's content depends on; others are opened anew for each read.
_VERSION_OF = {
    "journal": Versions._fields.index("seq"),
    **dict.fromkeys(("rounds", "decisions", "broker_scores"), Versions._fields.index("evidence")),
    "bundle_load": Versions._fields.index("loads"),
}


class LiveReader(Reader):
    """A reader that asks the tables only for what the page does not keep in memory.

    A table stays open until what is known of it has changed: opening takes longer than most reads.
    """

    def __init__(self, settings: Settings, cluster: LiveCluster) -> None:
        super().__init__(settings)
        self._cluster = cluster
        self._opened: dict[str, tuple[int, DeltaTable]] = {}

    def state(self) -> ClusterState:
        """The state that is followed: read it only."""
        return self._cluster.state()

    def outline(self, names: Collection[str] = ()) -> Outline:
        """Of that state, which is whole."""
        return Outline.of_state(self.state())

    def attempts(self) -> Mapping[str, int]:
        """As the memory has them."""
        return self._cluster.attempts()

    def entries_since(self, at_ms: int) -> list[Entry]:
        """From memory where that goes back far enough; then without entries that only say how far Kafka was read."""
        since_ms, recent = self._cluster.recent()
        if at_ms < since_ms:
            return super().entries_since(at_ms)
        return [entry for entry in recent if entry.at_ms > at_ms]

    def plan_entries(self) -> list[Entry]:
        """As the memory has them."""
        return self._cluster.plan_entries()

    def exists(self, name: str) -> bool:
        """Whether the table has been created."""
        return name in self._opened or super().exists(name)

    def open(self, name: str) -> DeltaTable:
        """The table at a version that has all that `Versions` names."""
        if name not in _VERSION_OF:
            return super().open(name)
        version = self._cluster.versions[_VERSION_OF[name]]  # before it is opened
        kept = self._opened.get(name)
        if kept is None or kept[0] != version:
            kept = self._opened[name] = version, super().open(name)
        return kept[1]

    def forget(self, name: str) -> None:
        """Open it anew."""
        self._opened.pop(name, None)

    def split_into(self, bundle: str) -> Entry | None:
        """As the memory has it."""
        return self._cluster.split_into(bundle)
