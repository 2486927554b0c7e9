"""Good reports to mergeable partial panes: one row a (pane, broker, incarnation) and one a (pane, broker, bundle).

A pane is the merge of its partials over all batches: counts and sums add, maxima take the larger. So a batch needs no
state and no watermark, a late report is one more partial, and the order of batches does not matter. Panes are cut by
event time (`window`), which is Kafka's timestamp. The queries are text: built from columns they cost a quarter of a
second a batch in calls from Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from controller.domain.load import BUNDLE_FIELDS, RESOURCES, TAIL
from jobs.loads_parse import RULES

TIMES = ("rpc_queue_ms", "metadata_latency_ms")
RAW_CHARACTERS = 65_536  # of a report out of its time, in the quarantine
_RANGE = 22  # what follows the namespace: /0xLLLLLLLL_0xUUUUUUUU


@dataclass(frozen=True)
class Overview:
    """What one pass over the batch says: panes of brokers, rows to come, bad rows by rule, event times in ms."""

    broker_panes: pa.Table
    bundle_rows: int
    bad: dict[str, int]
    first_event_ms: int | None
    last_event_ms: int | None

    @property
    def rows(self) -> int:
        """Rows of the batch before bundles of one pane are merged; what the choice of the writer goes by."""
        return int(self.broker_panes.num_rows) + self.bundle_rows + sum(self.bad.values())


def judged(classified: DataFrame, late_before_ms: int, future_after_ms: int) -> DataFrame:
    """The classified rows with their time judged as well: `report` is null for every bad row.

    Both bounds are event time; text is compared, see `loads_parse`. `raw` of a report out of its time is what was
    parsed, written again: its bytes are not kept for every good report just in case.
    """
    late, future = f"'{max(late_before_ms, 0):020d}'", f"'{max(future_after_ms, 0):020d}'"
    timely = f"(event_key >= {late} AND event_key <= {future})"
    shown = "concat(': ', timestamp)"
    return classified.selectExpr(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "event_ms",
        f"CASE WHEN {timely} THEN report END AS report",
        f"""CASE WHEN rule IS NOT NULL OR {timely} THEN rule
            WHEN event_key < {late} THEN 'late' ELSE 'future' END AS rule""",
        f"""CASE WHEN rule IS NOT NULL THEN text WHEN {timely} THEN NULL WHEN event_key < {late}
            THEN concat('{RULES["late"]}', {shown}) ELSE concat('{RULES["future"]}', {shown}) END AS text""",
        f"CASE WHEN rule IS NULL AND NOT {timely} THEN left(to_json(report), {RAW_CHARACTERS}) ELSE raw END AS raw",
        "raw_base64",
    )


def overview(judged_rows: DataFrame, pane_ms: int) -> Overview:
    """Run the batch's first job: partial panes of brokers and the counts of everything else."""
    frame = _sql(
        judged_rows,
        f"""SELECT rule, {_broker_aggregates()},
            sum(size(report.bundles) + if(report.tail IS NULL, 0, 1)) AS bundle_rows
            FROM {{rows}} GROUP BY rule, {_window(pane_ms)}, report.broker, report.incarnation""",
    )
    table = frame.toArrow()
    is_bad = pc.is_valid(table["rule"])
    bad, good = table.filter(is_bad), table.filter(pc.invert(is_bad))
    counts: dict[str, int] = {}
    for rule, count in zip(bad["rule"].to_pylist(), bad["reports"].to_pylist(), strict=True):
        counts[rule] = counts.get(rule, 0) + count
    return Overview(
        broker_panes=good.drop_columns(["rule", "bundle_rows"]),
        bundle_rows=pc.sum(good["bundle_rows"]).as_py() or 0,
        bad=counts,
        first_event_ms=pc.min(good["first_event_ms"]).as_py(),
        last_event_ms=pc.max(good["last_event_ms"]).as_py(),
    )


def bundle_partials(judged_rows: DataFrame, pane_ms: int) -> DataFrame:
    """Partial panes of bundles; what lies below the report's top k is one row named `tail` with namespace ''."""
    tail_fields = ", ".join(f"'{name}', report.tail.{name}" for name in BUNDLE_FIELDS)
    sums = ", ".join(f"sum(b.{name}) AS {name}_sum, max(b.{name}) AS {name}_max" for name in BUNDLE_FIELDS)
    return _sql(
        judged_rows,
        f"""SELECT unix_millis(window.end) AS pane_end_ms, bundle,
            if(bundle = '{TAIL}', '', left(bundle, length(bundle) - {_RANGE})) AS namespace, broker,
            count(*) AS reports, {sums.replace("b.", "")}
            FROM (SELECT timestamp, report.broker AS broker, inline_outer(
                if(report.tail IS NULL, report.bundles,
                   concat(report.bundles, array(named_struct({tail_fields}, 'bundle', '{TAIL}')))))
                FROM {{rows}})
            WHERE bundle IS NOT NULL
            GROUP BY {_window(pane_ms)}, bundle, broker""",
    )


def bad_rows(judged_rows: DataFrame) -> DataFrame:
    """Rows for the quarantine table, except when and by which batch they were found."""
    return judged_rows.where("rule IS NOT NULL").selectExpr(
        "topic",
        "partition",
        "offset AS kafka_offset",
        "event_ms AS kafka_timestamp_ms",
        "rule",
        "text",
        "raw",
        "coalesce(raw_base64, false) AS raw_base64",
    )


def _window(pane_ms: int) -> str:
    return f"window(timestamp, '{pane_ms} milliseconds')"


def _broker_aggregates() -> str:
    """Usage and limit are summed over reports with a known limit (> 0), and `{r}_known` counts just those."""
    parts = [
        "unix_millis(window.end) AS pane_end_ms",
        "report.broker AS broker",
        "report.incarnation AS incarnation",
        "count(*) AS reports",
    ]
    for name in RESOURCES:
        usage, limit = f"report.resources.{name}.usage", f"report.resources.{name}.limit"
        parts += [
            f"coalesce(sum(if({limit} > 0, {usage}, NULL)), 0D) AS {name}_usage_sum",
            f"coalesce(max(if({limit} > 0, {usage}, NULL)), 0D) AS {name}_usage_max",
            f"coalesce(sum(if({limit} > 0, {limit}, NULL)), 0D) AS {name}_limit_sum",
            f"count(if({limit} > 0, 1, NULL)) AS {name}_known",
        ]
    for name in TIMES:
        parts += [f"sum(report.{name}) AS {name}_sum", f"max(report.{name}) AS {name}_max"]
    parts += [f"sum(report.totals.{name}) AS {name}_sum" for name in (*BUNDLE_FIELDS, "bundles")]
    parts += [
        "max(report.sequence) AS last_sequence",
        "min(event_ms) AS first_event_ms",
        "max(event_ms) AS last_event_ms",
    ]
    return ", ".join(parts)


def _sql(rows: DataFrame, text: str) -> DataFrame:
    return rows.sparkSession.sql(text, rows=rows)
