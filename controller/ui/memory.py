"""What the page keeps of the journal in memory, so that no view reads the journal as a whole.

These are the attempts that entries name (which evidence counts), the entries of the last hour, splits by the halves
they made, what is told of plans that wait for an operator, and the last commands that set the mode and the strategy.
Read once, then kept up by the entries that a follower applies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from functools import reduce

import pyarrow.compute as pc

from controller.domain.entries import Entry, Kind
from controller.operations.reading import Reader
from schemas.journal import JOURNAL

RECENT_MS = 3_600_000
SET_BY_COMMAND = ("mode", "strategy")  # kinds of commands whose last sender is shown
_SETTING = tuple(f'"kind":"{kind}"' for kind in SET_BY_COMMAND)
_SILENT = frozenset({Kind.OFFSETS.value})  # entries that change nothing anybody looks at


class Memory:
    """Up to date with the entries up to `seq`. Not thread-safe."""

    def __init__(self) -> None:
        self.seq = 0
        self.news_seq = 0  # newest entry that changes a view
        self.evidence_seq = 0  # newest entry that names an attempt, or tells what became of a plan
        self.attempts: dict[str, int] = {}
        self.since_ms = 0  # `recent` is complete from here on
        self.recent: deque[Entry] = deque()
        self.set_by: dict[str, Entry] = {}
        self.round_seq = 0  # newest entry of a round
        self.splits: dict[str, Entry] = {}  # half -> the split that made it
        self.plans: list[Entry] = []  # about plans that an operator decides about, oldest first

    @classmethod
    def read(cls, reader: Reader, seq: int, now_ms: int) -> Memory:
        """What the tables say up to this entry."""
        memory = cls()
        memory.since_ms = now_ms - RECENT_MS
        memory.attempts = {name: at for name, at in Reader.attempts(reader).items() if at <= seq}
        memory.plans = reader.entries_of(Kind.PLAN, seq)
        memory.evidence_seq = max([*memory.attempts.values(), *(entry.seq for entry in memory.plans)], default=0)
        entries = Reader.entries_since(reader, memory.since_ms)
        memory._keep(e for e in sorted(entries, key=lambda e: e.seq) if e.seq <= seq)
        memory._note_commands(_read_commands(reader, seq))
        memory._note_splits(reader.entries_of(Kind.SPLIT, seq))
        memory.round_seq = memory.evidence_seq
        memory.seq = memory.news_seq = seq
        return memory

    def note(self, entries: Iterable[Entry], now_ms: int) -> None:
        """Entries that were applied, in order."""
        fresh = [entry for entry in entries if entry.seq > self.seq]
        for entry in fresh:
            self.seq = entry.seq
            if entry.kind.value not in _SILENT:
                self.news_seq = entry.seq
            if entry.attempt_id is not None and entry.attempt_id not in self.attempts:
                self.attempts[entry.attempt_id] = self.evidence_seq = entry.seq
            if entry.kind is Kind.PLAN:
                self.plans.append(entry)
                self.evidence_seq = entry.seq
            if entry.kind is Kind.ROUND:
                self.round_seq = entry.seq
        self._keep(fresh)
        self._note_commands(fresh)
        self._note_splits(fresh)
        self.since_ms = max(self.since_ms, now_ms - RECENT_MS)
        while self.recent and self.recent[0].at_ms < self.since_ms:
            self.recent.popleft()

    def _keep(self, entries: Iterable[Entry]) -> None:
        self.recent.extend(entry for entry in entries if entry.kind.value not in _SILENT)

    def _note_commands(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.kind is Kind.COMMAND_ACCEPTED and entry.data.get("kind") in SET_BY_COMMAND:
                self.set_by[str(entry.data["kind"])] = entry

    def _note_splits(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.kind is Kind.SPLIT:
                self.splits |= dict.fromkeys(entry.data.get("children", ()), entry)


def sender_of(entry: Entry | None) -> Mapping[str, object] | None:
    """Who sent an accepted command, why and when."""
    if entry is None:
        return None
    return {"who": entry.data.get("who") or None, "why": entry.data.get("why") or None, "at_ms": entry.at_ms,
            "seq": entry.seq}  # fmt: skip


def _read_commands(reader: Reader, seq: int) -> list[Entry]:
    """The accepted commands that may have set what `SET_BY_COMMAND` names, oldest first; their data says which did."""
    only = {"kind": Kind.COMMAND_ACCEPTED.value}
    seqs = reader.rows("journal", "seq", up_to=seq, columns=["seq"], equal=only)["seq"].to_pylist()
    if not seqs:
        return []
    rows = reader.rows("journal", "seq", min(seqs) - 1, max(seqs), JOURNAL.names, equal=only)
    named = [pc.match_substring(rows["data"], text) for text in _SETTING]
    rows = rows.filter(pc.fill_null(reduce(pc.or_, named), False))
    return [Entry.from_row(row) for row in rows.sort_by("seq").to_pylist()]
