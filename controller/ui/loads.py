"""The newest load of every bundle, read once per version of the load table and shared by the views that need it.

The loads stay columns: as objects, those of a hundred thousand bundles would take longer than reading them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controller.operations.reading import Reader

LOOK_BACK_MS = 60_000  # a bundle without a report for this long has no current load
_RATES = ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")
Floats = npt.NDArray[np.float64]


class BundleLoads(NamedTuple):
    """Short averages: messages/s and bytes/s, in and out together; NaN where unknown."""

    msg_rate: Floats
    throughput: Floats


class Loads:
    """The newest loads; bundles that only the tail has are missing."""

    def __init__(self, names: Any, loads: BundleLoads) -> None:
        """`names`: a column of text; of a name that is there twice, the first row counts."""
        self._names, self._loads = names, loads

    def of(self, bundles: Sequence[str]) -> BundleLoads:
        """The loads of these bundles, in their order."""
        found = pc.index_in(pa.array(bundles, pa.string()), value_set=self._names)
        known, at = found.is_valid().to_numpy(zero_copy_only=False), found.fill_null(0).to_numpy()
        return BundleLoads(*(_take(values, at, known) for values in self._loads))


NO_LOADS = Loads(pa.array([], pa.string()), BundleLoads(np.empty(0), np.empty(0)))


class NewestLoads:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: int | None = None
        self._loads = NO_LOADS

    def get(self, reader: Reader, version: int) -> Loads:
        """As of this version of `bundle_load`."""
        with self._lock:
            if self._version != version:
                self._loads, self._version = read_newest_loads(reader), version
            return self._loads


def read_newest_loads(reader: Reader) -> Loads:
    """Those of the newest pane that has the bundle, from whichever broker reported it."""
    newest = reader.newest("bundle_load", "as_of_ms")
    if newest is None:
        return NO_LOADS
    columns = ["bundle", "as_of_ms", *_RATES]
    left = reader.rows("bundle_load", "as_of_ms", above=newest - LOOK_BACK_MS, columns=columns)
    panes: list[pa.Table] = []
    while left.num_rows:  # the newest pane has nearly all of them
        at_ms = pc.max(left["as_of_ms"])
        pane = left.filter(pc.equal(left["as_of_ms"], at_ms))
        panes.append(pane)
        left = left.filter(pc.less(left["as_of_ms"], at_ms))
        left = left.filter(pc.invert(pc.is_in(left["bundle"], value_set=pane["bundle"])))
    rows = pa.concat_tables(panes) if panes else left
    into, out, bytes_in, bytes_out = (np.asarray(rows[name], np.float64) for name in _RATES)
    return Loads(rows["bundle"], BundleLoads(into + out, bytes_in + bytes_out))


def _take(values: Floats, at: npt.NDArray[Any], known: npt.NDArray[np.bool_]) -> Floats:
    return np.where(known, values[at] if len(values) else np.nan, np.nan)
