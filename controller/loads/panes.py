"""Aggregates valid reports into mergeable partial panes by (pane, broker, incarnation) and by (pane, broker, bundle).

A pane is the merge of its partials over all tasks and batches: counts and sums add up, maxima take the larger value.
This needs no shuffle, state or watermark; a late report is one more partial, and the order of batches does not matter.
Panes are windows of event time, which is Kafka's timestamp. Vectorised with numpy over all bundle rows; no Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.load import BUNDLE_FIELDS, RESOURCES, TAIL
from controller.loads.columns import TIMES, Sheet

Longs = npt.NDArray[np.int64]
_RANGE = 22  # length of /0xLLLLLLLL_0xUUUUUUUU after the namespace


def pane_ends(event_ms: Longs, pane_ms: int) -> Longs:
    """The exclusive end of each event's pane; panes are aligned to the epoch."""
    return np.asarray((event_ms // pane_ms + 1) * pane_ms)


def broker_partials(sheet: Sheet, event_ms: Longs, pane_ms: int) -> pa.Table:
    """Partial panes of brokers. Usage and limit are summed over reports with a known limit (> 0), which `{r}_known`
    counts."""
    columns: dict[str, Any] = {
        "pane_end_ms": pane_ends(event_ms, pane_ms),
        "broker": sheet.brokers,
        "incarnation": sheet.ids["incarnation"],
        "reports": np.ones(len(event_ms), np.int64),
    }
    for number, name in enumerate(RESOURCES):
        known = sheet.limits[number] > 0
        usage = np.where(known, sheet.usages[number], 0.0)
        columns |= {f"{name}_usage_sum": usage, f"{name}_usage_max": usage, f"{name}_known": known.astype(np.int64)}
        columns[f"{name}_limit_sum"] = np.where(known, sheet.limits[number], 0.0)
    for number, name in enumerate(TIMES):
        columns |= {f"{name}_sum": sheet.times[number], f"{name}_max": sheet.times[number]}
    columns |= {f"{name}_sum": row for name, row in zip((*BUNDLE_FIELDS, "bundles"), sheet.totals, strict=True)}
    columns |= {"last_sequence": sheet.ids["sequence"], "first_event_ms": event_ms, "last_event_ms": event_ms}
    return merge_brokers(pa.table(columns))


def merge_brokers(partials: pa.Table) -> pa.Table:
    """Merge partials to one row per (pane, broker, incarnation), sorted."""
    keys = ["pane_end_ms", "broker", "incarnation"]
    wanted = [(name, _merge_of(name)) for name in partials.column_names if name not in keys]
    grouped = partials.group_by(keys, use_threads=False).aggregate(wanted)
    back = {f"{name}_{how}": name for name, how in wanted}
    named = grouped.rename_columns([back.get(name, name) for name in grouped.column_names])
    return named.select(partials.column_names).sort_by([(name, "ascending") for name in keys])


def _merge_of(name: str) -> str:
    if name == "reports" or name.endswith(("_sum", "_known")):
        return "sum"
    return "min" if name == "first_event_ms" else "max"


def bundle_partials(sheet: Sheet, event_ms: Longs, pane_ms: int) -> pa.Table:
    """Partial panes of bundles; bundles below a report's top k are one row named `tail` with namespace ''."""
    tailed = np.flatnonzero(sheet.has_tail)
    owners = np.concatenate([sheet.owners, tailed])
    stats = np.concatenate([sheet.stats, sheet.tails[:-1, tailed]], axis=1)
    names = pa.concat_arrays([sheet.names, pa.array([TAIL] * len(tailed), pa.string())])
    coded, brokers = names.dictionary_encode(), sheet.brokers.dictionary_encode()
    ends = pane_ends(event_ms, pane_ms)
    moments, moment_of = np.unique(ends, return_inverse=True)
    width = max(len(coded.dictionary), 1)
    group_of = moment_of * max(len(brokers.dictionary), 1) + brokers.indices.to_numpy()
    codes = group_of[owners] * width + coded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)
    firsts, sizes = ordered[starts], np.diff(np.append(starts, len(ordered)))
    group, name = firsts // width, firsts % width
    bundles = pa.array(name)
    columns: dict[str, Any] = {
        "pane_end_ms": moments[group // max(len(brokers.dictionary), 1)],
        "bundle": coded.dictionary.take(bundles),
        "namespace": _namespaces(coded.dictionary).take(bundles),
        "broker": brokers.dictionary.take(pa.array(group % max(len(brokers.dictionary), 1))),
        "reports": sizes.astype(np.int64),
    }
    alone = len(starts) == len(ordered)  # one report per pane, as is common with steady traffic
    for number, field in enumerate(BUNDLE_FIELDS):
        row = stats[number][order]
        if not len(row) or alone:
            sums = largest = row
        else:
            sums, largest = np.add.reduceat(row, starts), np.maximum.reduceat(row, starts)
        columns |= {f"{field}_sum": sums, f"{field}_max": largest}
    return pa.table(columns)


def _namespaces(names: pa.Array) -> pa.Array:
    before = pc.utf8_slice_codeunits(names, 0, -_RANGE)
    return pc.if_else(pc.equal(names, TAIL), "", before)
