"""The data files of a table as they lie in the store: which can be read, and which journal entries they hold."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controller.domain.entries import Entry
from controller.ledger.damage import Action, find_data_fault, find_size_fault
from controller.ledger.delta_log import DeltaLog
from controller.ledger.repair.runs import Run, runs_of
from schemas.journal import JOURNAL

Writer = tuple[str, int]  # instance and batch of an entry: one commit's


@dataclass(frozen=True, slots=True)
class Piece:
    """A data file of the journal that can be read: its entries as runs, and who wrote them, by batch.

    `named`: some commit names it, so its entries were committed.
    """

    path: str
    size_bytes: int
    runs: tuple[Run, ...]
    writers: frozenset[Writer]
    named: bool

    @property
    def first(self) -> int:
        """The smallest seq."""
        return self.runs[0][0]

    @property
    def last(self) -> int:
        """The largest seq."""
        return self.runs[-1][1]


def find_faults(
    log: DeltaLog, active: Mapping[str, Action], lying: Mapping[str, int], *, decode: bool
) -> dict[str, str]:
    """What is wrong with the files that the newest version needs, by path. `lying`: the files and their sizes.

    `decode`: read them whole, which finds more than their sizes tell.
    """
    faults = {path: find_size_fault(path, add["size"], lying) for path, add in active.items()}
    if decode:
        faults |= {path: find_data_fault(log.read_file(path)) for path, fault in faults.items() if not fault}
    return {path: fault for path, fault in faults.items() if fault}


def read_pieces(
    log: DeltaLog, paths: Iterable[str], lying: Mapping[str, int], named: Collection[str]
) -> tuple[list[Piece], dict[str, str]]:
    """These files of the journal as pieces, without empty ones, and what is wrong with those that cannot be read."""
    pieces: list[Piece] = []
    faults: dict[str, str] = {}
    for path in paths:
        content = log.read_file(path)
        fault = find_data_fault(content)
        if fault:
            faults[path] = fault
            continue
        rows = pq.read_table(pa.BufferReader(content), columns=["seq", "instance", "batch"])
        if rows.num_rows:
            writers = rows.group_by(["instance", "batch"]).aggregate([]).to_pylist()
            runs, written = runs_of(rows["seq"].to_numpy()), frozenset((r["instance"], r["batch"]) for r in writers)
            pieces.append(Piece(path, lying[path], tuple(runs), written, path in named))
    return pieces, faults


def seqs_of(add: Action) -> Run | None:
    """The seqs of a journal file by its statistics; None without any."""
    stats = json.loads(add.get("stats") or "{}")
    try:
        return stats["minValues"]["seq"], stats["maxValues"]["seq"]
    except KeyError:
        return None


def read_entries(log: DeltaLog, paths: Iterable[str], runs: Iterable[Run]) -> list[Entry]:
    """The entries of the files within the runs, by seq; entries that several files hold come once."""
    wanted = list(runs)
    found: dict[int, Entry] = {}
    for path in paths:
        for row in _rows(log, path, wanted).to_pylist():
            found.setdefault(row["seq"], Entry.from_row(row))
    return [found[seq] for seq in sorted(found)]


def describe_file(log: DeltaLog, path: str, size_bytes: int) -> dict[str, Any]:
    """The `add` of a journal file that no commit names, with the statistics of the journal's commits."""
    rows = pq.read_table(pa.BufferReader(log.read_file(path)), columns=["seq", "kind", "at_ms"])
    ends = {name: pc.min_max(rows[name]).as_py() for name in rows.column_names}
    stats = {
        "numRecords": rows.num_rows,
        "minValues": {name: end["min"] for name, end in ends.items()},
        "maxValues": {name: end["max"] for name, end in ends.items()},
        "nullCount": dict.fromkeys(ends, 0),
    }
    return {"path": path, "size": size_bytes, "partitionValues": {}, "stats": json.dumps(stats)}


def _rows(log: DeltaLog, path: str, runs: Iterable[Run]) -> pa.Table:
    rows = pq.read_table(pa.BufferReader(log.read_file(path)))
    seqs = rows["seq"].to_numpy()
    keep = np.zeros(len(seqs), dtype=bool)
    for first, last in runs:
        keep |= (seqs >= first) & (seqs <= last)
    return rows.select([name for name in JOURNAL.names if name in rows.column_names]).filter(pa.array(keep))
