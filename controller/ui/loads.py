"""The newest load of every bundle, read once per version of the load table and shared by the views that need it.

The loads stay columns: as objects, those of a hundred thousand bundles would take longer than reading them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controller.operations.reading import Reader, newest_first

LOOK_BACK_MS = 60_000  # a bundle without a report for this long has no current load
_RATES = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")
_NOTHING = pa.table({"bundle": pa.array([], pa.string()), **dict.fromkeys(_RATES, pa.array([], pa.float64()))})
Floats = npt.NDArray[np.float64]


class BundleLoads(NamedTuple):
    """Short averages: messages/s and bytes/s, in and out together; NaN where unknown."""

    msg_rate: Floats
    throughput: Floats


class Loads:
    """The loads of one version of the table. Bundles that only the tail has are missing. Thread-safe.

    A bundle's load is that of the newest pane that has it, from whichever broker reported it most often. Nearly all are
    in the newest pane of all, so those before it are read when somebody asks for a bundle that it lacks.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader, self._lock = reader, threading.Lock()
        self._newest_ms = reader.newest("bundle_load", "as_of_ms")
        self._rows = _NOTHING if self._newest_ms is None else self._read(self._newest_ms - 1, self._newest_ms)
        self._whole = self._newest_ms is None

    def of(self, bundles: Sequence[str]) -> BundleLoads:
        """The loads of these bundles, in their order."""
        wanted = pa.array(bundles, pa.string())
        with self._lock:
            found = pc.index_in(wanted, value_set=self._rows["bundle"])
            if found.null_count and not self._whole:
                self._add_older()
                found = pc.index_in(wanted, value_set=self._rows["bundle"])
            rows = self._rows
        into, out, bytes_in, bytes_out = (np.asarray(rows[name].take(found), np.float64) for name in _RATES)
        return BundleLoads(into + out, bytes_in + bytes_out)

    def _add_older(self) -> None:
        assert self._newest_ms is not None
        left = self._read(self._newest_ms - LOOK_BACK_MS, self._newest_ms - 1)
        self._rows = pa.concat_tables([self._rows, _without(left, self._rows)])
        self._whole = True

    def _read(self, above_ms: int, up_to_ms: int) -> pa.Table:
        """The rows that count first."""
        columns = ["bundle", "as_of_ms", "reports", "batch_id", *_RATES]
        return newest_first(self._reader.rows("bundle_load", "as_of_ms", above_ms, up_to_ms, columns), "as_of_ms")


class NewestLoads:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: int | None = None
        self._loads: Loads | None = None

    def get(self, reader: Reader, version: int) -> Loads:
        """As of this version of `bundle_load`."""
        with self._lock:
            if self._loads is None or self._version != version:
                self._loads, self._version = Loads(reader), version
            return self._loads


def _without(rows: pa.Table, known: pa.Table) -> pa.Table:
    """The rows of bundles that are not known."""
    return rows.filter(pc.invert(pc.is_in(rows["bundle"], value_set=known["bundle"])))
