"""The journal's table in memory, as the control loop commits to it and as agents follow it.

What decides is the real code: `Journal` (compare-and-set, what a commit without an answer means, who slept through a
clean-up of the log), `ControlTables` (blocks while the outcome is unknown), `Follower` (from a snapshot, commit by
commit, over those that are gone) and `Snapshots`. Only the store below them is simulated: it may be away, slow, lose
answers, compact its files, clean up its log, and forget old entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from deltalake.exceptions import CommitFailedError

from controller.control.context import Evidence
from controller.control.step_decisions import StepEvidence
from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry
from controller.domain.errors import ForeignCommit, OutcomeUnknown
from controller.domain.state import ClusterState
from controller.ledger.delta_log import Commit, LogGone
from controller.ledger.follower import Follower
from controller.ledger.journal_commit import Journal
from controller.ledger.journal_rows import EntriesExpired
from controller.service.metrics import ControlMetrics
from controller.service.tables import ControlTables
from controller.testbed.simulated.snapshots import SimSnapshots, SnapshotTable
from controller.testbed.simulated.world import Actor, World, delay_ms

SNAPSHOT_EVERY = (8, 20)  # entries: a draw for the whole run
LOG_KEPT = (None, 2, 5, 30)  # versions after which the log is cleaned up: another such draw; None: never
COMPACTED = (0.0, 0.02, 0.1)  # the part of the commits right behind which files are compacted: another such draw
MAINTENANCE = "maintenance"  # of the controller's own process, or of another one
ANSWER_LOST, NEVER_WRITTEN = "commit whose answer is lost", "commit never written"
BLOCKED, CLEANED_UP, COMPACTION = "commit blocked", "journal's log cleaned up", "journal compacted"
BOOTSTRAPPED = "agent bootstrapped again"
COUNTED = (ANSWER_LOST, NEVER_WRITTEN, BLOCKED, CLEANED_UP, COMPACTION, BOOTSTRAPPED)
NOT_OPENED = 0.3  # of the times when commits go wrong, the table cannot be opened either
NO_ANSWER_MS = 5_000  # at most, until a request is given up


class Version(NamedTuple):
    """One commit of the journal's table; a compaction has no entries."""

    instance: str
    batch: int
    entries: tuple[Entry, ...]


class SimStore:
    """The object store or file system with the tables. `state`: the fold of all that was ever committed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.down_until_ms = 0.0
        self.slow = 1.0
        self.spoilt = 0.0  # the part of the commits that end in one of the above
        self.versions: list[Version] = []
        self.checkpoint = -1  # the newest version that has one: the log has no file of the versions before
        self.journal: list[Entry] = []
        self.state = ClusterState()
        self.first_seq = 1  # entries before it have expired
        self.snapshots = SnapshotTable()
        self.on_commit: Callable[[Sequence[Entry], ClusterState], None] = lambda entries, before: None
        self._dice = world.dice("log")
        self.snapshot_every = self._dice.choice(SNAPSHOT_EVERY)
        self._log_kept, self._compacted = self._dice.choice(LOG_KEPT), self._dice.choice(COMPACTED)

    @property
    def up(self) -> bool:
        """Whether it answers now."""
        return self.world.now_ms >= self.down_until_ms

    def check_up(self) -> None:
        """Raise OSError unless it answers."""
        if not self.up:
            raise OSError("the table store does not answer")

    def append(self, version: Version) -> None:
        """Commit; the caller has checked that nobody else has."""
        before = self.state
        self.versions.append(version)
        self.journal += version.entries
        self.state = before.copy()
        for entry in version.entries:
            apply_in_place(self.state, entry)
        due = self._log_kept is not None and len(self.versions) - self.checkpoint > self._log_kept
        if self._dice.random() < self._compacted:
            self.versions.append(Version(MAINTENANCE, len(self.versions), ()))
            self.world.counts[COMPACTION] += 1
            due = self._log_kept is not None
        self.world.counts[CLEANED_UP] += due
        self.checkpoint = len(self.versions) - 1 if due else self.checkpoint
        self.on_commit(version.entries, before)

    def expire(self) -> bool:
        """Forget the entries that every snapshot includes; whether there were any."""
        floor = SimSnapshots(self.snapshots).floor() or 0
        expired, self.first_seq = floor >= self.first_seq, max(floor + 1, self.first_seq)
        return expired

    def damage_snapshots(self, dice: Random) -> int:
        """Make some unreadable, never the last one that the journal cannot do without; returns how many."""
        return self.snapshots.damage(dice, spare_one=self.first_seq > 1)

    def entries_above(self, seq: int) -> list[Entry]:
        """The entries after this one. Raises EntriesExpired if the next one is gone."""
        if seq + 1 < self.first_seq:
            raise EntriesExpired(f"the journal begins at entry {self.first_seq}, {seq + 1} is needed")
        return self.journal[seq:]

    def load_state(self) -> ClusterState:
        """The newest snapshot that can be read, and the entries after it."""
        state = SimSnapshots(self.snapshots).latest() or ClusterState()
        for entry in self.entries_above(state.seq):
            apply_in_place(state, entry)
        return state


class SimFollower(Follower):
    """The follower of one agent; its machine may be cut off from the store."""

    def __init__(self, store: SimStore, reaches: Callable[[], bool]) -> None:
        self._store, self._reaches = store, reaches
        self.place = "the simulated store"
        self._log = SimpleNamespace(exists=self._exists)  # type: ignore[assignment]
        self._version = None
        self._read_whole_at = self._polls_without_news = 0
        self._ahead: dict[int, Entry] = {}
        self.state = ClusterState()
        self.known_seq = 0

    def _check(self) -> None:
        self._store.check_up()
        if not self._reaches():
            raise OSError("this machine does not reach the table store")

    def bootstrap(self) -> ClusterState:
        """As the real one does."""
        self._check()
        self._store.world.counts[BOOTSTRAPPED] += self._version is not None
        self.state = self._store.load_state()
        self._version = self._read_whole_at = len(self._store.versions) - 1
        self.hear(self.state.seq)
        self._apply_buffered()
        return self.state

    def _exists(self, version: int) -> bool:
        """Whether the log has the commit's file: it may have been cleaned up, which looks like one that is not there
        yet."""
        self._check()
        return self._store.checkpoint <= version < len(self._store.versions)

    def _entries_of(self, version: int) -> list[Entry]:
        self._check()
        if version < self._store.checkpoint:
            raise LogGone(f"version {version} was cleaned up")
        entries = [entry for entry in self._store.versions[version].entries if entry.seq > self.seq]
        if entries and entries[0].seq < self._store.first_seq:
            raise LogGone(f"the entries of version {version} have expired")
        return entries

    def _read_whole(self) -> list[Entry]:
        self._check()
        try:
            entries = self._store.entries_above(self.seq)
        except EntriesExpired:
            self.bootstrap()
            return []
        self._version = self._read_whole_at = len(self._store.versions) - 1
        applied = self._apply(entries)
        self.known_seq = max((self.seq, *self._ahead))
        return applied


class SimJournal(Journal):
    """The journal's writer, of a controller that runs in an actor."""

    reopen_after = 5  # versions: a run has some hundred

    def __init__(self, store: SimStore, actor: Actor, dice: Random) -> None:
        self._store, self._actor, self._dice = store, actor, dice
        self._root = SimpleNamespace(uri=lambda name: f"memory:{name}", open=self._open)  # type: ignore[assignment]
        self._log = SimpleNamespace(read=self._read_commit, last_checkpoint=self._see_checkpoint)  # type: ignore[assignment]
        self._version = self._opened_at = len(store.versions) - 1
        self._written: int = self._version
        self._table = SimpleNamespace(version=lambda: self._written)  # type: ignore[assignment]
        self._trouble = None
        self._last = store.journal[-1] if store.journal else None

    def _open(self, name: str, version: int | None = None) -> Any:
        """The table, at its newest version without another one."""
        self._sleep(1, 30)
        self._store.check_up()
        if self._dice.random() < self._store.spoilt * NOT_OPENED:
            raise OSError("the table store is throttled")
        self._written = len(self._store.versions) - 1 if version is None else version
        return self._table

    def _to_rows(self, entries: Sequence[Entry]) -> Any:
        return tuple(entries)

    def _append(self, rows: Any, instance: str, batch_id: int, seq: int) -> None:
        """Who slept while the log went on and was cleaned up finds its next version free: nobody will read that."""
        self._sleep(2, 60)
        self._store.check_up()
        fate = None
        if self._store.spoilt and self._dice.random() < self._store.spoilt:
            fate = self._dice.choice((ANSWER_LOST, NEVER_WRITTEN))
            self._store.world.counts[fate] += 1
        is_next = len(self._store.versions) - 1 == self._version
        if not is_next and self._version + 1 >= self._store.checkpoint:
            raise CommitFailedError(f"version {self._version + 1} is there already")
        if is_next and fate != NEVER_WRITTEN:
            self._store.append(Version(instance, batch_id, rows))
        self._sleep(2, 60 if fate is None else NO_ANSWER_MS)
        if fate is not None:
            raise OSError(f"no answer ({fate})")
        self._written = self._version + 1

    def _see_checkpoint(self, just_answered: bool = False) -> int:
        return self._store.checkpoint

    def _read_commit(self, number: int) -> Commit:
        if number < self._store.checkpoint:
            raise LogGone(f"version {number} was cleaned up")
        version = self._store.versions[number]
        if not version.entries:
            return Commit(number, {}, (), removed_data=False, transactions={})
        info = {"ballast.instance": version.instance, "ballast.seq": version.entries[-1].seq}
        return Commit(number, info, (), removed_data=True, transactions={version.instance: version.batch})

    def _rows_after(self, table: Any, seq: int) -> list[Entry]:
        return self._store.entries_above(seq)

    def _retry(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except OSError as error:
            raise OutcomeUnknown(f"the log cannot be read: {error}") from error

    def _sleep(self, low_ms: float, high_ms: float) -> None:
        self._actor.sleep(delay_ms(self._dice, low_ms, high_ms) * self._store.slow)


class SimControlTables(ControlTables):
    """The tables of one controller."""

    def __init__(self, store: SimStore, instance: str, actor: Actor, dice: Random, metrics: ControlMetrics) -> None:
        self._store, self._actor, self._dice, self._instance, self._metrics = store, actor, dice, instance, metrics
        self._journal = SimJournal(store, actor, dice)
        self._snapshots = SimSnapshots(store.snapshots, self._reach)
        self._give_up = SimpleNamespace(wait=self._wait)  # type: ignore[assignment]
        self._projected_seq = store.state.seq
        self.quarantine = SimpleNamespace(write=lambda *args: None)  # type: ignore[assignment]

    def load_state(self) -> ClusterState:
        """The state at the journal's newest entry."""
        self._store.check_up()
        return self._store.load_state()

    @property
    def overtaken(self) -> ForeignCommit | None:
        """Projections are written with the journal here."""
        return None

    def append_evidence(
        self, evidence: Sequence[Evidence], wall_ms: int, durations_ms: Mapping[str, int]
    ) -> dict[str, str]:
        """Nobody reads it here."""
        return {}

    def append_decisions(self, found: StepEvidence) -> None:
        """Nobody reads them here."""

    def retry_decisions(self) -> None:
        """Nobody reads them here."""

    def project(self, state: ClusterState) -> None:
        """Save a snapshot now and then."""
        if state.seq - self._projected_seq >= self._store.snapshot_every and self._store.up:
            with suppress(OSError):
                self._snapshots.save(state, 0)
                self._projected_seq = state.seq

    def _reach(self) -> None:
        self._actor.sleep(delay_ms(self._dice, 2, 60) * self._store.slow)
        self._store.check_up()

    def _wait(self, seconds: float) -> bool:
        """Until a commit whose outcome is unknown is tried again."""
        self._store.world.counts[BLOCKED] += 1
        self._actor.sleep(1000 * seconds)
        return False
