"""Which rows belong to a slice of time, and the cluster's state at both of its ends.

The journal's entries between two wall-clock times are the slice. Evidence belongs to it if one of its entries names the
attempt. Loads are on the axis of the reports, which in a replay is another one than wall time: the newest round of the
slice says by how much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.apply import fold
from controller.domain.entries import Entry
from controller.domain.errors import BallastError
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode
from controller.ledger.journal_rows import check_dense
from controller.operations.reading import Reader
from controller.operations.text import time_text
from schemas.catalog import TABLES
from schemas.journal import JOURNAL

HOUR_MS = 3_600_000
ROUNDS_AT_ONCE = 20
CHUNK_MS = 120_000  # of loads in memory at a time
LOADS = {"broker_panes": "pane_end_ms", "bundle_panes": "pane_end_ms", "broker_load": "as_of_ms",
         "bundle_load": "as_of_ms"}  # fmt: skip
EVIDENCE = {"decisions": "at_ms", "broker_scores": "at_ms"}


@dataclass(frozen=True, slots=True)
class Slice:
    """The journal's part of a slice. `before`: the state at its beginning, None where that has expired; `after`: at its
    end. `rounds`: those that its entries name, without their inputs, which `read_rounds` reads."""

    since_ms: int
    until_ms: int
    entries: pa.Table
    before: ClusterState | None
    after: ClusterState
    rounds: pa.Table

    @property
    def attempts(self) -> pa.Array:
        """The attempts that the entries name."""
        return pc.unique(self.entries["attempt_id"].drop_null().combine_chunks().cast(pa.string()))

    @property
    def loads_between_ms(self) -> tuple[int, int]:
        """(above, up to) on the axis of the load reports, without the window of the first round."""
        if not self.rounds.num_rows:
            return self.since_ms, self.until_ms
        newest = self.rounds.sort_by("wall_ms").slice(self.rounds.num_rows - 1).to_pylist()[0]
        ahead_ms = newest["at_ms"] - newest["wall_ms"]
        first = min(self.since_ms + ahead_ms, pc.min(self.rounds["at_ms"]).as_py())
        return first, max(self.until_ms + ahead_ms, pc.max(self.rounds["at_ms"]).as_py())


def read_slice(reader: Reader, since_ms: int, until_ms: int) -> Slice:
    """The slice between two wall-clock times. Raises BallastError where there is nothing, or its end has expired."""
    seqs = reader.rows("journal", "at_ms", since_ms - 1, until_ms, ["seq"])["seq"]
    if not len(seqs):
        newest = reader.newest("journal", "at_ms")
        raise BallastError(
            f"the journal has no entry between {time_text(since_ms)} and {time_text(until_ms)} UTC; its newest is of "
            f"{time_text(newest) or 'never'}"
        )
    first, last = pc.min(seqs).as_py(), pc.max(seqs).as_py()
    entries = reader.rows("journal", "seq", first - 1, last, JOURNAL.names).sort_by("seq")
    after = _state_at(reader, last)
    if after is None:
        raise BallastError(
            f"the state at entry {last} cannot be told: earlier entries have expired, and no base snapshot is as old; "
            "capture up to now (without --until)"
        )
    named = Slice(since_ms, until_ms, entries, _state_at(reader, first - 1), after, _NO_ROUNDS)
    columns = [name for name in TABLES["rounds"].names if name != "inputs_json"]
    rounds = reader.rows("rounds", "wall_ms", since_ms - HOUR_MS, until_ms + HOUR_MS, columns)
    chosen = rounds.filter(pc.is_in(rounds["attempt_id"].cast(pa.string()), value_set=named.attempts))
    return Slice(since_ms, until_ms, entries, named.before, after, chosen)


_NO_ROUNDS = pa.table({"at_ms": pa.array([], pa.int64())})


def read_rounds(reader: Reader, of: Slice) -> Iterator[pa.Table]:
    """The rounds with their inputs, a few at a time: those of one round of a large cluster take megabytes."""
    if not of.rounds.num_rows:
        return
    ordered = of.rounds.sort_by("wall_ms")
    for start in range(0, ordered.num_rows, ROUNDS_AT_ONCE):
        part = ordered.slice(start, ROUNDS_AT_ONCE)
        ends = pc.min_max(part["wall_ms"]).as_py()
        rows = reader.rows("rounds", "wall_ms", ends["min"] - 1, ends["max"], TABLES["rounds"].names)
        wanted = part["attempt_id"].combine_chunks().cast(pa.string())
        yield rows.filter(pc.is_in(rows["attempt_id"].cast(pa.string()), value_set=wanted))


def read_evidence(reader: Reader, of: Slice) -> Iterator[tuple[str, pa.Table]]:
    """(table, rows) of decisions and scores."""
    first, last = of.loads_between_ms
    above, up_to = min(first, of.since_ms) - HOUR_MS, max(last, of.until_ms) + HOUR_MS
    for name, column in EVIDENCE.items():
        rows = reader.rows(name, column, above, up_to, TABLES[name].names)
        yield name, rows.filter(pc.is_in(rows["attempt_id"].cast(pa.string()), value_set=of.attempts))


def read_loads(reader: Reader, of: Slice, window_ms: int) -> Iterator[tuple[str, pa.Table]]:
    """(table, rows) of panes and averages, a few minutes at a time; `window_ms` is what a round looks back."""
    first, last = of.loads_between_ms
    for name, column in LOADS.items():
        oldest, newest = _ends(reader, name, column)
        up_to = min(last, newest)
        for above in range(max(first - window_ms, oldest - 1), up_to, CHUNK_MS):
            rows = reader.rows(name, column, above, min(above + CHUNK_MS, up_to), TABLES[name].names)
            if rows.num_rows:
                yield name, rows


def _ends(reader: Reader, name: str, column: str) -> tuple[int, int]:
    """The smallest and the largest value of a column with statistics; (0, 0) for a table without rows."""
    if not reader.exists(name):
        return 0, 0
    actions = pa.table(reader.open(name).get_add_actions(flatten=True))
    if not actions.num_rows or f"min.{column}" not in actions.column_names:
        return 0, 0
    return pc.min(actions[f"min.{column}"]).as_py() or 0, pc.max(actions[f"max.{column}"]).as_py() or 0


def _state_at(reader: Reader, seq: int) -> ClusterState | None:
    """The state after an entry; None where what it would be folded from has expired."""
    kept = reader.rows("control_state", "seq", -1, seq, ["seq", "state_json"]).sort_by("seq").to_pylist()
    base = decode(kept[-1]["state_json"]) if kept else ClusterState()
    rows = reader.rows("journal", "seq", base.seq, seq, JOURNAL.names).sort_by("seq")
    if rows.num_rows != seq - base.seq:
        return None
    return fold(base, check_dense((Entry.from_row(row) for row in rows.to_pylist()), base.seq))
