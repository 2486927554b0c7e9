"""Reads a recording from the Delta tables of a running system: merges panes into steps, as rounds do.

It only reads the columns for averages, one hour at a time. The averages of a step count as one report at its end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controller.backtest.recording.recording import Recorder
from controller.domain.errors import ConfigError
from controller.domain.load import BUNDLE_FIELDS, RESOURCES, TAIL
from controller.ledger.files import read_range, retry_on_vacuum
from controller.ledger.loads import BROKER_COLUMNS, BUNDLE_COLUMNS, average_brokers, average_bundles
from controller.ledger.tables import TableRoot
from controller.policy.view.frame import LATENCIES
from schemas.load_tables import BROKER_PANES, BUNDLE_PANES
from schemas.record import Record

HOUR_MS = 3_600_000
_END = "pane_end_ms"


def add_panes(
    root: TableRoot, ends: pa.ChunkedArray, recorder: Recorder, step_ms: int, on_progress: Callable[[float], None]
) -> int:
    """Add all panes with these `ends` to the recorder; return the number of broker panes.

    `on_progress`: called with the part that is done, 0..1.
    """
    first, last = int(pc.min(ends).as_py()), int(pc.max(ends).as_py())
    hour_ms = max(HOUR_MS // step_ms, 1) * step_ms
    for above in range((first - 1) // hour_ms * hour_ms, last, hour_ms):
        up_to = above + hour_ms
        brokers = _by_step(_read(root, BROKER_PANES, above, up_to, (_END, *BROKER_COLUMNS)), step_ms)
        bundles = _by_step(_read(root, BUNDLE_PANES, above, up_to, (_END, *BUNDLE_COLUMNS)), step_ms)
        for step, panes in brokers.items():
            _add(recorder, (step + 1) * step_ms - 1, panes, bundles.get(step))
        on_progress((up_to - first) / max(last - first, 1))
    return len(ends)


def first_hour(root: TableRoot, ends: pa.ChunkedArray) -> list[tuple[str, int]]:
    """(broker, end) of all panes in the first hour."""
    first = int(pc.min(ends).as_py())
    panes = _read(root, BROKER_PANES, first - 1, first + HOUR_MS, (_END, "broker"))
    return list(zip(panes["broker"].to_pylist(), panes[_END].to_pylist(), strict=True))


def pane_ends(root: TableRoot) -> pa.ChunkedArray:
    """The end of every broker pane, in ms. Raises ConfigError if the tables are missing or empty."""
    for record in (BROKER_PANES, BUNDLE_PANES):
        if not root.exists(record.name):
            raise ConfigError(f"{root.uri(record.name)} is no table: name the root of a running system's tables")
    ends = _read(root, BROKER_PANES, -1, None, (_END,))[_END]
    if not len(ends):
        raise ConfigError(f"{root.uri(BROKER_PANES.name)} has no rows: nothing to run strategies on")
    return ends


def _read(root: TableRoot, record: Record, above: int, up_to: int | None, columns: tuple[str, ...]) -> pa.Table:
    log = root.log(record.name)
    return retry_on_vacuum(lambda: read_range(root.open(record.name), log, record, _END, above, up_to, columns))


def _by_step(panes: pa.Table, step_ms: int) -> dict[int, pa.Table]:
    """Group rows by the step in which their panes end."""
    step = (panes[_END].to_numpy() - 1) // step_ms
    order = np.argsort(step, kind="stable")
    panes = panes.take(pa.array(order)).drop_columns([_END])
    found, starts = np.unique(step[order], return_index=True)
    ends = [*starts[1:].tolist(), len(step)]
    return {
        int(at): panes.slice(start, end - start)
        for at, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True)
    }


def _add(recorder: Recorder, at_ms: int, broker_panes: pa.Table, bundle_panes: pa.Table | None) -> None:
    brokers = average_brokers(broker_panes)
    usage, limit = (_matrix(brokers, [f"{r}_{part}" for r in RESOURCES], -1.0) for part in ("usage", "limit"))
    totals, latency = _matrix(brokers, list(BUNDLE_FIELDS), 0.0), _matrix(brokers, list(LATENCIES), 0.0)
    names, reporter = np.zeros(0, object), np.zeros(0, object)
    rows = np.zeros((0, len(BUNDLE_FIELDS)), np.float32)
    if bundle_panes is not None:
        bundles = average_bundles(bundle_panes.filter(pc.not_equal(bundle_panes["bundle"], TAIL)))
        names, reporter = (np.array(bundles[name].to_pylist(), object) for name in ("bundle", "broker"))
        rows = _matrix(bundles, list(BUNDLE_FIELDS), 0.0).astype(np.float32)
    for at, (broker, incarnation) in enumerate(
        zip(brokers["broker"].to_pylist(), brokers["incarnation"].to_pylist(), strict=True)
    ):
        mine = reporter == broker
        recorder.add_figures(
            broker, (at_ms, int(incarnation)), usage[at], limit[at], totals[at], latency[at],
            names[mine].tolist(), rows[mine],
        )  # fmt: skip


def _matrix(table: pa.Table, columns: list[str], unknown: float) -> np.ndarray:
    """[rows x columns] doubles; `unknown` for null."""
    parts = [pc.fill_null(table[name].cast(pa.float64()), unknown).to_numpy() for name in columns]
    return np.column_stack(parts) if table.num_rows else np.zeros((0, len(columns)))
