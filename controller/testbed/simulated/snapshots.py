"""Base snapshots in memory: what is kept, which one is read and how far entries may expire is decided by the real code.

Only the table below it is simulated. A stored snapshot may be damaged; it then cannot be read, now or later.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from controller.domain.state import ClusterState
from controller.ledger.snapshots import Snapshots

Rows = tuple[tuple[int, str], ...]


class Stored(NamedTuple):
    """The table at one version: seqs and texts, ascending by seq."""

    version: int = 0
    rows: Rows = ()


class SnapshotTable:
    """The table with the snapshots. `on_save`: told of a state that was saved, and of the rows from then on."""

    def __init__(self) -> None:
        self.stored = Stored()
        self._damaged: set[int] = set()
        self.on_save: Callable[[ClusterState, Rows], None] = lambda state, rows: None

    def replace(self, version: int, rows: Rows) -> None:
        """Store these rows behind that version. Raises CommitFailedError when another writer was quicker."""
        if version != self.stored.version:
            raise CommitFailedError(f"the table is at version {self.stored.version}, not at {version}")
        self.stored = Stored(version + 1, tuple(sorted(rows)))

    def damage(self, dice: Random, spare_one: bool) -> int:
        """Cut the texts of the newest whole ones off, of all but one if `spare_one`; returns of how many."""
        whole = [at for at, (seq, _) in enumerate(self.stored.rows) if seq not in self._damaged]
        if len(whole) <= spare_one:
            return 0
        rows, number = list(self.stored.rows), dice.randint(1, len(whole) - spare_one)
        for at in whole[-number:]:
            seq, text = rows[at]
            rows[at] = seq, text[: len(text) // 2]
            self._damaged.add(seq)
        self.stored = Stored(self.stored.version + 1, tuple(rows))
        return number


class SimSnapshots(Snapshots):
    """The real snapshots on such a table. `work` is called before each access: it takes time, and may raise OSError."""

    def __init__(self, table: SnapshotTable, work: Callable[[], None] = lambda: None) -> None:
        self._rows, self._work = table, work

    def save(self, state: ClusterState, at_ms: int) -> bool:
        """As the real one does."""
        saved = super().save(state, at_ms)
        if saved:
            self._rows.on_save(state, self._rows.stored.rows)
        return saved

    def _open(self) -> tuple[Any, pa.Table]:
        self._work()
        version, rows = self._rows.stored
        seqs, texts = [seq for seq, _ in rows], [text for _, text in rows]
        return version, pa.table({"seq": pa.array(seqs, pa.int64()), "state_json": pa.array(texts, pa.string())})

    def _replace(self, table: Any, rows: list[dict[str, Any]], instance: str) -> None:
        self._work()
        self._rows.replace(table, tuple((row["seq"], row["state_json"]) for row in rows))
