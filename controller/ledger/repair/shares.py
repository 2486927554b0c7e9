"""Which lost commit each found entry belongs to: entries lie between those of the commits around."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from controller.domain.entries import Entry
from controller.ledger.damage import BATCH, INSTANCE
from controller.ledger.repair.data_files import Piece, seqs_of
from controller.ledger.repair.runs import Run
from controller.ledger.repair.table_log import Replay, TableLog


@dataclass(slots=True)
class Share:
    """What goes into one commit."""

    adopted: list[Piece] = field(default_factory=list)
    restored: list[Entry] = field(default_factory=list)

    def writer(self, info: Mapping[str, Any]) -> tuple[str, int, int] | None:
        """Instance, batch and last seq, of the commit's metadata or the entries; None if it added none."""
        if INSTANCE in info and BATCH in info and "ballast.seq" in info:
            return info[INSTANCE], info[BATCH], info["ballast.seq"]
        last = max([*(p.last for p in self.adopted), *(e.seq for e in self.restored)], default=0)
        for piece in self.adopted:
            if piece.last == last and len(piece.writers) == 1:
                return (*next(iter(piece.writers)), last)
        return next(((e.instance, e.batch, last) for e in self.restored if e.seq == last), None)


class _Lot(NamedTuple):
    """A file, or the entries of one batch: what was one commit."""

    first: int
    last: int
    piece: Piece | None
    entries: tuple[Entry, ...]


def share_out(
    files: TableLog, replayed: Replay, adopted: Iterable[Piece], restored: Iterable[Entry]
) -> tuple[dict[int, Share], Share]:
    """What belongs to each lost commit, by version, and what belongs to none. From the end on, each commit gets one lot
    as long as there are enough commits."""
    spans = _spans(files)
    shares: dict[int, Share] = {}
    rest = Share()
    for lot in sorted(_lots(adopted, restored), key=lambda lot: lot.last, reverse=True):
        after = max((version for version, span in spans.items() if span[1] < lot.first), default=-1)
        before = min((version for version, span in spans.items() if span[0] > lot.last), default=files.newest + 1)
        fitting = [version for version in replayed.lost if after < version < before]
        taken = [version for version in fitting if version in shares]
        free = [version for version in fitting if version < min(taken, default=before)]
        share = shares.setdefault((free[-1:] or taken)[0], Share()) if fitting else rest
        if lot.piece is not None:
            share.adopted.insert(0, lot.piece)
        share.restored[:0] = lot.entries
    return shares, rest


def _lots(adopted: Iterable[Piece], restored: Iterable[Entry]) -> Iterator[_Lot]:
    for piece in adopted:
        yield _Lot(piece.first, piece.last, piece, ())
    for _, batch in groupby(restored, key=lambda entry: (entry.instance, entry.batch)):
        entries = tuple(batch)
        yield _Lot(entries[0].seq, entries[-1].seq, None, entries)


def _spans(files: TableLog) -> dict[int, Run]:
    """The entries that each whole commit added."""
    return {
        version: run
        for version, file in files.commits.items()
        if not file.fault
        for action in file.actions
        if "add" in action and action["add"].get("dataChange") and (run := seqs_of(action["add"]))
    }
