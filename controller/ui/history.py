"""The scores of brokers over the last 24 hours, by round, as arrays: what the charts of brokers are drawn from.

A round of 1,000 brokers is a matrix of 28 KB; a day of them is read once and then grows by a round at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.load import RESOURCES
from controller.operations.evidence_view import EvidenceView
from controller.operations.reading import Reader

KEPT_MS = 24 * 3_600_000
VALUES = ("score", "mean", *(f"{name}_utilisation" for name in RESOURCES))
Matrix = npt.NDArray[np.float32]


class OfRound(NamedTuple):
    """The values of one round: a row for each broker known by then, NaN where unknown."""

    at_ms: int
    values: Matrix


class ScoreHistory:
    """Thread-safe. Times are those of rounds, on the axis of the reports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._place: dict[str, int] = {}
        self._rounds: deque[OfRound] = deque()

    def extend(self, reader: Reader, view: EvidenceView) -> None:
        """Read the rounds that are new since the last call."""
        with self._lock:
            leading = [row for row in view.rounds() if not row["challenger"]]
            newest = max((row["at_ms"] for row in leading), default=0)
            after = max(newest - KEPT_MS, self._rounds[-1].at_ms if self._rounds else -1)
            fresh = {row["attempt_id"]: row["at_ms"] for row in leading if row["at_ms"] > after}
            if fresh:
                columns = ["attempt_id", "broker", *VALUES]
                self._append(fresh, reader.rows("broker_scores", "at_ms", above=after, columns=columns))
            while self._rounds and self._rounds[0].at_ms <= newest - KEPT_MS:
                self._rounds.popleft()

    def of_broker(self, broker: str) -> dict[str, list[float | None]]:
        """`at_ms`, and a list of as many values for each of VALUES; None where unknown."""
        with self._lock:
            at, rounds = self._place.get(broker), list(self._rounds)
        if at is None:
            return {"at_ms": [], **{name: [] for name in VALUES}}
        seen = [found for found in rounds if at < len(found.values)]
        lines = np.array([found.values[at] for found in seen], np.float32).reshape(-1, len(VALUES))
        columns = {name: [None if np.isnan(v) else round(float(v), 4) for v in lines[:, n]]
                   for n, name in enumerate(VALUES)}  # fmt: skip
        return {"at_ms": [found.at_ms for found in seen], **columns}

    def _append(self, fresh: dict[str, int], rows: pa.Table) -> None:
        times = sorted(fresh.items(), key=lambda item: item[1])
        numbers = pc.index_in(rows["attempt_id"].cast(pa.string()), pa.array([name for name, _ in times], pa.string()))
        rows, numbers = rows.filter(pc.is_valid(numbers)), numbers.drop_null().to_numpy()
        place = self._places(rows["broker"])
        values = np.column_stack([_floats(rows[name]) for name in VALUES])
        order = np.argsort(numbers, kind="stable")  # once, and not a search of a day's rows for each of its rounds
        ends = np.searchsorted(numbers[order], np.arange(len(times) + 1))
        for (_, at_ms), begin, end in zip(times, ends[:-1], ends[1:], strict=True):
            own = order[begin:end]
            matrix = np.full((len(self._place), len(VALUES)), np.nan, np.float32)
            matrix[place[own]] = values[own]
            self._rounds.append(OfRound(at_ms, matrix))

    def _places(self, brokers: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """The row of each of these in a matrix; a broker that was not known gets the next one."""
        encoded = brokers.cast(pa.string()).combine_chunks().dictionary_encode()
        places = [self._place.setdefault(name, len(self._place)) for name in encoded.dictionary.to_pylist()]
        found: npt.NDArray[np.int64] = np.array(places, np.int64)[encoded.indices.to_numpy()]
        return found


def _floats(column: pa.ChunkedArray) -> Matrix:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float32)
