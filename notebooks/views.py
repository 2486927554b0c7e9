"""What the notebooks share of reading: the tables as views under their names, and older versions of a table.

Of rounds, decisions and scores a view has only what counts: rows whose attempt the journal names, of the strategy in
charge. Of averages of load it has one row for each moment, that with all reports. A move that waited for an approval
says in the view what became of it, instead of that it waits. Paths are made absolute, because Delta's SQL accepts no
relative one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

EVIDENCE = ("rounds", "decisions", "broker_scores")
LOADS = {"broker_load": ("as_of_ms", "broker"), "bundle_load": ("as_of_ms", "bundle", "broker")}
RESOURCES = ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out", "disk_io")


def absolute(folder: str) -> str:
    """A folder of tables as Delta takes it: an address unchanged, a path absolute."""
    return folder.rstrip("/") if ":" in folder else os.path.abspath(folder)


def register(spark: Any, folder: str, *names: str) -> str:
    """Make a temporary view of each table at its newest version; returns the folder as `absolute` does."""
    root = absolute(folder)
    for name in names:
        rows = read(spark, root, name)
        if name in EVIDENCE:
            rows = _counted(spark, root, name, rows)
        if name in LOADS:
            rows = _with_all_reports(rows, LOADS[name])
        rows.createOrReplaceTempView(name)
    return root


def read(spark: Any, root: str, name: str) -> DataFrame:
    """All rows of a table at its newest version."""
    return spark.read.format("delta").load(f"{root}/{name}")


def _counted(spark: Any, root: str, name: str, rows: DataFrame) -> DataFrame:
    named = read(spark, root, "journal").where("attempt_id IS NOT NULL").select("attempt_id")
    if name == "broker_scores":  # it does not say whose they are
        in_charge = read(spark, root, "rounds").where("NOT challenger").select("attempt_id")
        return rows.join(in_charge.join(named, "attempt_id", "left_semi"), "attempt_id", "left_semi")
    counted = rows.where("NOT challenger").join(named, "attempt_id", "left_semi")
    return _as_they_ended(counted) if name == "decisions" else counted


def _with_all_reports(rows: DataFrame, moment: Sequence[str]) -> DataFrame:
    """One row for each moment. A late report adds another row, which has more reports; of a broker that was started
    again the newest process counts."""
    newest = [F.desc(name) for name in ("incarnation", "reports", "batch_id") if name in rows.columns]
    ranked = Window.partitionBy(*moment).orderBy(*newest, "writer")
    return rows.withColumn("written_rank", F.row_number().over(ranked)).where("written_rank = 1").drop("written_rank")


def _as_they_ended(decisions: DataFrame) -> DataFrame:
    """Moves that an approval carried out later, or left out, with that outcome. `carried_out_as`: the decision of the
    control step that did it, else the decision itself; the journal's entries have that name."""
    later = (
        decisions.where("round_id LIKE 'step-%'")
        .select(
            F.get_json_object("evidence_json", "$.decision").alias("decision_id"),
            F.col("decision_id").alias("later_id"),
            F.col("executed").alias("later_executed"),
            F.col("outcome").alias("later_outcome"),
        )
        .where("decision_id IS NOT NULL")
    )
    return (
        decisions.join(later, "decision_id", "left")
        .withColumn("carried_out_as", F.coalesce("later_id", "decision_id"))
        .withColumn("executed", F.coalesce("later_executed", "executed"))
        .withColumn("outcome", F.coalesce("later_outcome", "outcome"))
        .drop("later_id", "later_executed", "later_outcome")
    )


def version_up_to(spark: Any, root: str, name: str, column: str, most: int) -> int | None:
    """The newest version of a table without a row whose `column` is above `most`; None where it is gone already.

    For tables that grow: a version that was readable once may be expired, and counts as one that is old enough.
    """
    versions = sorted(row["version"] for row in spark.sql(f"DESCRIBE HISTORY delta.`{root}/{name}`").collect())
    low, high = 0, len(versions)  # all before `low` are old enough, none from `high` on is
    oldest_readable = len(versions)
    while low < high:
        middle = (low + high) // 2
        newest = _newest(spark, f"delta.`{root}/{name}` VERSION AS OF {versions[middle]}", column)
        if newest is _GONE:
            low = middle + 1
            continue
        oldest_readable = min(oldest_readable, middle)
        if newest is None or newest <= most:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if oldest_readable < low else None


_GONE = object()


def _newest(spark: Any, source: str, column: str) -> Any:
    try:
        return spark.sql(f"SELECT max({column}) FROM {source}").first()[0]
    except PySparkException:
        return _GONE


def utilisation(names: Sequence[str] = RESOURCES) -> Any:
    """The column of the busiest of a broker's known resources, a fraction."""
    return F.greatest(*(F.col(f"{name}_utilisation") for name in names))
