"""The view *Map*: every bundle with its broker and its load, as typed arrays: 100,000 bundles in two megabytes.

The document is binary, little-endian: the length of a JSON header (4 bytes), the header padded with spaces so that the
arrays begin at a multiple of 8, then the arrays in the order of the header's `fields`, each padded to a multiple of 8.
A bundle's name is its namespace (an index into `namespaces`) and its bounds. `throughput` is NaN where unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from controller.domain.ids import Bundle
from controller.domain.ownership import State
from controller.domain.state import ClusterState
from controller.operations.overview import broker_rows
from controller.ui.cluster import LiveCluster
from controller.ui.loads import Loads, NewestLoads

NOBODY = 0xFFFFFFFF  # in place of a broker's index
FIELDS = (("namespace", "<u4"), ("lower", "<u4"), ("upper", "<u4"), ("broker", "<u4"), ("moving", "|u1"),
          ("throughput", "<f4"), ("msg_rate", "<f4"))  # fmt: skip


class _Tiles(NamedTuple):
    """The bundles on the map, in columns: a hundred thousand objects would take longer than all else."""

    names: list[str]
    bundles: list[Bundle]
    brokers: list[str | None]
    moving: list[bool]


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


def _columns(state: ClusterState, brokers: list[str], loads: Loads) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays by field, and the namespaces that they index."""
    tiles = _tiles(state)
    place: dict[str | None, int] = {broker: at for at, broker in enumerate(brokers)}
    namespaces = [bundle.namespace for bundle in tiles.bundles]
    spaces = {name: at for at, name in enumerate(sorted(set(namespaces)))}
    of = loads.of(tiles.names)
    values: dict[str, Any] = {
        "namespace": [spaces[name] for name in namespaces],
        "lower": [bundle.lower for bundle in tiles.bundles],
        "upper": [bundle.upper for bundle in tiles.bundles],
        "broker": [place.get(broker, NOBODY) for broker in tiles.brokers],
        "moving": tiles.moving,
        "throughput": of.throughput,
        "msg_rate": of.msg_rate,
    }
    return {name: np.array(values[name], kind) for name, kind in FIELDS}, list(spaces)


def _tiles(state: ClusterState) -> _Tiles:
    retired = State.RETIRED
    names = [name for name, record in state.bundles.items() if record.state is not retired]
    owned = [record for record in state.bundles.values() if record.state is not retired]
    observed, orders = state.observed.bundles, state.observed.orders
    return _Tiles(
        [*names, *observed],
        [record.bundle for record in owned] + [seen.bundle for seen in observed.values()],
        [r.by.broker if r.by is not None else None for r in owned] + [s.broker for s in observed.values()],
        [record.to is not None for record in owned] + [name in orders for name in observed],
    )


def _pack(header: Mapping[str, object], arrays: Mapping[str, np.ndarray]) -> bytes:
    text = msgspec.json.encode(header)
    text += b" " * (-(4 + len(text)) % 8)
    parts = [len(text).to_bytes(4, "little"), text]
    for name, _ in FIELDS:
        body = arrays[name].tobytes()
        parts += [body, b"\0" * (-len(body) % 8)]
    return b"".join(parts)
