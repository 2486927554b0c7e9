"""The journal's compare-and-set: one writer, each of whose commits must directly follow its previous version.

After anything but a plain success, these rules apply in order:
1. Another writer has committed *data* since this handle's version: ForeignCommit, even if our own entries are there
  too.
2. Our own instance and batch are in the log: the commit happened.
3. There are no commits, or only such as change no data (compaction): try the same entries again.
4. The log cannot be read: OutcomeUnknown; the caller blocks and commits the same entries again later.
Where the log was cleaned up, the journal's rows tell who has committed.
A process that was suspended for longer than the log's retention may find its next version's file cleaned up, and hence
free to write. So a commit is no plain success while a checkpoint lies beyond it, and below a checkpoint the rows tell,
not the log. Most such checkpoints are of this controller's own clean-up, which came right behind the commit.
Entries are never computed again: they are written as given, or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from controller.domain.entries import Entry
from controller.domain.errors import BallastError, ForeignCommit, InvariantBroken, OutcomeUnknown
from controller.ledger.delta_log import Commit, LogGone
from controller.ledger.journal_rows import EntriesExpired, check_dense, entries_since, last_entry
from controller.ledger.store.room import check_room, writing
from controller.ledger.tables import REOPEN_AFTER_VERSIONS, TableRoot, as_root, for_table
from controller.process import failpoints
from schemas.arrow import arrow_table
from schemas.journal import JOURNAL

log = logging.getLogger(__name__)

NAME = JOURNAL.name
COMMIT_ATTEMPTS = 8  # of the same entries, each after reading the log
READ_ATTEMPTS = 6  # of the log, with pauses of 0.1, 0.2, … up to 2 s
_T = TypeVar("_T")


class Journal:
    """Commits entries. Opened at one version; commits of others after it are detected at the next commit.

    It may be opened before or after the state was loaded that entries build on: if the journal advanced in between, the
    first commit raises ForeignCommit. Not thread-safe.
    """

    reopen_after = REOPEN_AFTER_VERSIONS

    def __init__(self, root: TableRoot | str | Path, storage_options: Mapping[str, str] | None = None) -> None:
        self._root = as_root(root, storage_options)
        self._log = self._root.log(NAME)
        self._table = self._root.open(NAME)
        # The version checked last. Not the handle's: a write that fails after its commit may have advanced the handle.
        self._version = self._opened_at = self._table.version()
        self._trouble: Exception | None = None  # of an append after which the log has not been read yet
        self._last = last_entry(self._table, self._log)

    @property
    def last_seq(self) -> int:
        """The seq of the newest entry that this handle knows; 0 for an empty journal."""
        return self._last.seq if self._last else 0

    @property
    def version(self) -> int:
        """The table version of this handle."""
        return self._version

    def last(self) -> Entry | None:
        """The newest entry that this handle knows; None for an empty journal."""
        return self._last

    def read_since(self, seq: int) -> list[Entry]:
        """The entries above `seq` up to `last_seq`. Does not read newer ones, as that would hide a foreign commit."""
        return self._rows_after(self._table, seq)

    def check_not_replaced(self, instance: str) -> None:
        """Raise ForeignCommit when another writer has committed data since this handle's newest commit, and
        OutcomeUnknown when the log cannot be read. Call this between commits; compactions do not count."""
        _, since = self._retry(self._read_since_handle)
        foreign = [commit for commit in since if commit.changes_data]
        if foreign:
            raise ForeignCommit(self._describe_foreign(foreign[0], instance))

    def commit(self, entries: Sequence[Entry], instance: str, batch_id: int) -> int:
        """Append the entries as one version; returns that version, or the newest one if they were committed already.

        Entries must continue `last_seq`; committing the very last ones again is no error. Raises ForeignCommit (another
        controller writes: stop), OutcomeUnknown (block, then commit the same entries again) and NoRoom (nothing was
        written, the same).
        """
        if self._is_last(entries, instance, batch_id):
            return self.version
        self._check(entries, instance)
        rows = self._to_rows(entries)
        last = self._trouble
        for _ in range(COMMIT_ATTEMPTS):
            if self._trouble is None:
                check_room(self._root.uri(NAME))
                self._trouble = last = self._try_append(rows, instance, batch_id, entries[-1].seq)
                if last is None:
                    return self._done(entries[-1], self._version + 1)
            if self._has_landed(instance, batch_id):
                return self._done(entries[-1], self._version)
        raise OutcomeUnknown(
            f"entries {entries[0].seq}..{entries[-1].seq} were not committed in {COMMIT_ATTEMPTS} attempts, "
            f"the last one said: {last}; check the table store at {self._root.uri(NAME)} and commit them again"
        ) from last

    def _done(self, last: Entry, version: int) -> int:
        """Note the success, which nothing that fails from here on may undo."""
        self._last, self._version = last, version
        if version - self._opened_at >= self.reopen_after:
            self._reopen()
        return version

    def _reopen(self) -> None:
        """Open the table anew, at the same version: a newer one must stay unseen until it is checked. If that fails,
        the handle serves until it succeeds after a later commit."""
        try:
            self._table = self._root.open(NAME, version=self._version)
            self._opened_at = self._version
        except (OSError, DeltaError, BallastError) as error:
            log.warning("the journal's table could not be opened anew at version %d: %s", self._version, error)

    def _try_append(self, rows: pa.Table, instance: str, batch_id: int, seq: int) -> Exception | None:
        """Append once; returns what went wrong, None for a plain success."""
        try:
            self._append(rows, instance, batch_id, seq)
            self._check_not_overtaken()
        except Exception as error:  # whatever it was, only the log tells what happened
            return error
        if self._table.version() != self._version + 1:
            return OutcomeUnknown(f"the handle went on to version {self._table.version()}")
        return None

    def _to_rows(self, entries: Sequence[Entry]) -> pa.Table:
        return arrow_table(JOURNAL, (entry.to_row() for entry in entries))

    def _append(self, rows: pa.Table, instance: str, batch_id: int, seq: int) -> None:
        failpoints.reach("journal.append")
        properties = CommitProperties(
            max_commit_retries=0,
            app_transactions=[Transaction(instance, batch_id)],
            custom_metadata={"ballast.instance": instance, "ballast.batch": batch_id, "ballast.seq": seq},
        )
        with writing(self._root.uri(NAME)):
            write_deltalake(self._table, for_table(self._table, rows), mode="append", commit_properties=properties)
        failpoints.reach("journal.appended")

    def _has_landed(self, instance: str, batch_id: int) -> bool:
        """Whether our commit is in the log, whatever the writer reported. Advances the handle to the version read."""
        if self._trouble is not None and not isinstance(self._trouble, CommitFailedError):
            log.warning("journal commit %s/%d: outcome unknown, reading the log: %s", instance, batch_id, self._trouble)
        newest, since = self._retry(self._read_since_handle)
        foreign = [c for c in since if c.changes_data and c.transactions.get(instance) != batch_id]
        if foreign:
            raise ForeignCommit(self._describe_foreign(foreign[0], instance))
        self._table, self._version = newest, newest.version()
        self._opened_at, self._trouble = self._version, None
        return any(c.changes_data for c in since)

    def _read_since_handle(self) -> tuple[DeltaTable, list[Commit]]:
        """The table at its newest version, and every commit between this handle and that version."""
        failpoints.reach("journal.read_log")
        newest = self._root.open(NAME)
        if self._log.last_checkpoint(just_answered=True) > self._version + 1:  # the next file may be our own
            return newest, self._commits_by_rows(newest)
        try:
            return newest, [self._log.read(v) for v in range(self._version + 1, newest.version() + 1)]
        except LogGone:
            return newest, self._commits_by_rows(newest)

    def _commits_by_rows(self, newest: DeltaTable) -> list[Commit]:
        """The commits that the rows tell of. Raises ForeignCommit."""
        return [_commit_of(entry, newest.version()) for entry in self._entries_after(newest)]

    def _entries_after(self, table: DeltaTable) -> list[Entry]:
        """The entries that the handle does not know, from the rows: they tell what a cleaned-up log no longer does.

        Raises ForeignCommit where they have expired: so much has happened since only under another controller.
        """
        try:
            return self._rows_after(table, self.last_seq)
        except EntriesExpired as error:
            raise ForeignCommit(
                f"entries after {self.last_seq} were committed by another controller and have expired meanwhile: this "
                "instance slept, and must stop"
            ) from error

    def _rows_after(self, table: DeltaTable, seq: int) -> list[Entry]:
        return entries_since(table, self._log, seq)

    def _check_not_overtaken(self) -> None:
        """Raise OutcomeUnknown where a checkpoint lies beyond what was just written."""
        checkpoint = self._log.last_checkpoint(just_answered=True)  # to the append
        if checkpoint > self._version + 1:
            raise OutcomeUnknown(
                f"version {self._version + 1} was written, but there is a checkpoint of version {checkpoint}: of a "
                "clean-up that came right behind, or of another controller that went on while this one slept"
            )

    def _retry(self, read: Callable[[], _T]) -> _T:
        retrying = Retrying(
            stop=stop_after_attempt(READ_ATTEMPTS),
            wait=wait_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception_type((OSError, DeltaError, LogGone, ValueError)),
        )
        try:
            return retrying(read)
        except RetryError as error:
            cause = error.last_attempt.exception()
            raise OutcomeUnknown(
                f"whether a commit after version {self._version} of {self._root.uri(NAME)} happened cannot be read: "
                f"{cause}; make the table store readable, then commit the same entries again"
            ) from cause

    def _check(self, entries: Sequence[Entry], instance: str) -> None:
        if not entries:
            raise InvariantBroken("a commit without entries: commit only batches that changed something")
        check_dense(entries, entries[0].seq - 1)
        if entries[0].seq <= self.last_seq and self._last is not None:
            raise ForeignCommit(
                f"controller {self._last.instance} has committed up to seq {self.last_seq}, but {instance} wants to "
                f"commit {entries[0].seq}: its state is old; start again from the journal"
            )
        if entries[0].seq != self.last_seq + 1:
            self._has_landed(instance, entries[0].batch)  # the state may be newer than this handle
            raise InvariantBroken(f"entry {entries[0].seq} does not follow the journal's last, {self.last_seq}")

    def _is_last(self, entries: Sequence[Entry], instance: str, batch_id: int) -> bool:
        last = self._last
        return bool(entries) and last == entries[-1] and (last.instance, last.batch) == (instance, batch_id)

    def _describe_foreign(self, commit: Commit, instance: str) -> str:
        writer = commit.info.get("ballast.instance") or next(iter(commit.transactions), None)
        named = f"controller {writer}" if writer else f"a writer without a name ({commit.info.get('engineInfo', '?')})"
        seqs = [f.largest["seq"] for f in commit.added if "seq" in f.largest]
        seq = commit.info.get("ballast.seq") or (max(seqs) if seqs else "unknown")
        return self._describe_loss(named, seq, commit.version, instance)

    def _describe_loss(self, writer: str, seq: object, version: int, instance: str) -> str:
        return (
            f"{writer} committed journal entries up to seq {seq} (version {version}) while {instance} "
            f"held seq {self.last_seq}: another one has taken over, and this one must stop"
        )


def _commit_of(entry: Entry, version: int) -> Commit:
    """The commit that an entry must have come by, at this version or before."""
    info = {"ballast.instance": entry.instance, "ballast.seq": entry.seq}
    return Commit(version, info, (), removed_data=True, transactions={entry.instance: entry.batch})
