# Databricks notebook source
# MAGIC %md
# MAGIC # Incident
# MAGIC What happened, second by second, in a slice that `ballast capture` wrote: who was lost, what was without an
# MAGIC owner and for how long, what people and rounds did, and how the load went. A slice is a cluster's tables to
# MAGIC every tool, and can be passed on: `--hash-names` writes numbers in place of names.
# MAGIC
# MAGIC `ballast capture --since 2026-03-01T09:00 --until 2026-03-01T10:00 incident`
# MAGIC
# MAGIC On Databricks: import the folder of the notebooks, copy the slice to a volume, set the widget `slice`, run
# MAGIC all cells.
# MAGIC Elsewhere: `.venv/bin/python notebooks/run_local.py 05_incident slice=incident`.

# COMMAND ----------

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import functions as F

from plots import lines
from views import absolute, register, utilisation

dbutils.widgets.text("slice", "incident", "Folder that `ballast capture` wrote")

SLICE = absolute(dbutils.widgets.get("slice"))
register(spark, f"{SLICE}/tables", "journal", "ownership", "rounds", "decisions", "broker_load", "quarantine")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The slice

# COMMAND ----------

about = json.loads(Path(SLICE, "capture.json").read_text(encoding="utf-8"))
captured = spark.createDataFrame(
    [(name, str(value)) for name, value in about.items() if name != "rows"]
    + [(f"rows of {name}", str(count)) for name, count in sorted(about["rows"].items())],
    "what string, value string",
)
display(captured)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What happened
# MAGIC Everything but routine: sessions that began or ended, commands, modes, drains, splits, alarms, guards, and
# MAGIC rounds that decided something.

# COMMAND ----------

# DBTITLE 1,Events
# MAGIC %sql
# MAGIC SELECT timestamp_millis(j.at_ms) AS at_time, j.seq, j.kind,
# MAGIC        CASE WHEN j.kind IN ('command_accepted', 'command_rejected')
# MAGIC             THEN concat_ws(' ', get_json_object(j.data, '$.kind'), get_json_object(j.data, '$.args'))
# MAGIC             WHEN j.kind = 'round'
# MAGIC             THEN concat(r.moves, if(r.moves = 1, ' move, ', ' moves, '),
# MAGIC                         r.splits, if(r.splits = 1, ' split', ' splits'), ' decided, mode ', r.mode)
# MAGIC             ELSE coalesce(j.bundle, j.broker, left(j.data, 100)) END AS what,
# MAGIC        j.reason, get_json_object(j.data, '$.who') AS who, get_json_object(j.data, '$.why') AS why
# MAGIC FROM journal j
# MAGIC LEFT JOIN rounds r ON r.attempt_id = j.attempt_id AND j.kind = 'round'
# MAGIC WHERE j.kind NOT IN ('ownership', 'offsets', 'observed', 'fact', 'order', 'order_ended', 'round')
# MAGIC       OR r.moves + r.splits > 0
# MAGIC ORDER BY j.seq

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bundles without an owner
# MAGIC After every batch of the controller: bundles that nobody serves, although they were served before or
# MAGIC somebody looks them up. 0 is where the slice begins.

# COMMAND ----------

# DBTITLE 1,Without an owner
# MAGIC %sql
# MAGIC WITH states AS (
# MAGIC   SELECT seq, at_ms, bundle,
# MAGIC          CASE WHEN state IN ('free', 'assigning') THEN 1
# MAGIC               WHEN state = 'releasing' AND get_json_object(data, '$.released') = 'true' THEN 1
# MAGIC               ELSE 0 END AS waiting
# MAGIC   FROM journal
# MAGIC   WHERE kind = 'ownership'
# MAGIC ),
# MAGIC changes AS (
# MAGIC   SELECT at_ms, waiting - coalesce(lag(waiting) OVER (PARTITION BY bundle ORDER BY seq), 0) AS change
# MAGIC   FROM states
# MAGIC ),
# MAGIC batches AS (
# MAGIC   SELECT at_ms, sum(change) AS change, count(*) AS entries FROM changes GROUP BY at_ms
# MAGIC )
# MAGIC SELECT timestamp_millis(at_ms) AS at_time, entries, sum(change) OVER (ORDER BY at_ms) AS without_owner
# MAGIC FROM batches
# MAGIC ORDER BY at_ms

# COMMAND ----------

waiting = _sqldf.selectExpr("at_time", "without_owner", "'bundles' AS what")
lines(waiting, "at_time", "without_owner", "what", "Bundles without an owner")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Brokers that were lost
# MAGIC `lease`: nothing was heard of the broker any more; add the lease to the times. `bundles` are those that
# MAGIC lost their owner with it, `longest_ms` is until the last of them had the next one.

# COMMAND ----------

# DBTITLE 1,Lost brokers
# MAGIC %sql
# MAGIC WITH entries AS (
# MAGIC   SELECT instance, batch, bundle, at_ms, state, reason,
# MAGIC          lag(split_part(coalesce(`by`, `to`), '#', 1)) OVER (PARTITION BY bundle ORDER BY seq) AS broker_before,
# MAGIC          min(CASE WHEN state = 'owned' THEN at_ms END)
# MAGIC            OVER (PARTITION BY bundle ORDER BY seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
# MAGIC            AS owned_again_ms
# MAGIC   FROM journal
# MAGIC   WHERE kind = 'ownership'
# MAGIC ),
# MAGIC orphans AS (
# MAGIC   SELECT instance, batch, bundle, broker_before, owned_again_ms - at_ms AS without_owner_ms
# MAGIC   FROM entries
# MAGIC   WHERE state = 'free' AND reason = 'owner_ended'
# MAGIC )
# MAGIC SELECT timestamp_millis(e.at_ms) AS at_time, e.broker, e.reason, count(o.bundle) AS bundles,
# MAGIC        percentile(o.without_owner_ms, 0.5) AS p50_ms, max(o.without_owner_ms) AS longest_ms,
# MAGIC        count_if(o.bundle IS NOT NULL AND o.without_owner_ms IS NULL) AS waiting
# MAGIC FROM journal e
# MAGIC LEFT JOIN orphans o ON o.instance = e.instance AND o.batch = e.batch
# MAGIC                        AND coalesce(o.broker_before, e.broker) = e.broker
# MAGIC WHERE e.kind = 'session_ended'
# MAGIC GROUP BY e.seq, e.at_ms, e.broker, e.reason
# MAGIC ORDER BY e.seq

# COMMAND ----------

# MAGIC %md
# MAGIC ## The longest handovers
# MAGIC From the first entry that ends an ownership to the entry with the next owner. Many long ones to the same
# MAGIC target say that it was slow to take over, many from the same source that it was slow to let go.

# COMMAND ----------

# DBTITLE 1,Longest handovers
# MAGIC %sql
# MAGIC WITH entries AS (
# MAGIC   SELECT *, coalesce(sum(CASE WHEN state = 'owned' THEN 1 ELSE 0 END)
# MAGIC            OVER (PARTITION BY bundle ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
# MAGIC          0) AS episode
# MAGIC   FROM journal
# MAGIC   WHERE kind = 'ownership'
# MAGIC ),
# MAGIC episodes AS (
# MAGIC   SELECT bundle, min(at_ms) AS began_ms, max(at_ms) - min(at_ms) AS took_ms, min_by(state, seq) AS began_as,
# MAGIC          max_by(state, seq) AS ended_as, min_by(split_part(`by`, '#', 1), seq) AS source,
# MAGIC          max_by(split_part(`by`, '#', 1), seq) AS target, min_by(reason, seq) AS reason
# MAGIC   FROM entries
# MAGIC   GROUP BY bundle, episode
# MAGIC )
# MAGIC SELECT timestamp_millis(began_ms) AS at_time, bundle, began_as, source, target, reason, took_ms
# MAGIC FROM episodes
# MAGIC WHERE ended_as = 'owned' AND began_as <> 'owned'
# MAGIC ORDER BY took_ms DESC, began_ms, bundle
# MAGIC LIMIT 15

# COMMAND ----------

# MAGIC %md
# MAGIC ## Load and rounds
# MAGIC The busiest resource of each broker, and what rounds made of it. Times of rounds are on the axis of the
# MAGIC load reports.

# COMMAND ----------

load = spark.table("broker_load").select(
    F.timestamp_millis("as_of_ms").alias("at_time"), "broker", F.round(100 * utilisation(), 1).alias("utilisation_pct")
)
lines(load, "at_time", "utilisation_pct", "broker", "Busiest resource of each broker")

# COMMAND ----------

# DBTITLE 1,Rounds
# MAGIC %sql
# MAGIC WITH carried_out AS (
# MAGIC   SELECT attempt_id, count(*) AS decisions FROM decisions WHERE executed GROUP BY attempt_id
# MAGIC )
# MAGIC SELECT timestamp_millis(r.at_ms) AS at_time, r.mode, r.strategy, round(100 * r.mean_score, 1) AS mean_pct,
# MAGIC        round(100 * r.max_score, 1) AS busiest_pct, r.moves, r.splits, r.skips,
# MAGIC        coalesce(c.decisions, 0) AS carried_out
# MAGIC FROM rounds r
# MAGIC LEFT JOIN carried_out c ON c.attempt_id = r.attempt_id
# MAGIC ORDER BY r.at_ms

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bad records
# MAGIC They influence nothing, but tell of an agent or client of another version, or of somebody else on the
# MAGIC topics.

# COMMAND ----------

# DBTITLE 1,Quarantined
# MAGIC %sql
# MAGIC SELECT timestamp_millis(min(detected_ms)) AS at_time, source, topic, rule, count(*) AS records
# MAGIC FROM quarantine
# MAGIC GROUP BY source, topic, rule
# MAGIC ORDER BY records DESC, topic, rule

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is left of it
# MAGIC Bundles that are not served at the end of the slice. Empty: the cluster was whole again.

# COMMAND ----------

# DBTITLE 1,Not served at the end
# MAGIC %sql
# MAGIC SELECT bundle, state, by_broker, to_broker, epoch, cause
# MAGIC FROM ownership
# MAGIC WHERE state IN ('assigning', 'releasing', 'disputed', 'unknown') OR (state = 'free' AND epoch > 0)
# MAGIC ORDER BY bundle
