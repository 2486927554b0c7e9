"""Reads the loads of a round: merges the partial panes of a window into short averages, at pinned table versions.

Pane rows are partial, so merging them means adding: sums and counts add up, and averages are sums divided by counts.
Only files whose statistics overlap the window are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from controller.ledger.files import read_range, retry_on_vacuum
from controller.ledger.loads_progress import LoadsProgress, LoadsProgressWatch, loads_progress
from controller.ledger.tables import TableRoot, as_root
from schemas.load_tables import BROKER_PANES, BUNDLE_PANES
from schemas.record import Record

__all__ = [
    "BROKER_COLUMNS",
    "BUNDLE_COLUMNS",
    "LoadsProgress",
    "LoadsProgressWatch",
    "Panes",
    "average_brokers",
    "average_bundles",
    "loads_progress",
    "read_broker_panes",
    "read_panes",
]

_LATENCIES = ("rpc_queue_ms", "metadata_latency_ms")
_PER_REPORT = (*_LATENCIES, *BUNDLE_FIELDS)
BROKER_COLUMNS = (
    "broker", "incarnation", "reports", "last_sequence", "first_event_ms", "last_event_ms", "bundles_sum",
    *(f"{r}_{what}" for r in RESOURCES for what in ("usage_sum", "limit_sum", "known")),
    *(f"{name}_sum" for name in _PER_REPORT),
)  # fmt: skip
BUNDLE_COLUMNS = (
    "bundle", "namespace", "broker", "reports", *(f"{f}_sum" for f in BUNDLE_FIELDS),
)  # fmt: skip

Columns = Mapping[str, Any]  # column -> numpy array


@dataclass(frozen=True, slots=True, eq=False)
class Panes:
    """The short averages of a window. `versions` (table -> version) allows to read the very same rows again."""

    brokers: Columns
    bundles: Columns
    versions: Mapping[str, int]


def read_panes(
    root: TableRoot | str | Path, at_ms: int, horizon_ms: int, versions: Mapping[str, int] | None = None
) -> Panes:
    """The merged panes that end in (at_ms - horizon_ms, at_ms]; columns are numpy arrays, NaN where unknown.

    See `average_brokers` and `average_bundles` for the columns; the limits are those of each broker's newest pane.
    Raises DeltaError for a version that is gone.
    """
    tables, asked = as_root(root), versions or {}
    brokers, brokers_at = _read(tables, BROKER_PANES, ("pane_end_ms", *BROKER_COLUMNS), at_ms, horizon_ms, asked)
    bundles, bundles_at = _read(tables, BUNDLE_PANES, BUNDLE_COLUMNS, at_ms, horizon_ms, asked)
    pinned = {BROKER_PANES.name: brokers_at, BUNDLE_PANES.name: bundles_at}
    return Panes(_arrays(_with_newest_limits(brokers)), _arrays(average_bundles(bundles)), pinned)


def read_broker_panes(root: TableRoot | str | Path, at_ms: int, pane_ms: int, count: int) -> list[Columns]:
    """The averages of brokers (`average_brokers`) in each of the last panes up to `at_ms`, oldest first."""
    tables = as_root(root)
    columns = ("pane_end_ms", *BROKER_COLUMNS)
    rows, _ = _read(tables, BROKER_PANES, columns, at_ms, count * pane_ms, {})
    ends = [at_ms - number * pane_ms for number in reversed(range(count))]
    inside = [
        rows.filter(pc.and_(pc.greater(rows["pane_end_ms"], end - pane_ms), pc.less_equal(rows["pane_end_ms"], end)))
        for end in ends
    ]
    return [_arrays(average_brokers(pane)) for pane in inside]


def average_brokers(panes: pa.Table) -> pa.Table:
    """One row a (broker, incarnation), sorted: reports, last_sequence, first_event_ms, last_event_ms, bundles, per
    resource usage, limit and utilisation (null: unknown in every report), latencies, and the broker's totals.

    `panes` has rows of broker_panes.
    """
    sums = ["reports", "bundles_sum", *(f"{name}_sum" for name in _PER_REPORT)]
    sums += [f"{r}_{what}" for r in RESOURCES for what in ("usage_sum", "limit_sum", "known")]
    largest = ["last_sequence", "last_event_ms"]
    merged = _group(panes, ["broker", "incarnation"], sum=sums, max=largest, min=["first_event_ms"])
    columns = {name: merged[name] for name in ("broker", "incarnation", "reports", *largest, "first_event_ms")}
    for r in RESOURCES:
        usage = _ratio(merged[f"{r}_usage_sum"], merged[f"{r}_known"])
        limit = _ratio(merged[f"{r}_limit_sum"], merged[f"{r}_known"])
        columns |= {f"{r}_usage": usage, f"{r}_limit": limit, f"{r}_utilisation": _ratio(usage, limit)}
    for name in (*_PER_REPORT, "bundles"):
        columns[name] = _ratio(merged[f"{name}_sum"], merged["reports"])
    return pa.table(columns).sort_by([("broker", "ascending"), ("incarnation", "ascending")])


def _with_newest_limits(panes: pa.Table) -> pa.Table:
    """The averages of brokers, with the limits of the newest pane: a limit that has changed is not a mean of two.

    Brokers learn of a new limit at different times. By means of old and new, one of them would have room for a while
    that it has not, and get what the others carry.
    """
    averages = average_brokers(panes)
    ends = _group(panes, ["broker", "incarnation"], max=["pane_end_ms"])
    newest = average_brokers(panes.join(ends, ["broker", "incarnation", "pane_end_ms"], join_type="inner"))
    for r in RESOURCES:
        limit = pc.coalesce(newest[f"{r}_limit"], averages[f"{r}_limit"])
        for name, values in ((f"{r}_limit", limit), (f"{r}_utilisation", _ratio(averages[f"{r}_usage"], limit))):
            averages = averages.set_column(averages.column_names.index(name), name, values)
    return averages


def average_bundles(panes: pa.Table) -> pa.Table:
    """One row a (bundle, broker), a broker's tail among them, sorted: bundle, broker, namespace, reports, the fields.

    A bundle that moved within the window has a row for each broker that reported it, so that a round can subtract its
    share from the former owner's averages and add it to the new one's. `panes` has rows of bundle_panes.
    """
    sums = ["reports", *(f"{f}_sum" for f in BUNDLE_FIELDS)]
    merged = _group(panes, ["bundle", "broker"], sum=sums, max=["namespace"])
    columns = {name: merged[name] for name in ("bundle", "namespace", "broker", "reports")}
    columns |= {f: _ratio(merged[f"{f}_sum"], merged["reports"]) for f in BUNDLE_FIELDS}
    return pa.table(columns).sort_by([("bundle", "ascending"), ("broker", "ascending")])


def _read(
    tables: TableRoot, record: Record, columns: tuple[str, ...], at_ms: int, horizon_ms: int, asked: Mapping[str, int]
) -> tuple[pa.Table, int]:
    log = tables.log(record.name)

    def read() -> tuple[pa.Table, int]:
        table = tables.open(record.name, version=asked.get(record.name))
        rows = read_range(table, log, record, "pane_end_ms", at_ms - horizon_ms, at_ms, columns)
        return rows, table.version()

    return retry_on_vacuum(read)


def _group(panes: pa.Table, keys: list[str], **aggregates: list[str]) -> pa.Table:
    """Group and aggregate, keeping the columns' names. One thread, so that the order of rows is deterministic."""
    wanted = [(column, how) for how, columns in aggregates.items() for column in columns]
    grouped = panes.group_by(keys, use_threads=False).aggregate(wanted)
    return grouped.rename_columns({f"{column}_{how}": column for column, how in wanted})


def _ratio(amount: pa.ChunkedArray, count: pa.ChunkedArray) -> pa.ChunkedArray:
    """amount / count as doubles; null where count is null or not above 0."""
    divisor = pc.cast(count, pa.float64())
    return pc.divide(amount, pc.if_else(pc.greater(divisor, 0.0), divisor, pa.scalar(None, pa.float64())))


def _arrays(table: pa.Table) -> Columns:
    return {name: table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in table.column_names}
