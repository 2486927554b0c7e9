"""Reads journal entries from the Delta table: all after a seq, or the last one. A gap in seq is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from controller.domain.entries import Entry
from controller.domain.errors import InvariantBroken
from controller.ledger.damage import JournalGap
from controller.ledger.delta_log import DeltaLog
from controller.ledger.files import read_range
from schemas.journal import JOURNAL

CHUNK_ROWS = 10_000  # converted to entries at a time: a whole journal as Python objects would take gigabytes


class EntriesExpired(InvariantBroken):
    """Raised when the journal begins above the requested entry: start from a base snapshot instead."""


def entries_since(table: DeltaTable, log: DeltaLog, seq: int) -> list[Entry]:
    """All entries above `seq` at the handle's version, dense from seq + 1.

    Raises EntriesExpired when the journal begins later, JournalGap for a gap or a duplicate, MissingFile when VACUUM
    has removed a file (open the table again and retry).
    """
    return list(each_entry(table, log, seq))


def each_entry(table: DeltaTable, log: DeltaLog, seq: int) -> Iterator[Entry]:
    """As `entries_since`, one by one, for callers that do not keep them. Reads all files before the first entry."""
    rows = read_range(table, log, JOURNAL, "seq", above=seq).sort_by("seq")
    if rows.num_rows and rows["seq"][0].as_py() > seq + 1 and (oldest_seq(table) or 0) > seq + 1:
        raise EntriesExpired(
            f"the journal begins at entry {rows['seq'][0].as_py()}, {seq + 1} is needed: older entries have expired, "
            "and no base snapshot that can be read includes them; restore control_state and journal from a backup, or "
            "see what `ballast repair` says"
        )
    _check_dense_rows(rows["seq"], seq, log)
    for batch in rows.to_batches(CHUNK_ROWS):
        yield from (Entry.from_row(row) for row in batch.to_pylist())


def _check_dense_rows(seqs: pa.ChunkedArray, after: int, log: DeltaLog) -> None:
    """Raise JournalGap unless the sorted seqs are after + 1, after + 2, …"""
    differing = np.flatnonzero(seqs.to_numpy() != np.arange(after + 1, after + 1 + len(seqs)))
    if differing.size:
        expected, found = after + 1 + int(differing[0]), int(seqs[int(differing[0])].as_py())
        what = f"is there twice ({found})" if found < expected else f"is missing, the next one is {found}"
        raise JournalGap(log.uri, f"entry {min(found, expected)}", what)


def last_entry(table: DeltaTable, log: DeltaLog) -> Entry | None:
    """The newest entry at the handle's version, or None for an empty journal."""
    newest = newest_seq(table)
    if newest is None:
        rows = read_range(table, log, JOURNAL, "seq", above=-1)
    else:
        rows = read_range(table, log, JOURNAL, "seq", above=newest - 1)
    return to_entries(rows)[-1] if rows.num_rows else None


def newest_seq(table: DeltaTable) -> int | None:
    """The largest seq in the files' statistics; None when there are no files, or one without statistics."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows or "max.seq" not in actions.column_names or actions["max.seq"].null_count:
        return None
    newest: int = pc.max(actions["max.seq"]).as_py()
    return newest


def oldest_seq(table: DeltaTable) -> int | None:
    """The smallest seq in the files' statistics; None when there are no files, or one without statistics."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows or "min.seq" not in actions.column_names or actions["min.seq"].null_count:
        return None
    oldest: int = pc.min(actions["min.seq"]).as_py()
    return oldest


def to_entries(rows: pa.Table) -> list[Entry]:
    """The rows as entries, sorted by seq."""
    return [Entry.from_row(row) for row in rows.sort_by("seq").to_pylist()]


def check_dense(entries: Iterable[Entry], after: int) -> list[Entry]:
    """The entries as a list. Raises InvariantBroken unless their seqs are exactly after + 1, after + 2, …"""
    found: Sequence[Entry] = list(entries)
    for expected, entry in enumerate(found, start=after + 1):
        if entry.seq != expected:
            trouble = "has a double" if entry.seq < expected else "has a gap"
            raise InvariantBroken(
                f"the journal {trouble}: entry {entry.seq} (instance {entry.instance}) where {expected} was expected; "
                "restore the table, or start from a base snapshot above the gap"
            )
    return list(found)
