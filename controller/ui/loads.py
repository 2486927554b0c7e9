"""The newest load of every bundle, read once per version of the load table and shared by the views that need it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.load import TAIL
from controller.operations.reading import Reader

LOOK_BACK_MS = 60_000  # a bundle without a report for this long has no current load
_COLUMNS = ("bundle", "as_of_ms", "msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")


class BundleLoad(NamedTuple):
    """Short averages: messages/s and bytes/s, in and out together."""

    msg_rate: float
    throughput: float


class NewestLoads:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: int | None = None
        self._loads: Mapping[str, BundleLoad] = {}

    def get(self, reader: Reader, version: int) -> Mapping[str, BundleLoad]:
        """By bundle, as of this version of `bundle_load`; bundles that only the tail has are missing."""
        with self._lock:
            if self._version != version:
                self._loads, self._version = read_newest_loads(reader), version
            return self._loads


def read_newest_loads(reader: Reader) -> dict[str, BundleLoad]:
    """By bundle; that of the newest pane, from whichever broker reported it."""
    newest = reader.newest("bundle_load", "as_of_ms")
    if newest is None:
        return {}
    rows = reader.rows("bundle_load", "as_of_ms", above=newest - LOOK_BACK_MS, columns=_COLUMNS)
    found: dict[str, BundleLoad] = {}
    for at_ms in sorted(rows["as_of_ms"].unique().to_pylist(), reverse=True):
        pane = rows.filter(pc.equal(rows["as_of_ms"], at_ms))
        if found:  # nearly all of them: only the rest is turned into objects
            known = pa.array(list(found), pa.string())
            pane = pane.filter(pc.invert(pc.is_in(pane["bundle"].cast(pa.string()), value_set=known)))
        rates = pc.add(pane["msg_rate_in"], pane["msg_rate_out"]).to_pylist()
        bytes_per_s = pc.add(pane["throughput_in"], pane["throughput_out"]).to_pylist()
        loads = map(BundleLoad._make, zip(rates, bytes_per_s, strict=True))
        found |= dict(zip(pane["bundle"].to_pylist(), loads, strict=True))
    found.pop(TAIL, None)
    return found
