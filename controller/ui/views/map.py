"""The view *Map*: every bundle with its broker and its load, as typed arrays: 100,000 bundles in two megabytes.

The document is binary, little-endian: the length of a JSON header (4 bytes), the header padded with spaces so that the
arrays begin at a multiple of 8, then the arrays in the order of the header's `fields`, each padded to a multiple of 8.
A bundle's name is its namespace (an index into `namespaces`) and its bounds. `throughput` is NaN where unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.operations.overview import broker_rows
from controller.ui.cluster import LiveCluster
from controller.ui.loads import BundleLoad, NewestLoads

NOBODY = 0xFFFFFFFF  # in place of a broker's index
_UNKNOWN = BundleLoad(math.nan, math.nan)
FIELDS = (("namespace", "<u4"), ("lower", "<u4"), ("upper", "<u4"), ("broker", "<u4"), ("moving", "|u1"),
          ("throughput", "<f4"), ("msg_rate", "<f4"))  # fmt: skip


class _Tile(NamedTuple):
    """A bundle on the map: who holds it, and whether it is on its way."""

    name: str
    bundle: Bundle
    broker: str | None
    moving: bool


def bundle_map(cluster: LiveCluster, loads: NewestLoads) -> bytes:
    """The document of the view. Raises NoTables."""
    versions, state = cluster.versions, cluster.state()
    of = loads.get(cluster.reader, versions.loads)
    scores = broker_rows(cluster.reader, cluster.evidence())
    brokers = [row["broker"] for row in scores]
    arrays, namespaces = _columns(state, brokers, of)
    header = {
        "seq": versions.seq,
        "count": len(arrays["lower"]),
        "fields": FIELDS,
        "namespaces": namespaces,
        "brokers": [{name: row[name] for name in ("broker", "state", "score", "bundles")} for row in scores],
    }
    return _pack(header, arrays)


def _columns(
    state: ClusterState, brokers: list[str], of: Mapping[str, BundleLoad]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """By column rather than by bundle, since there may be a hundred thousand."""
    tiles = list(_tiles(state))
    place: dict[str | None, int] = {broker: at for at, broker in enumerate(brokers)}
    spaces = {name: at for at, name in enumerate(sorted({tile.bundle.namespace for tile in tiles}))}
    loads = [of.get(tile.name, _UNKNOWN) for tile in tiles]
    values: dict[str, Iterable[float]] = {
        "namespace": (spaces[tile.bundle.namespace] for tile in tiles),
        "lower": (tile.bundle.lower for tile in tiles),
        "upper": (tile.bundle.upper for tile in tiles),
        "broker": (place.get(tile.broker, NOBODY) for tile in tiles),
        "moving": (tile.moving for tile in tiles),
        "throughput": (load.throughput for load in loads),
        "msg_rate": (load.msg_rate for load in loads),
    }
    return {name: np.fromiter(values[name], kind, len(tiles)) for name, kind in FIELDS}, list(spaces)


def _tiles(state: ClusterState) -> Iterator[_Tile]:
    for name, record in state.bundles.items():
        if record.state is not State.RETIRED:
            yield _Tile(name, record.bundle, record.by.broker if record.by else None, record.to is not None)
    observed = state.observed
    for name, seen in observed.bundles.items():
        yield _Tile(name, seen.bundle, seen.broker, name in observed.orders)


def _pack(header: Mapping[str, object], arrays: Mapping[str, np.ndarray]) -> bytes:
    text = msgspec.json.encode(header)
    text += b" " * (-(4 + len(text)) % 8)
    parts = [len(text).to_bytes(4, "little"), text]
    for name, _ in FIELDS:
        body = arrays[name].tobytes()
        parts += [body, b"\0" * (-len(body) % 8)]
    return b"".join(parts)
