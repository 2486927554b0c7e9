# Databricks notebook source
# MAGIC %md
# MAGIC # Why was this bundle moved?
# MAGIC One move of a round, from the scores that led to it to what came of it, by SQL alone. The cluster and its
# MAGIC loads are shown as they were when the round decided: by the journal, and by older versions of the tables.
# MAGIC This notebook only reads.
# MAGIC
# MAGIC On Databricks: import the folder of the notebooks, set the widget `tables` to the folder of the tables, run
# MAGIC all cells. Elsewhere: `.venv/bin/python notebooks/run_local.py 02_why tables=run/tables`.

# COMMAND ----------

from __future__ import annotations

from pyspark.sql import functions as F

from plots import bars, lines
from views import register, version_up_to

dbutils.widgets.text("tables", "run/tables", "Folder of the Delta tables")
dbutils.widgets.text("decision", "", "Decision to explain (empty: the newest move that was carried out)")
dbutils.widgets.text("window_s", "", "Seconds of load that the round read (empty: as its configuration says)")

TABLES = ("journal", "rounds", "decisions", "broker_scores", "config_history")
ROOT = register(spark, dbutils.widgets.get("tables"), *TABLES)
DECISION = dbutils.widgets.get("decision")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which moves there are
# MAGIC Moves of rounds. What the control step does by itself, as for drained brokers and orphans, has no round
# MAGIC behind it: `ballast explain` tells of that.

# COMMAND ----------

# DBTITLE 1,Moves, newest first
# MAGIC %sql
# MAGIC SELECT timestamp_millis(at_ms) AS at_time, decision_id, bundle, source, target, reason, outcome
# MAGIC FROM decisions
# MAGIC WHERE kind IN ('transfer', 'unload') AND round_id NOT LIKE 'step-%'
# MAGIC ORDER BY at_ms DESC, decision_id
# MAGIC LIMIT 20

# COMMAND ----------

rounds = spark.table("rounds").select("attempt_id", "state_seq", "mode", "config_version")
of_rounds = spark.table("decisions").join(rounds, "attempt_id")
moves = of_rounds.where("kind IN ('transfer', 'unload')")
wanted = moves.where(F.col("decision_id") == DECISION) if DECISION else moves.where("executed")
decision = wanted.orderBy(F.desc("at_ms"), "decision_id").first()
if decision is None:
    raise ValueError(f"no move of a round is named {DECISION!r}: the table above has their names, newest first")
configured = spark.table("config_history").where(F.col("config_version") == decision["config_version"])
horizon = configured.select(F.get_json_object("config_json", "$['loads.short_horizon_s'].value")).first()
window_s = dbutils.widgets.get("window_s") or (horizon and horizon[0])
if not window_s:
    missing = f"the configuration {decision['config_version']} of its round is not in config_history"
    raise ValueError(f"{missing}: set the widget window_s to what loads.short_horizon_s was")
chosen_move = moves.where(F.col("decision_id") == decision["decision_id"])
chosen_move = chosen_move.withColumn("window_ms", F.lit(round(1_000 * float(window_s))))
chosen_move.createOrReplaceTempView("chosen")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What was decided
# MAGIC What the strategy judged source and target by before the move, and as predicted after it. For `steady` that is
# MAGIC an estimate, not the measured score below. A prediction assumes that nothing else changes.

# COMMAND ----------

# DBTITLE 1,The decision
# MAGIC %sql
# MAGIC SELECT timestamp_millis(at_ms) AS at_time, decision_id, strategy, mode, bundle, source, target, reason, outcome,
# MAGIC        round(100 * from_json(before_json, 'map<string,double>')[source], 1) AS source_before_pct,
# MAGIC        round(100 * from_json(after_json, 'map<string,double>')[source], 1) AS source_predicted_pct,
# MAGIC        round(100 * from_json(before_json, 'map<string,double>')[target], 1) AS target_before_pct,
# MAGIC        round(100 * from_json(after_json, 'map<string,double>')[target], 1) AS target_predicted_pct
# MAGIC FROM chosen

# COMMAND ----------

# MAGIC %md
# MAGIC ## How the round saw the brokers
# MAGIC The score is the busiest weighted resource, as measured; the level is what the strategy judged the broker
# MAGIC against, by its own estimates. `hits` counts the rounds running in which the broker was above
# MAGIC what the strategy allows; `reason` says why it was a source or why not.

# COMMAND ----------

# DBTITLE 1,Scores of the round
# MAGIC %sql
# MAGIC SELECT s.broker, round(100 * s.score, 1) AS score_pct, round(100 * s.mean, 1) AS level_pct, s.hits, s.is_source,
# MAGIC        s.eligible, s.reason, round(100 * s.cpu_utilisation, 1) AS cpu_pct,
# MAGIC        round(100 * s.memory_utilisation, 1) AS memory_pct
# MAGIC FROM broker_scores s
# MAGIC JOIN chosen c ON c.attempt_id = s.attempt_id
# MAGIC ORDER BY s.score DESC, s.broker

# COMMAND ----------

scores = _sqldf
level = scores.agg(F.max("level_pct")).first()[0]
bars(scores, "broker", "score_pct", "Scores when the round decided; the line is the level", level)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What lost, and by which rule
# MAGIC The candidates that the strategy listed for this source, best first: pairs of bundle and target with the
# MAGIC scores that they would have led to. `allowed` ones were possible, but not best. docs/reasons.md has every
# MAGIC rule.

# COMMAND ----------

# DBTITLE 1,Candidates
# MAGIC %sql
# MAGIC WITH listed AS (
# MAGIC   SELECT bundle AS moved, target AS taken,
# MAGIC          posexplode(from_json(
# MAGIC            coalesce(get_json_object(evidence_json, '$.pairs'), get_json_object(evidence_json, '$.candidates')),
# MAGIC            'array<struct<bundle:string,target:string,source_after:double,target_after:double,lost_by:string>>'
# MAGIC          )) AS (number, pair)
# MAGIC   FROM chosen
# MAGIC )
# MAGIC SELECT number + 1 AS place, pair.bundle, pair.target, round(pair.source_after / 100, 1) AS source_after_pct,
# MAGIC        round(pair.target_after / 100, 1) AS target_after_pct,
# MAGIC        CASE WHEN pair.bundle = moved AND pair.target = taken THEN 'chosen'
# MAGIC             WHEN coalesce(pair.lost_by, '') = '' THEN 'allowed' ELSE pair.lost_by END AS verdict
# MAGIC FROM listed
# MAGIC ORDER BY place

# COMMAND ----------

# MAGIC %md
# MAGIC ## The cluster at that moment
# MAGIC The journal is append-only, so the owners of any moment are those of its entries up to there: here up to
# MAGIC `state_seq`, the entry that the round read. Bundles whose last entry is older than what is kept of the
# MAGIC journal are not counted.

# COMMAND ----------

# DBTITLE 1,Owners
# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMPORARY VIEW owners AS
# MAGIC SELECT seq, bundle, state, split_part(`by`, '#', 1) AS broker
# MAGIC FROM journal
# MAGIC WHERE kind = 'ownership'
# MAGIC UNION ALL
# MAGIC SELECT seq, bundle, 'retired' AS state, CAST(NULL AS STRING) AS broker
# MAGIC FROM journal
# MAGIC WHERE kind = 'split'
# MAGIC UNION ALL
# MAGIC SELECT seq, explode(map_keys(from_json(get_json_object(data, '$.children'), 'map<string,bigint>'))) AS bundle,
# MAGIC        'owned' AS state, split_part(`by`, '#', 1) AS broker
# MAGIC FROM journal
# MAGIC WHERE kind = 'split'

# COMMAND ----------

# DBTITLE 1,Bundles of each broker, then and now
# MAGIC %sql
# MAGIC WITH holders AS (
# MAGIC   SELECT o.bundle, max_by(o.state, o.seq) FILTER (WHERE o.seq <= c.state_seq) AS state_then,
# MAGIC          max_by(o.broker, o.seq) FILTER (WHERE o.seq <= c.state_seq) AS broker_then,
# MAGIC          max_by(o.state, o.seq) AS state_now, max_by(o.broker, o.seq) AS broker_now
# MAGIC   FROM owners o
# MAGIC   CROSS JOIN chosen c
# MAGIC   GROUP BY o.bundle
# MAGIC ),
# MAGIC moments AS (
# MAGIC   SELECT 'then' AS moment, broker_then AS holder FROM holders WHERE state_then <> 'retired'
# MAGIC   UNION ALL
# MAGIC   SELECT 'now' AS moment, broker_now AS holder FROM holders WHERE state_now <> 'retired'
# MAGIC )
# MAGIC SELECT coalesce(holder, 'nobody') AS broker, count_if(moment = 'then') AS bundles_then,
# MAGIC        count_if(moment = 'now') AS bundles_now
# MAGIC FROM moments
# MAGIC GROUP BY holder
# MAGIC ORDER BY broker

# COMMAND ----------

# MAGIC %md
# MAGIC ## The loads that the round read
# MAGIC The panes of the last `loads.short_horizon_s`, as the round's configuration has it, or of `window_s`. Reports
# MAGIC may come late, and panes take them in afterwards. `VERSION AS OF` reads `bundle_panes` as it was when nothing
# MAGIC newer than the round's own panes was in it. Versions live for six hours; of an older move the loads as known
# MAGIC now are shown twice.

# COMMAND ----------

version = version_up_to(spark, ROOT, "bundle_panes", "pane_end_ms", decision["at_ms"])
panes = f"delta.`{ROOT}/bundle_panes`"
then = panes if version is None else f"{panes} VERSION AS OF {version}"
spark.sql(f"SELECT * FROM {then}").createOrReplaceTempView("panes_then")
spark.sql(f"SELECT * FROM {panes}").createOrReplaceTempView("panes_now")
print("that version is gone: loads as known now" if version is None else f"bundle_panes, version {version}")

# COMMAND ----------

# DBTITLE 1,Bundles of the source
# MAGIC %sql
# MAGIC WITH as_read AS (
# MAGIC   SELECT p.bundle, sum(p.msg_rate_in_sum + p.msg_rate_out_sum) / sum(p.reports) AS messages
# MAGIC   FROM panes_then p
# MAGIC   JOIN chosen c ON p.broker = c.source AND p.pane_end_ms <= c.at_ms
# MAGIC                    AND p.pane_end_ms > c.at_ms - c.window_ms
# MAGIC   GROUP BY p.bundle
# MAGIC ),
# MAGIC as_known AS (
# MAGIC   SELECT p.bundle, sum(p.msg_rate_in_sum + p.msg_rate_out_sum) / sum(p.reports) AS messages
# MAGIC   FROM panes_now p
# MAGIC   JOIN chosen c ON p.broker = c.source AND p.pane_end_ms <= c.at_ms
# MAGIC                    AND p.pane_end_ms > c.at_ms - c.window_ms
# MAGIC   GROUP BY p.bundle
# MAGIC )
# MAGIC SELECT k.bundle, round(r.messages) AS messages_read, round(k.messages) AS messages_known_now,
# MAGIC        round(100 * r.messages / sum(r.messages) OVER (), 1) AS of_source_pct, k.bundle = c.bundle AS moved
# MAGIC FROM as_known k
# MAGIC LEFT JOIN as_read r ON r.bundle = k.bundle
# MAGIC CROSS JOIN chosen c
# MAGIC ORDER BY messages_read DESC, k.bundle

# COMMAND ----------

# MAGIC %md
# MAGIC ## What came of it
# MAGIC The entries of the journal from the decision until the bundle had an owner again, and the scores of both
# MAGIC brokers around it.

# COMMAND ----------

# DBTITLE 1,Handover
# MAGIC %sql
# MAGIC WITH begun AS (
# MAGIC   SELECT j.bundle, min(j.seq) AS first_seq
# MAGIC   FROM journal j
# MAGIC   JOIN chosen c ON c.carried_out_as = j.decision_id
# MAGIC   WHERE j.kind = 'ownership'
# MAGIC   GROUP BY j.bundle
# MAGIC ),
# MAGIC ended AS (
# MAGIC   SELECT b.bundle, b.first_seq, min(j.seq) AS last_seq
# MAGIC   FROM begun b
# MAGIC   JOIN journal j ON j.bundle = b.bundle AND j.kind = 'ownership' AND j.state = 'owned' AND j.seq > b.first_seq
# MAGIC   GROUP BY b.bundle, b.first_seq
# MAGIC )
# MAGIC SELECT timestamp_millis(j.at_ms) AS at_time, j.seq, j.state, j.epoch, split_part(j.`by`, '#', 1) AS by_broker,
# MAGIC        split_part(j.`to`, '#', 1) AS to_broker, j.reason, j.at_ms - min(j.at_ms) OVER () AS after_ms
# MAGIC FROM ended e
# MAGIC JOIN journal j ON j.bundle = e.bundle AND j.kind = 'ownership' AND j.seq BETWEEN e.first_seq AND e.last_seq
# MAGIC ORDER BY j.seq

# COMMAND ----------

# DBTITLE 1,Scores of source and target
# MAGIC %sql
# MAGIC SELECT timestamp_millis(s.at_ms) AS at_time, s.broker,
# MAGIC        CASE s.broker WHEN c.source THEN 'source' ELSE 'target' END AS role,
# MAGIC        round(100 * s.score, 1) AS score_pct, s.at_ms > c.at_ms AS afterwards
# MAGIC FROM broker_scores s
# MAGIC JOIN chosen c ON s.broker IN (c.source, c.target) AND s.at_ms BETWEEN c.at_ms - 900000 AND c.at_ms + 1800000
# MAGIC ORDER BY s.at_ms, s.broker

# COMMAND ----------

course = _sqldf
moment = spark.sql("SELECT CAST(timestamp_millis(at_ms) AS STRING) FROM chosen").first()[0]
lines(course, "at_time", "score_pct", "broker", "Source and target around the move", {"decided": moment})
