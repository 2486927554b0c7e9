"""A replicated view of the cluster: bootstraps from the tables, then applies entries from the feed or the journal's
table.

The feed delivers new entries at once; the table is the truth and fills every gap. Entries are applied exactly once and
in order of seq, wherever they come from. Not thread-safe: callers serialise their calls.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.domain.apply import apply_in_place
from controller.domain.entries import Entry
from controller.domain.errors import without_login
from controller.domain.state import ClusterState
from controller.ledger.damage import DamagedTable, JournalGap
from controller.ledger.delta_log import LogGone
from controller.ledger.files import read_added, retry_on_vacuum
from controller.ledger.journal_rows import EntriesExpired, check_dense, entries_since, to_entries
from controller.ledger.snapshots import load_state_and_version
from controller.ledger.tables import TableRoot, as_root
from schemas.journal import JOURNAL

log = logging.getLogger(__name__)

BUFFERED = 10_000  # entries from the feed that are kept while earlier ones are missing
REOPEN_AFTER_VERSIONS = 500  # versions or polls after which the whole table is read, whatever the log says
FAR_BEHIND = 8  # versions: to read the whole table costs as much as to walk over so many (measured, see `_tail`)


class Follower:
    """Follows the journal from `bootstrap()` on; the constructor reads nothing. `state` is updated in place.

    A poll without new commits costs one existence check; a new commit costs one more, its log file and its data files.
    However far the table has gone on, catching up walks over fewer than FAR_BEHIND commits: who lives on the feed has
    read none of them when its first gap comes.
    """

    def __init__(self, root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self._root = as_root(root, storage_options)
        self.place = without_login(self._root.root)  # for people
        self._log = self._root.log(JOURNAL.name)
        self._version: int | None = None  # of the journal's table; None before bootstrap
        self._read_whole_at = 0
        self._polls_without_news = 0
        self._ahead: dict[int, Entry] = {}
        self.state = ClusterState()
        self.known_seq = 0

    @property
    def seq(self) -> int:
        """The seq of the newest entry applied."""
        return self.state.seq

    @property
    def behind(self) -> int:
        """How many entries are known to exist but not applied."""
        return max(0, self.known_seq - self.state.seq)

    def bootstrap(self) -> ClusterState:
        """Load the newest base snapshot and replay the journal from there; an empty state before the tables exist.

        Raises InvariantBroken when the journal contradicts itself, DamagedTable, DeltaError or OSError when it cannot
        be read.
        """
        self.state, version = load_state_and_version(self._root)
        self._version = self._read_whole_at = version
        self.hear(self.state.seq)
        self._apply_buffered()
        return self.state

    def hear(self, seq: int) -> None:
        """Note that this seq is said to exist (the controller repeats its newest one each second). Where the log does
        not lead to it, its files may have been cleaned up, and `catch_up` reads the whole table."""
        self.known_seq = max(self.known_seq, seq)

    def offer(self, entries: Iterable[Entry]) -> list[Entry]:
        """Entries from the feed, in any order, again or not; returns those that were applied, in order.

        Entries that do not follow yet are kept until they do, at most BUFFERED of them.
        """
        applied: list[Entry] = []
        for entry in entries:
            self.hear(entry.seq)
            if entry.seq == self.seq + 1 and self._version is not None:
                applied += self._apply([entry])
            elif entry.seq > self.seq and len(self._ahead) < BUFFERED:
                self._ahead.setdefault(entry.seq, entry)
        return applied

    def catch_up(self) -> list[Entry]:
        """Apply the table's entries beyond the view and return them. Bootstraps if that has not happened yet, and when
        the next entry has expired meanwhile; `seq` then jumps without entries.

        Raises DeltaError or OSError when the table cannot be read: try again later.
        """
        if self._version is None:
            self.bootstrap()
            return []
        applied = self._tail()
        whole_is_due = self._polls_without_news >= REOPEN_AFTER_VERSIONS or (not applied and self.behind)
        if whole_is_due or self._version - self._read_whole_at >= REOPEN_AFTER_VERSIONS:
            applied += self._read_whole()
        return applied

    def _tail(self) -> list[Entry]:
        """Follow the table commit by commit; read it as a whole when a file is gone, or when it is far ahead.

        One new entry behind 290 commits that were known from the feed, in an object store that takes 20 ms a request:
        45 s (1,723 requests, one after the other) to walk, 1.1 s (208, most at once) to read the whole table.
        """
        assert self._version is not None
        applied: list[Entry] = []
        self._polls_without_news += 1
        more = self._log.exists(self._version + 1)
        if more and self._log.exists(self._version + FAR_BEHIND):
            return self._read_whole()
        try:
            while more:
                entries = self._entries_of(self._version + 1)
                if entries and entries[0].seq > self.seq + 1:
                    raise LogGone(f"it begins at entry {entries[0].seq}, {self.seq + 1} is needed")
                applied += self._apply(entries)
                self._version += 1
                self._polls_without_news = 0
                more = self._log.exists(self._version + 1)
        except (LogGone, FileNotFoundError, DamagedTable) as error:
            log.info("journal version %d cannot be followed (%s): reading the whole table", self._version + 1, error)
            applied += self._read_whole()
        return applied

    def _entries_of(self, version: int) -> list[Entry]:
        """The entries above the view's seq that a commit added; none for a compaction."""
        commit = self._log.read(version)
        fresh = [f for f in commit.added if f.data_change and f.largest.get("seq", self.seq + 1) > self.seq]
        entries = [entry for f in fresh for entry in to_entries(read_added(self._log, f, JOURNAL))]
        return sorted((e for e in entries if e.seq > self.seq), key=lambda e: e.seq)

    def _read_whole(self) -> list[Entry]:
        self._polls_without_news = 0
        if (self._version is None or self._version < 0) and not self._root.exists(JOURNAL.name):
            return []  # a table that existed before and is missing now raises instead

        def read() -> tuple[list[Entry], int]:
            table = self._root.open(JOURNAL.name)
            return entries_since(table, self._log, self.seq), table.version()

        try:
            entries, version = retry_on_vacuum(read)
        except (EntriesExpired, JournalGap) as error:  # a gap that was repaired, if a snapshot includes it
            log.warning("%s: loading the newest base snapshot", error)
            self.bootstrap()
            return []
        self._version = self._read_whole_at = version
        applied = self._apply(entries)
        self.known_seq = max((self.seq, *self._ahead))  # the table has no more: who goes on believing it says so again
        return applied

    def _apply(self, entries: list[Entry]) -> list[Entry]:
        """Apply entries that follow the state, then buffered ones of the feed."""
        for entry in check_dense(entries, self.seq):
            apply_in_place(self.state, entry)
        self.hear(self.seq)
        return entries + self._apply_buffered()

    def _apply_buffered(self) -> list[Entry]:
        applied: list[Entry] = []
        while (entry := self._ahead.pop(self.seq + 1, None)) is not None:
            apply_in_place(self.state, entry)
            applied.append(entry)
        if self._ahead and (applied or len(self._ahead) >= BUFFERED):
            self._ahead = {seq: kept for seq, kept in self._ahead.items() if seq > self.seq}
        return applied
