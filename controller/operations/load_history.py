"""The load of one bundle over time, from panes at equal distances: a day of a big cluster is too much to read whole.

A pane of a cluster has a row for every bundle, and no file is sorted by bundle. So as many panes are read as have
MOST_ROWS rows together, spread evenly: all of them in a small cluster, one every half hour of a day where there are
100,000 bundles.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.operations.reading import Reader

MOST_ROWS = 3_000_000
MOST_PANES = 288
FEWEST_PANES = 12
PANE_MS = 10_000
_COLUMNS = ("as_of_ms", "broker", "reports", "msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out")


def load_history(reader: Reader, bundle: str, span_ms: int) -> dict[str, list[Any]]:
    """Columns of one row a pane, oldest first: at_ms, broker (the reporter), msg_rate, throughput.

    `span_ms`: how far back from the newest pane. Empty lists where nothing is known.
    """
    newest = reader.newest("bundle_load", "as_of_ms")
    if newest is None:
        return {"at_ms": [], "broker": [], "msg_rate": [], "throughput": []}
    above = newest - span_ms
    step_ms = _step_ms(reader, above, newest)
    tables = []
    if step_ms <= PANE_MS:
        tables.append(reader.rows("bundle_load", "as_of_ms", above, newest, _COLUMNS, {"bundle": bundle}))
    else:
        for end_ms in range(newest, above, -step_ms):
            pane = (end_ms - PANE_MS, end_ms)
            tables.append(reader.rows("bundle_load", "as_of_ms", *pane, _COLUMNS, {"bundle": bundle}))
    rows = _with_all_reports(pa.concat_tables(tables))
    step = -(-rows.num_rows // MOST_PANES) or 1
    rows = rows.take(pa.array(range((rows.num_rows - 1) % step, rows.num_rows, step), pa.int64()))
    return {
        "at_ms": rows["as_of_ms"].to_pylist(),
        "broker": rows["broker"].to_pylist(),
        "msg_rate": pc.add(rows["msg_rate_in"], rows["msg_rate_out"]).to_pylist(),
        "throughput": pc.add(rows["throughput_in"], rows["throughput_out"]).to_pylist(),
    }


def _with_all_reports(rows: pa.Table) -> pa.Table:
    """One row for each moment and broker, in order: a late report adds another row, which has more reports."""
    rows = rows.sort_by([("as_of_ms", "ascending"), ("broker", "ascending"), ("reports", "ascending")])
    numbered = rows.append_column("at", pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(["as_of_ms", "broker"]).aggregate([("at", "max")])["at_max"]
    return rows.take(last.combine_chunks().sort())


def _step_ms(reader: Reader, above: int, newest: int) -> int:
    """The distance of panes at which about MOST_ROWS rows are read."""
    actions = pa.table(reader.open("bundle_load").get_add_actions(flatten=True))
    if "max.as_of_ms" not in actions.column_names or "num_records" not in actions.column_names:
        return PANE_MS
    inside = actions.filter(pc.greater(actions["max.as_of_ms"], above))
    rows = pc.sum(inside["num_records"]).as_py() or 0
    panes = max(1, (newest - above) // PANE_MS)
    affordable = max(FEWEST_PANES, int(panes * MOST_ROWS / max(rows, 1)))
    return PANE_MS * -(-panes // affordable)
