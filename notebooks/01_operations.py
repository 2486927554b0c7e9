# Databricks notebook source
# MAGIC %md
# MAGIC # Operations
# MAGIC The state of the cluster, load over time, decisions with their reasons, handover times, quarantined
# MAGIC records, and the health of the tables. This notebook only reads.
# MAGIC
# MAGIC On Databricks: import the folder of the notebooks, set the widget `tables` to the folder of the tables, run
# MAGIC all cells.
# MAGIC Elsewhere: `.venv/bin/python notebooks/run_local.py 01_operations tables=run/tables`.

# COMMAND ----------

from __future__ import annotations

from pyspark.sql import functions as F

from plots import lines
from views import register, utilisation

dbutils.widgets.text("tables", "run/tables", "Folder of the Delta tables")
dbutils.widgets.text("hours", "24", "Look back (hours before the newest load)")
dbutils.widgets.text("namespace", "", "Only this tenant/namespace (empty: all)")

ROOT = register(
    spark, dbutils.widgets.get("tables"), "journal", "ownership", "brokers", "decisions", "broker_load", "bundle_panes",
    "quarantine",
)  # fmt: skip
LOOK_BACK_MS = int(float(dbutils.widgets.get("hours")) * 3_600_000)
NEWEST_MS = spark.table("broker_load").agg(F.max("as_of_ms")).first()[0] or 0
SINCE_MS = NEWEST_MS - LOOK_BACK_MS
FIRST_MS = spark.table("broker_load").where(F.col("as_of_ms") > SINCE_MS).agg(F.min("as_of_ms")).first()[0] or 0
# More moments than 240 no plot shows. Steps end at NEWEST_MS, and each has the time of its end, as panes have.
STEP_MS = max(1_000, (NEWEST_MS - FIRST_MS) // 240 // 1_000 * 1_000)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cluster now
# MAGIC `ownership` and `brokers` are projections of the journal, up to the entry `seq`. A bundle in any state but
# MAGIC `owned` is in flight, which should take seconds only; `free` at epoch 0 means that it was never looked up.

# COMMAND ----------

# DBTITLE 1,Brokers
# MAGIC %sql
# MAGIC SELECT b.broker, b.state, b.drained, b.leaving, b.incarnation, count(o.bundle) AS bundles
# MAGIC FROM brokers b
# MAGIC LEFT JOIN ownership o ON o.by_broker = b.broker AND o.state <> 'retired'
# MAGIC                          AND (:namespace = '' OR o.namespace = :namespace)
# MAGIC GROUP BY b.broker, b.state, b.drained, b.leaving, b.incarnation
# MAGIC ORDER BY b.broker

# COMMAND ----------

# DBTITLE 1,On the way
# MAGIC %sql
# MAGIC SELECT bundle, state, epoch, by_broker, to_broker, cause
# MAGIC FROM ownership
# MAGIC WHERE state NOT IN ('owned', 'retired') AND (:namespace = '' OR namespace = :namespace)
# MAGIC ORDER BY bundle

# COMMAND ----------

# MAGIC %md
# MAGIC ## Load history
# MAGIC Short averages of each broker (`broker_load`, which rounds do not read), and the traffic of the namespaces
# MAGIC from the panes. A broker's utilisation is the largest of its known resources, without the weights that
# MAGIC rounds apply.

# COMMAND ----------

broker_history = (
    spark.table("broker_load")
    .where(F.col("as_of_ms") > SINCE_MS)
    .groupBy(
        F.timestamp_millis(NEWEST_MS - F.floor((NEWEST_MS - F.col("as_of_ms")) / STEP_MS) * STEP_MS).alias("at_time"),
        "broker",
    )
    .agg(
        F.round(100 * F.max(utilisation()), 1).alias("utilisation_pct"),
        F.round(100 * F.max("cpu_utilisation"), 1).alias("cpu_pct"),
        F.round(F.avg(F.col("msg_rate_in") + F.col("msg_rate_out"))).alias("messages_per_s"),
        F.round(F.avg("bundles"), 1).alias("bundles"),
    )
    .orderBy("at_time", "broker")
)
display(broker_history)
lines(broker_history, "at_time", "utilisation_pct", "broker", "Busiest resource of each broker")

# COMMAND ----------

# A pane is the sum of its partial rows. Rates are means over the pane's reports.
namespace_history = spark.sql(
    """
    WITH per_bundle AS (
      SELECT pane_end_ms, namespace, bundle, broker,
             sum(msg_rate_in_sum + msg_rate_out_sum) / sum(reports) AS messages,
             sum(throughput_in_sum + throughput_out_sum) / sum(reports) AS bytes
      FROM bundle_panes
      WHERE pane_end_ms > :since_ms AND bundle <> 'tail' AND (:namespace = '' OR namespace = :namespace)
      GROUP BY pane_end_ms, namespace, bundle, broker
    ),
    per_pane AS (
      SELECT pane_end_ms, namespace, sum(messages) AS messages, sum(bytes) AS bytes, count(DISTINCT bundle) AS bundles
      FROM per_bundle
      GROUP BY pane_end_ms, namespace
    )
    SELECT timestamp_millis(CAST(:newest_ms - floor((:newest_ms - pane_end_ms) / :step_ms) * :step_ms AS BIGINT))
             AS at_time, namespace,
           round(avg(messages)) AS messages_per_s, round(avg(bytes)) AS bytes_per_s, max(bundles) AS bundles_reported
    FROM per_pane
    GROUP BY 1, 2
    ORDER BY 1, 2
    """,
    args={
        "since_ms": SINCE_MS,
        "newest_ms": NEWEST_MS,
        "step_ms": STEP_MS,
        "namespace": dbutils.widgets.get("namespace"),
    },
)
display(namespace_history)
lines(namespace_history, "at_time", "messages_per_s", "namespace", "Messages of each namespace")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What was decided, and why
# MAGIC Decisions of rounds with the source's score before and the predicted score after, then the reasons why
# MAGIC brokers gave nothing away. `outcome` is `executed`, at once or when an operator approved the plan, or the
# MAGIC reason why not (`301_shadow_mode`: rounds only record). Placements by the control step (orphans, first
# MAGIC lookups) are in `ballast decisions`.

# COMMAND ----------

decided_lately = spark.table("decisions").where((F.col("at_ms") >= SINCE_MS) & ~F.col("round_id").startswith("step-"))
decided_lately.createOrReplaceTempView("decided_lately")

# COMMAND ----------

# DBTITLE 1,Decided
# MAGIC %sql
# MAGIC SELECT timestamp_millis(at_ms) AS at_time, decision_id, kind, bundle, source, target, reason,
# MAGIC        round(100 * from_json(before_json, 'map<string,double>')[source], 1) AS source_before_pct,
# MAGIC        round(100 * from_json(after_json, 'map<string,double>')[source], 1) AS source_predicted_pct, outcome
# MAGIC FROM decided_lately
# MAGIC WHERE kind <> 'skip'
# MAGIC ORDER BY at_ms DESC, decision_id

# COMMAND ----------

# DBTITLE 1,Held back
# MAGIC %sql
# MAGIC SELECT source AS broker, kind, reason, band, outcome, count(*) AS times,
# MAGIC        timestamp_millis(max(at_ms)) AS last_time
# MAGIC FROM decided_lately
# MAGIC WHERE NOT executed
# MAGIC GROUP BY source, kind, reason, band, outcome
# MAGIC ORDER BY broker, times DESC, reason

# COMMAND ----------

# MAGIC %md
# MAGIC ## Handover times
# MAGIC The time from the first entry that ends an ownership to the entry with the next owner, by the controller's
# MAGIC clock. Clients notice less: one Kafka hop of it. A failover counts from the end of the lease.

# COMMAND ----------

# DBTITLE 1,Handovers
# MAGIC %sql
# MAGIC WITH entries AS (
# MAGIC   SELECT bundle, seq, at_ms, state,
# MAGIC          coalesce(sum(CASE WHEN state = 'owned' THEN 1 ELSE 0 END)
# MAGIC            OVER (PARTITION BY bundle ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
# MAGIC          0) AS episode
# MAGIC   FROM journal
# MAGIC   WHERE kind = 'ownership'
# MAGIC ),
# MAGIC episodes AS (
# MAGIC   SELECT bundle, min_by(state, seq) AS began_as, max_by(state, seq) AS ended_as,
# MAGIC          max(at_ms) - min(at_ms) AS took_ms
# MAGIC   FROM entries
# MAGIC   GROUP BY bundle, episode
# MAGIC )
# MAGIC SELECT CASE began_as WHEN 'transferring' THEN 'transfer' WHEN 'releasing' THEN 'unload'
# MAGIC                      WHEN 'free' THEN 'failover' WHEN 'assigning' THEN 'first assignment'
# MAGIC                      WHEN 'splitting' THEN 'split that failed' END AS how,
# MAGIC        count(*) AS times, percentile(took_ms, 0.5) AS p50_ms, percentile(took_ms, 0.99) AS p99_ms,
# MAGIC        max(took_ms) AS longest_ms
# MAGIC FROM episodes
# MAGIC WHERE ended_as = 'owned' AND began_as <> 'owned'
# MAGIC GROUP BY began_as
# MAGIC ORDER BY times DESC

# COMMAND ----------

# MAGIC %md
# MAGIC ## Orders
# MAGIC How orders to an observed cluster (Apache Pulsar) ended, day by day; empty for a cluster that the journal
# MAGIC owns. More queries about observed bundles: docs/sql_pulsar.md.

# COMMAND ----------

# DBTITLE 1,Orders
# MAGIC %sql
# MAGIC WITH given AS (
# MAGIC   SELECT get_json_object(data, '$.id') AS id, get_json_object(data, '$.kind') AS ordered
# MAGIC   FROM journal
# MAGIC   WHERE kind = 'order'
# MAGIC ),
# MAGIC ended AS (
# MAGIC   SELECT seq, to_date(timestamp_millis(at_ms)) AS day, get_json_object(data, '$.id') AS id,
# MAGIC          get_json_object(data, '$.outcome') AS outcome, get_json_object(data, '$.detail') AS detail,
# MAGIC          CAST(get_json_object(data, '$.took_ms') AS BIGINT) AS took_ms
# MAGIC   FROM journal
# MAGIC   WHERE kind = 'order_ended'
# MAGIC )
# MAGIC SELECT e.day, g.ordered, e.outcome, count(*) AS orders, percentile(e.took_ms, 0.5) AS p50_ms,
# MAGIC        max(e.took_ms) AS longest_ms, max_by(e.detail, e.seq) AS last_detail
# MAGIC FROM ended e
# MAGIC JOIN given g ON g.id = e.id
# MAGIC GROUP BY e.day, g.ordered, e.outcome
# MAGIC ORDER BY e.day, g.ordered, orders DESC

# COMMAND ----------

# MAGIC %md
# MAGIC ## Quarantine
# MAGIC Records that break a rule influence nothing and stop nothing. A rule that many brokers break from the same
# MAGIC moment on usually means that another version of the agent was rolled out.

# COMMAND ----------

# DBTITLE 1,Quarantined
# MAGIC %sql
# MAGIC SELECT source, topic, rule, count(*) AS records, timestamp_millis(max(detected_ms)) AS last_time,
# MAGIC        max_by(text, detected_ms) AS last_text
# MAGIC FROM quarantine
# MAGIC GROUP BY source, topic, rule
# MAGIC ORDER BY records DESC, rule

# COMMAND ----------

# MAGIC %md
# MAGIC ## Table health
# MAGIC Agents read these tables without a JVM, so the reader version must stay 1. Many small files slow every
# MAGIC reader down: `ballast maintain` merges them. `last_write` shows which table is no longer written.

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
