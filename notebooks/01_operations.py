# Databricks notebook source
# MAGIC %md
# MAGIC # Operations
# MAGIC The state of the cluster, load over time, decisions with their reasons, handover times, quarantined records,
# MAGIC and the health of the tables. This notebook only reads.
# MAGIC
# MAGIC On Databricks: import this file as a notebook, set the widget `tables` to the folder of the tables, run all
# MAGIC cells.
# MAGIC Elsewhere: `.venv/bin/python notebooks/01_operations.py tables=run/tables`.

# COMMAND ----------

from __future__ import annotations

import os

from pyspark.sql import functions as F
from pyspark.sql.window import Window

if "dbutils" not in globals():  # not on Databricks: import the same three names from the file beside this one
    from local_shim import dbutils, display, spark

dbutils.widgets.text("tables", "run/tables", "Folder of the Delta tables")
dbutils.widgets.text("hours", "24", "Look back (hours before the newest load)")
dbutils.widgets.text("namespace", "", "Only this tenant/namespace (empty: all)")

ROOT = dbutils.widgets.get("tables").rstrip("/")
ROOT = ROOT if ":" in ROOT else os.path.abspath(ROOT)  # Delta's SQL commands accept no relative path
HOURS = float(dbutils.widgets.get("hours"))
NAMESPACE = dbutils.widgets.get("namespace")


def table(name):
    """Return a table of the cluster at its newest version."""
    return spark.read.format("delta").load(f"{ROOT}/{name}")


def counted(name):
    """Return the rows of evidence whose attempt the journal names; those of an interrupted attempt never count."""
    return table(name).join(table("journal").where("kind = 'round'").select("attempt_id"), "attempt_id", "left_semi")


def of_namespace(frame):
    """Filter by the chosen namespace, if one is chosen."""
    return frame.where(F.col("namespace") == NAMESPACE) if NAMESPACE else frame


def when(column):
    """Convert milliseconds since the epoch to a timestamp (UTC)."""
    return F.timestamp_millis(F.col(column))


def plot(frame, x, y, series, title):
    """Plot lines over time if matplotlib is installed; the table has the same data."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    data = frame.select(x, y, series).toPandas().pivot_table(index=x, columns=series, values=y)
    axes = data.plot(figsize=(11, 4), title=title, grid=True)
    axes.set_xlabel("")
    axes.set_ylabel(y)
    plt.show()


newest_ms = table("broker_load").agg(F.max("as_of_ms")).first()[0] or 0
since_ms = int(newest_ms - HOURS * 3_600_000)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cluster now
# MAGIC `ownership` and `brokers` are projections of the journal, up to the entry `seq`. A bundle in any state but
# MAGIC `owned` is in flight, which should take seconds only; `free` at epoch 0 means that it was never looked up.

# COMMAND ----------

ownership = of_namespace(table("ownership")).where("state <> 'retired'")
owned = ownership.groupBy(F.col("by_broker").alias("broker")).agg(F.count("*").alias("bundles"))
brokers_now = (
    table("brokers")
    .join(owned, "broker", "left")
    .select("broker", "state", "drained", "leaving", "incarnation", F.coalesce("bundles", F.lit(0)).alias("bundles"))
    .orderBy("broker")
)
display(brokers_now)

on_the_way = ownership.where("state <> 'owned'").select("bundle", "state", "epoch", "by_broker", "to_broker", "cause")
display(on_the_way.orderBy("bundle"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Load history
# MAGIC Short averages of each broker at the end of every pane (`broker_load`, which rounds do not read), and the
# MAGIC traffic of the namespaces from the panes. A broker's utilisation is the largest of its known resources,
# MAGIC without the weights that rounds apply.

# COMMAND ----------

UTILISATIONS = [
    f"{name}_utilisation" for name in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out", "disk_io")
]
broker_history = (
    table("broker_load")
    .where(F.col("as_of_ms") >= since_ms)
    .withColumn("rank", F.row_number().over(Window.partitionBy("broker", "as_of_ms").orderBy(F.desc("batch_id"))))
    .where("rank = 1")
    .select(
        when("as_of_ms").alias("at"),
        "broker",
        F.round(100 * F.greatest(*UTILISATIONS), 1).alias("utilisation_pct"),
        F.round(100 * F.col("cpu_utilisation"), 1).alias("cpu_pct"),
        F.round(F.col("msg_rate_in") + F.col("msg_rate_out")).alias("messages_per_s"),
        F.round("bundles", 1).alias("bundles"),
    )
    .orderBy("at", "broker")
)
display(broker_history)
plot(broker_history, "at", "utilisation_pct", "broker", "Busiest resource of each broker, %")

# COMMAND ----------

# A pane is the sum of its partial rows. Rates are means over the pane's reports.
per_bundle = (
    of_namespace(table("bundle_panes"))
    .where((F.col("pane_end_ms") > since_ms) & (F.col("bundle") != "tail"))
    .groupBy("pane_end_ms", "namespace", "bundle", "broker")
    .agg(
        (F.sum(F.col("msg_rate_in_sum") + F.col("msg_rate_out_sum")) / F.sum("reports")).alias("messages_per_s"),
        (F.sum(F.col("throughput_in_sum") + F.col("throughput_out_sum")) / F.sum("reports")).alias("bytes_per_s"),
    )
)
namespace_history = (
    per_bundle.groupBy("pane_end_ms", "namespace")
    .agg(
        F.round(F.sum("messages_per_s")).alias("messages_per_s"),
        F.round(F.sum("bytes_per_s")).alias("bytes_per_s"),
        F.count_distinct("bundle").alias("bundles_reported"),
    )
    .select(when("pane_end_ms").alias("at"), "namespace", "messages_per_s", "bytes_per_s", "bundles_reported")
    .orderBy("at", "namespace")
)
display(namespace_history)
plot(namespace_history, "at", "messages_per_s", "namespace", "Messages/s by namespace")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What was decided, and why
# MAGIC Decisions of rounds with the source's score before and the predicted score after, then the reasons why brokers
# MAGIC gave nothing away. `outcome` is `executed`, or the reason why not (`301_shadow_mode`: rounds only record).
# MAGIC Placements by the control step (orphans, first lookups) are in `ballast decisions`.

# COMMAND ----------

SCORES = "map<string,double>"
decisions = counted("decisions").where(F.col("at_ms") >= since_ms)
decided = (
    decisions.where("kind <> 'skip'")
    .withColumn("before", F.from_json("before_json", SCORES)[F.col("source")])
    .withColumn("after", F.from_json("after_json", SCORES)[F.col("source")])
    .select(
        when("at_ms").alias("at"),
        "decision_id",
        "kind",
        "bundle",
        "source",
        "target",
        "reason",
        F.round(100 * F.col("before"), 1).alias("source_before_pct"),
        F.round(100 * F.col("after"), 1).alias("source_predicted_pct"),
        "outcome",
    )
    .orderBy(F.desc("at"), "decision_id")
)
display(decided)

held_back = (
    decisions.where("NOT executed")
    .groupBy(F.col("source").alias("broker"), "kind", "reason", "band", "outcome")
    .agg(F.count("*").alias("times"), F.timestamp_millis(F.max("at_ms")).alias("last_time"))
    .orderBy("broker", F.desc("times"))
)
display(held_back)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Handover times
# MAGIC The time from the first entry that ends an ownership to the entry with the next owner, by the controller's
# MAGIC clock. Clients notice less: one Kafka hop of it. A failover counts from the end of the lease.

# COMMAND ----------

HOW = {
    "transferring": "transfer",
    "releasing": "unload",
    "free": "failover",
    "assigning": "first assignment",
    "splitting": "split that failed",
}
so_far = Window.partitionBy("bundle").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
episodes = (
    table("journal")
    .where("kind = 'ownership'")
    .withColumn("episode", F.coalesce(F.sum(F.when(F.col("state") == "owned", 1).otherwise(0)).over(so_far), F.lit(0)))
    .groupBy("bundle", "episode")
    .agg(
        F.min_by("state", "seq").alias("began_as"),
        F.max_by("state", "seq").alias("ended_as"),
        F.max("at_ms").alias("ended_ms"),
        (F.max("at_ms") - F.min("at_ms")).alias("took_ms"),
    )
    .where("ended_as = 'owned' AND began_as <> 'owned'")
    .replace(HOW, subset=["began_as"])
)
hand_overs = (
    episodes.groupBy(F.col("began_as").alias("how"))
    .agg(
        F.count("*").alias("times"),
        F.percentile("took_ms", F.lit(0.5)).alias("p50_ms"),
        F.percentile("took_ms", F.lit(0.99)).alias("p99_ms"),
        F.max("took_ms").alias("longest_ms"),
    )
    .orderBy(F.desc("times"))
)
display(hand_overs)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Orders
# MAGIC How orders to an observed cluster (Apache Pulsar) ended, day by day; empty for a cluster that the journal owns.
# MAGIC More queries about observed bundles: docs/sql_pulsar.md.

# COMMAND ----------


def data(field):
    """Return a field of an entry's `data`."""
    return F.get_json_object("data", f"$.{field}")


given = table("journal").where("kind = 'order'").select(data("id").alias("id"), data("kind").alias("order"))
orders = (
    table("journal")
    .where("kind = 'order_ended'")
    .select(data("id").alias("id"), data("outcome").alias("outcome"), data("took_ms").cast("long").alias("took_ms"),
            data("detail").alias("detail"), "seq", F.to_date(when("at_ms")).alias("day"))
    .join(given, "id")
    .groupBy("day", "order", "outcome")
    .agg(
        F.count("*").alias("orders"),
        F.percentile("took_ms", F.lit(0.5)).alias("p50_ms"),
        F.max("took_ms").alias("longest_ms"),
        F.max_by("detail", "seq").alias("last_detail"),
    )
    .orderBy("day", "order", F.desc("orders"))
)  # fmt: skip
display(orders)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Quarantine
# MAGIC Records that break a rule influence nothing and stop nothing. A rule that many brokers break from the same
# MAGIC moment on usually means that another version of the agent was rolled out.

# COMMAND ----------

quarantined = (
    table("quarantine")
    .groupBy("source", "topic", "rule")
    .agg(
        F.count("*").alias("records"),
        F.timestamp_millis(F.max("detected_ms")).alias("last_time"),
        F.max_by("text", "detected_ms").alias("last_text"),
    )
    .orderBy(F.desc("records"), "rule")
)
display(quarantined)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Table health
# MAGIC Agents read these tables without a JVM, so the reader version must stay 1. Many small files slow every reader
# MAGIC down: `ballast maintain` merges them. `last_write` shows which table is no longer written.

# COMMAND ----------

TABLES = (
    "journal", "ownership", "brokers", "control_state", "rounds", "decisions", "broker_scores", "broker_panes",
    "bundle_panes", "broker_load", "bundle_load", "quarantine", "overrides", "config_history",
    "usage_model",
)  # fmt: skip


def health(name):
    """Summarise a table in one row."""
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{ROOT}/{name}`").first()
    last = spark.sql(f"DESCRIBE HISTORY delta.`{ROOT}/{name}` LIMIT 1").first()
    megabytes = round(detail["sizeInBytes"] / 1e6, 3)
    return (name, last["version"], detail["numFiles"], megabytes, detail["minReaderVersion"], last["timestamp"])


COLUMNS = "table string, version long, files long, megabytes double, reader_version int, last_write timestamp"
table_health = spark.createDataFrame([health(name) for name in TABLES], COLUMNS)
display(table_health)
