"""Rolling averages in Spark SQL, from the panes tables: the same rows as `loads_rolling`, for batches too large for one
process. Nothing is kept between batches; what came before is read from the tables.

The order of a key's panes matters to the long average only, so that is a fold over the key's sorted panes.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from jobs.loads_layout import Layout, Ratio
from jobs.loads_rolling import lag_ms


def rolling_rows(
    layout: Layout,
    partials: DataFrame,
    panes_before: DataFrame,
    load_before: DataFrame,
    newest_before_ms: int,
    horizon_ms: int,
    half_life_ms: int,
) -> DataFrame:
    """Rows of the load table, without writer and batch.

    `panes_before` and `load_before` are the tables without the rows of this batch (a re-run finds some there);
    `newest_before_ms` as in `Rolling.fold`.
    """
    cut = newest_before_ms - lag_ms(horizon_ms)
    keys = ", ".join((*layout.keys, *layout.carried))
    sums = ", ".join(f"CAST(sum({name}) AS DOUBLE) AS {name}" for name in layout.sums)
    columns = f"{keys}, pane_end_ms, " + ", ".join(layout.sums)
    means = ", ".join(_ratio(ratio, "m.") for ratio, _ in layout.longs)
    text = f"""
WITH part AS (SELECT {columns} FROM {{partials}} WHERE pane_end_ms > {cut}),
merged AS (
  SELECT {keys}, pane_end_ms, {sums}
  FROM (SELECT {columns} FROM part
        UNION ALL SELECT {columns} FROM {{panes}} WHERE pane_end_ms > {cut - horizon_ms})
  GROUP BY {keys}, pane_end_ms),
prior AS ({_prior(layout)}),
touched AS (
  SELECT DISTINCT {_named("p", (*layout.keys, *layout.carried))},
    greatest(p.pane_end_ms, coalesce(o.as_of, -1)) AS as_of
  FROM part p LEFT JOIN prior o ON {_same("p", "o", layout.keys)}),
short AS (
  SELECT {_named("t", (*layout.keys, *layout.carried))}, t.as_of, {", ".join(f"sum(m.{s}) AS {s}" for s in layout.sums)}
  FROM touched t JOIN merged m ON {_same("t", "m", layout.keys)}
   AND m.pane_end_ms > t.as_of - {horizon_ms} AND m.pane_end_ms <= t.as_of
  GROUP BY {_named("t", (*layout.keys, *layout.carried))}, t.as_of),
steps AS (
  SELECT {_named("t", layout.keys)}, array_sort(collect_list(struct(t.as_of AS as_of, array({means}) AS mean))) AS steps
  FROM touched t JOIN merged m ON {_same("t", "m", layout.keys)} AND m.pane_end_ms = t.as_of
  GROUP BY {_named("t", layout.keys)}),
folded AS (
  SELECT {_named("s", layout.keys)}, inline({_fold(half_life_ms, len(layout.longs))})
  FROM steps s LEFT JOIN prior o ON {_same("s", "o", layout.keys)})
SELECT t.as_of AS as_of_ms, {_named("t", (*layout.keys, *layout.carried))},
  {f"t.as_of - {horizon_ms} AS short_from_ms, " if layout.has_short_from else ""}
  CAST(t.reports AS BIGINT) AS reports,
  {", ".join(f"{_ratio(ratio, 't.')} AS {ratio.name}" for ratio in layout.ratios)},
  {", ".join(f"f.now[{number}] AS {name}" for number, (_, name) in enumerate(layout.longs))}
FROM short t JOIN folded f ON {_same("t", "f", layout.keys)} AND f.as_of = t.as_of
"""
    return partials.sparkSession.sql(text, partials=partials, panes=panes_before, load=load_before)


def _prior(layout: Layout) -> str:
    """Per key the newest as_of with its long averages, and those of the as_of before it."""
    keys = ", ".join(layout.keys)
    longs = ", ".join(name for _, name in layout.longs)
    return f"""
  SELECT {keys}, max_by(as_of_ms, -place) AS as_of, max_by(now, -place) AS now,
    max(if(place = 2, as_of_ms, NULL)) AS prev_end, max_by(now, if(place = 2, 1, NULL)) AS prev
  FROM (SELECT {keys}, as_of_ms, now, row_number() OVER (PARTITION BY {keys} ORDER BY as_of_ms DESC) AS place
        FROM (SELECT {keys}, as_of_ms, max_by(array({longs}), batch_id) AS now FROM {{load}} GROUP BY {keys}, as_of_ms))
  WHERE place <= 2 GROUP BY {keys}"""


def _fold(half_life_ms: int, longs: int) -> str:
    nothing = f"array_repeat(CAST(NULL AS DOUBLE), {longs})"
    decay = f"pow(0.5D, (g.as_of - a.prev_end) / {half_life_ms}D)"
    value = f"""zip_with(a.prev, g.mean, (p, x) -> CASE WHEN p IS NULL THEN x WHEN x IS NULL THEN p
        ELSE p * {decay} + (1.0D - {decay}) * x END)"""
    # Two steps: whether the key's newest pane goes on or a new one begins settles what `prev` is; then the value.
    moved = """named_struct('as_of', g.as_of, 'prev_end', if(a.as_of <=> g.as_of, a.prev_end, a.as_of),
        'prev', if(a.as_of <=> g.as_of, a.prev, a.now), 'now', a.now, 'done', a.done)"""
    start = f"""named_struct('as_of', o.as_of, 'prev_end', o.prev_end, 'prev', coalesce(o.prev, {nothing}),
        'now', coalesce(o.now, {nothing}),
        'done', CAST(array() AS ARRAY<STRUCT<as_of: BIGINT, now: ARRAY<DOUBLE>>>))"""
    settled = f"""transform(array({moved}), a -> named_struct('as_of', a.as_of, 'prev_end', a.prev_end, 'prev', a.prev,
        'now', {value},
        'done', concat(a.done, array(named_struct('as_of', g.as_of, 'now', {value})))))[0]"""
    return f"aggregate(s.steps, {start}, (a, g) -> {settled}, a -> a.done)"


def _ratio(ratio: Ratio, prefix: str) -> str:
    above = " + ".join(f"{prefix}{name}" for name in ratio.above)
    return f"if({prefix}{ratio.below} > 0, ({above}) / {prefix}{ratio.below}, NULL)"


def _named(alias: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{alias}.{name}" for name in columns)


def _same(left: str, right: str, keys: tuple[str, ...]) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in keys)
