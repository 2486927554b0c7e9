"""Generates a journal like that of a cluster after days of moves: consistent for `apply`, of any length.

50 brokers and 1,000 bundles unless told otherwise; every five entries are one move (offsets, transferring, releasing,
released, owned), each bundle in its turn to the next broker. Bulk entries go in as files of `FILE_ENTRIES`, as the
clean-up leaves them; the newest ones by the journal's real writer, a commit a move, as a running controller leaves
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from controller.domain.entries import Entry, Kind
from controller.domain.ids import Bundle, Session
from controller.domain.ring import initial_bundles
from controller.ledger.journal_commit import Journal
from controller.ledger.journal_rows import to_entries
from controller.ledger.maintenance import merge_properties
from controller.ledger.tables import TableRoot
from schemas.arrow import arrow_schema, arrow_table
from schemas.journal import JOURNAL

BROKERS, NAMESPACES, BUNDLES_EACH = 50, 10, 100
ENTRIES_A_MOVE = 5
FILE_ENTRIES = 100_000
INSTANCE = "bench"
START_MS = 1_790_000_000_000
MOVE_MS = 1_000  # a commit a second

_STATES = (None, "transferring", "releasing", "releasing", "owned")
_DATA = (
    '{"topics":{"broker-events":{"0":0}}}',
    '{"ever_owned":true}',
    '{"ever_owned":true}',
    '{"ever_owned":true,"released":true}',
    '{"ever_owned":true}',
)


class LongJournal:
    """The entries of such a history by number; move `n` starts at entry `first_move_seq + 5 n`."""

    def __init__(self, brokers: int = BROKERS, namespaces: int = NAMESPACES, bundles_each: int = BUNDLES_EACH) -> None:
        self.namespaces = namespaces
        self.sessions = [Session(f"b-{n:03}:8080", 1, f"n{n:03}", 1) for n in range(brokers)]
        self.bundles: list[Bundle] = [
            b for n in range(namespaces) for b in initial_bundles(f"bench/ns-{n:02}", bundles_each)
        ]
        self.beginning = list(self._begin())
        self.first_move_seq = len(self.beginning) + 1

    def moves_for(self, entries: int) -> int:
        """The number of moves that makes the journal at least `entries` entries long."""
        return max(0, -(-(entries - len(self.beginning)) // ENTRIES_A_MOVE))

    def rows(self, start: int, stop: int) -> pa.Table:
        """The rows of the moves [start, stop), by seq."""
        moves = np.repeat(np.arange(start, stop), ENTRIES_A_MOVE)
        step = np.tile(np.arange(ENTRIES_A_MOVE), stop - start)
        bundle, visit = moves % len(self.bundles), moves // len(self.bundles)
        brokers = len(self.sessions)
        owner, target = (bundle + visit) % brokers, (bundle + visit + 1) % brokers
        names = pa.array([str(b) for b in self.bundles])
        sessions = pa.array([str(s) for s in self.sessions])
        owned, talks = step == 4, step > 0
        columns = {
            "seq": pa.array(self.first_move_seq + moves * ENTRIES_A_MOVE + step),
            "kind": pa.array(["offsets", *["ownership"] * 4]).take(pa.array(step)),
            "instance": pa.repeat(INSTANCE, len(step)),
            "batch": pa.array(moves),
            "at_ms": pa.array(START_MS + moves * MOVE_MS),
            "bundle": names.take(pa.array(bundle, mask=~talks)),
            "state": pa.array(_STATES, pa.string()).take(pa.array(step)),
            "epoch": pa.array(visit + 2, mask=~talks),
            "by": sessions.take(pa.array(np.where(owned, target, owner), mask=~talks)),
            "to": sessions.take(pa.array(target, mask=~talks | owned)),
            "data": pa.array(_DATA).take(pa.array(step)),
        }
        schema = arrow_schema(JOURNAL)
        return pa.table([columns.get(f.name, pa.nulls(len(step), f.type)) for f in schema], schema=schema)

    def write(self, root: TableRoot, moves: int) -> None:
        """Fill an empty journal with the beginning and `moves` moves, in large files."""
        first = arrow_table(JOURNAL, (entry.to_row() for entry in self.beginning))
        merged = merge_properties(JOURNAL.name)
        write_deltalake(root.open(JOURNAL.name), first, mode="append", writer_properties=merged)
        for start in range(0, moves, FILE_ENTRIES // ENTRIES_A_MOVE):
            stop = min(moves, start + FILE_ENTRIES // ENTRIES_A_MOVE)
            rows = self.rows(start, stop)
            write_deltalake(root.open(JOURNAL.name), rows, mode="append", writer_properties=merged)

    def go_on(self, root: TableRoot, start: int, stop: int) -> int:
        """Append the moves [start, stop) and a clean stop with the real writer, a commit each; return the last seq."""
        journal = Journal(root)
        for move in range(start, stop):
            journal.commit(to_entries(self.rows(move, move + 1)), INSTANCE, move)
        at_ms = START_MS + stop * MOVE_MS
        stopped = Entry(journal.last_seq + 1, Kind.CONTROLLER_STOPPED, INSTANCE, stop, at_ms)
        journal.commit([stopped], INSTANCE, stop)
        return journal.last_seq

    def _begin(self) -> Iterator[Entry]:
        """The start, the registrations, the namespaces, the first owner of every bundle."""
        yield Entry(1, Kind.CONTROLLER_STARTED, INSTANCE, -1, START_MS)
        seq = 1
        for session in self.sessions:
            seq += 1
            info = {"info": {"runtime": "reference", "lookup_url": f"http://{session.broker}"}}
            yield Entry(seq, Kind.REGISTERED, INSTANCE, -1, START_MS, session=str(session), data=info)
        for n in range(self.namespaces):
            seq += 1
            named = [str(b) for b in self.bundles if b.namespace == f"bench/ns-{n:02}"]
            data = {"namespace": f"bench/ns-{n:02}", "bundles": named}
            yield Entry(seq, Kind.NAMESPACE_CREATED, INSTANCE, -1, START_MS, data=data)
        for at, bundle in enumerate(self.bundles):
            owner = str(self.sessions[at % len(self.sessions)])
            common: dict[str, Any] = {"bundle": str(bundle), "epoch": 1, "data": {"ever_owned": True}}
            yield Entry(seq + 1, Kind.OWNERSHIP, INSTANCE, -1, START_MS, state="assigning", to=owner, **common)
            yield Entry(seq + 2, Kind.OWNERSHIP, INSTANCE, -1, START_MS, state="owned", by=owner, **common)
            seq += 2
