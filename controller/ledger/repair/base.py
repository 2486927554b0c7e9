"""The base snapshots that can still be read, from which the state can be told without the entries before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from controller.domain.errors import BallastError
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode
from controller.ledger.damage import find_data_fault
from controller.ledger.delta_log import DeltaLog
from controller.ledger.snapshots import KEPT
from schemas.control_tables import CONTROL_STATE


class Base(NamedTuple):
    """A snapshot: its row of `control_state`, and the state in it."""

    row: dict[str, Any]
    state: ClusterState


def read_bases(log: DeltaLog, paths: Iterable[str]) -> list[Base]:
    """The newest KEPT snapshots in these files of `control_state` that can be read, oldest first.

    A snapshot is the fold of journaled entries wherever it lies, so one that has been replaced counts as well.
    """
    rows: dict[int, dict[str, Any]] = {}
    for path in paths:
        content = log.read_file(path)
        if find_data_fault(content):
            continue
        found = pq.read_table(pa.BufferReader(content))
        if set(CONTROL_STATE.names) <= set(found.column_names):
            rows.update({row["seq"]: row for row in found.select(CONTROL_STATE.names).to_pylist()})
    bases: list[Base] = []
    for seq in sorted(rows, reverse=True):
        try:
            bases.append(Base(rows[seq], decode(rows[seq]["state_json"])))
        except (ValueError, KeyError, TypeError, AttributeError, BallastError):
            continue
        if len(bases) == KEPT:
            break
    return bases[::-1]
