"""Computes rolling averages in Spark, for batches too large for one process.

The code is that of `controller.loads.rolling_averages`, run once per partition of keys. No state is kept between
batches: earlier panes and averages are read from the tables.

Written as SQL (joins of touched keys, panes and earlier averages), the same computation took 19 shuffles, and Spark
spent 30 s a batch on optimising and compiling it. This version needs one shuffle by key and vectorised Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from controller.loads.layout import Layout
from controller.loads.rolling_averages import RollingAverages
from schemas.catalog import TABLES
from schemas.spark import ddl_type

PANE, LOAD, PARTIAL = "pane", "load", "partial"
_MARKER = ("writer", "batch_id")


def rolling_rows(
    layout: Layout,
    partials: DataFrame,
    panes_before: DataFrame,
    load_before: DataFrame,
    rolling: Callable[[], RollingAverages],
    newest_before_ms: int,
    partitions: int,
) -> DataFrame:
    """Rows of the load table, without writer and batch.

    `panes_before` and `load_before` must exclude rows of this batch, which a re-run finds in the tables. `rolling`
    creates an empty Rolling; `newest_before_ms` is that of `Rolling.fold`. A partition must fit into memory.
    """
    longs = [name for _, name in layout.longs]
    sources = ((PANE, panes_before, "pane_end_ms"), (LOAD, load_before, "as_of_ms"), (PARTIAL, partials, "pane_end_ms"))
    parts: list[DataFrame] = []
    for kind, frame, moment in sources:
        columns: list[Column | str] = [
            F.lit(kind).alias("kind"),
            *layout.keys,
            *layout.carried,
            F.col(moment).alias("moment"),
        ]
        columns.append((F.col("batch_id") if kind == LOAD else F.lit(0)).cast("long").alias("batch_id"))
        columns += [_double_column(name, kind != LOAD) for name in layout.sums]
        columns += [_double_column(name, kind == LOAD) for name in longs]
        parts.append(frame.select(*columns))
    together = parts[0].unionByName(parts[1]).unionByName(parts[2])
    record = TABLES[layout.load]
    schema = ", ".join(f"{f.name} {ddl_type(f.type)}" for f in record if f.name not in _MARKER)
    names = [f.name for f in record if f.name not in _MARKER]

    def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = list(batches)
        if given:
            rows = _fold(pa.Table.from_batches(given), rolling(), newest_before_ms)
            yield from rows.select(names).to_batches()

    return together.repartition(partitions, *layout.keys).mapInArrow(fold, schema)


def _fold(given: pa.Table, rolling: RollingAverages, newest_before_ms: int) -> pa.Table:
    kinds = {kind: given.filter(pc.equal(given["kind"], kind)) for kind in (PANE, LOAD, PARTIAL)}
    as_panes, as_load = ({"moment": name} for name in ("pane_end_ms", "as_of_ms"))
    rolling.recover(kinds[PANE].rename_columns(as_panes), kinds[LOAD].rename_columns(as_load))
    return rolling.fold(kinds[PARTIAL].rename_columns(as_panes), newest_before_ms)


def _double_column(name: str, exists: bool) -> Column:
    return (F.col(name) if exists else F.lit(None)).cast("double").alias(name)
