# Databricks notebook source
# MAGIC %md
# MAGIC # Capacity
# MAGIC How busy brokers are by weekday and hour, which resource runs out first, whether fewer brokers would do,
# MAGIC and when the cluster is full. From the averages in `broker_load`; this notebook only reads.
# MAGIC
# MAGIC `broker_load` is kept for `retention.loads_days`, 7 by default. Growth can be told from the rhythm of a
# MAGIC week only with more than that: 15 days or longer.
# MAGIC
# MAGIC On Databricks: import the folder of the notebooks, set the widget `tables` to the folder of the tables, run
# MAGIC all cells. Elsewhere: `.venv/bin/python notebooks/run_local.py 03_capacity tables=run/tables`.

# COMMAND ----------

from __future__ import annotations

from pyspark.sql import functions as F

from plots import bars, lines, week
from views import register

dbutils.widgets.text("tables", "run/tables", "Folder of the Delta tables")
dbutils.widgets.text("days", "28", "Look back (days before the newest load)")
dbutils.widgets.text("resource", "cpu", "Resource of the weekly rhythm: cpu, memory, bandwidth_in, …")
dbutils.widgets.text("limit_pct", "80", "Highest utilisation that is still welcome, %")
dbutils.widgets.text("fewer", "2", "Brokers to do without")

register(spark, dbutils.widgets.get("tables"), "broker_load", "brokers")
newest_ms = spark.table("broker_load").agg(F.max("as_of_ms")).first()[0] or 0
look_back_ms = int(float(dbutils.widgets.get("days")) * 86_400_000)
spark.table("broker_load").where(F.col("as_of_ms") > newest_ms - look_back_ms).createOrReplaceTempView("kept_load")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What is used of what there is
# MAGIC For each moment and resource: what all brokers together use of what they have, and how busy the busiest of
# MAGIC them is. Resources without a limit are unknown, and left out.

# COMMAND ----------

# DBTITLE 1,Use of each broker
# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMPORARY VIEW broker_use AS
# MAGIC SELECT as_of_ms, broker, resource, used, capacity
# MAGIC FROM kept_load
# MAGIC LATERAL VIEW stack(6, 'cpu', cpu_usage, cpu_limit, 'memory', memory_usage, memory_limit,
# MAGIC                    'direct_memory', direct_memory_usage, direct_memory_limit,
# MAGIC                    'bandwidth_in', bandwidth_in_usage, bandwidth_in_limit,
# MAGIC                    'bandwidth_out', bandwidth_out_usage, bandwidth_out_limit,
# MAGIC                    'disk_io', disk_io_usage, disk_io_limit) stacked AS resource, used, capacity
# MAGIC WHERE capacity > 0 AND used IS NOT NULL

# COMMAND ----------

# DBTITLE 1,Use of the cluster
# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMPORARY VIEW cluster_use AS
# MAGIC SELECT as_of_ms, resource, count(DISTINCT broker) AS brokers, sum(used) AS used, sum(capacity) AS capacity,
# MAGIC        sum(used) / sum(capacity) AS share, max(used / capacity) AS busiest
# MAGIC FROM broker_use
# MAGIC GROUP BY as_of_ms, resource

# COMMAND ----------

# DBTITLE 1,Headroom by resource
# MAGIC %sql
# MAGIC SELECT resource, count(*) AS averages, round(100 * percentile(share, 0.95), 1) AS p95_pct,
# MAGIC        round(100 * max(share), 1) AS highest_pct, round(100 * percentile(busiest, 0.95), 1) AS busiest_p95_pct,
# MAGIC        round(CAST(:limit_pct AS DOUBLE) - 100 * percentile(share, 0.95), 1) AS headroom_points
# MAGIC FROM cluster_use
# MAGIC GROUP BY resource
# MAGIC ORDER BY headroom_points, resource

# COMMAND ----------

bars(_sqldf, "resource", "p95_pct", "What 95 % of the moments stayed below; the line is the limit",
     float(dbutils.widgets.get("limit_pct")))  # fmt: skip

# COMMAND ----------

# MAGIC %md
# MAGIC ## The rhythm of a week
# MAGIC What 95 % of the moments of each weekday and hour stayed below, for all brokers together and for the
# MAGIC busiest one. Plan work on brokers for pale hours. Where the busiest is far above all together, balance is
# MAGIC what is missing, not brokers.

# COMMAND ----------

# DBTITLE 1,By weekday and hour
# MAGIC %sql
# MAGIC SELECT weekday(to_date(timestamp_millis(as_of_ms))) + 1 AS weekday, hour(timestamp_millis(as_of_ms)) AS hour,
# MAGIC        count(*) AS averages, round(100 * percentile(share, 0.95), 1) AS p95_pct,
# MAGIC        round(100 * percentile(busiest, 0.95), 1) AS busiest_p95_pct
# MAGIC FROM cluster_use
# MAGIC WHERE resource = :resource
# MAGIC GROUP BY 1, 2
# MAGIC ORDER BY 1, 2

# COMMAND ----------

week(_sqldf, "p95_pct", f"{dbutils.widgets.get('resource')}, all brokers together")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Brokers with the least headroom
# MAGIC By their busiest resource. A broker that is gone is left out.

# COMMAND ----------

# DBTITLE 1,Brokers
# MAGIC %sql
# MAGIC WITH moments AS (
# MAGIC   SELECT u.as_of_ms, u.broker, max(u.used / u.capacity) AS share,
# MAGIC          max_by(u.resource, u.used / u.capacity) AS resource
# MAGIC   FROM broker_use u
# MAGIC   JOIN brokers b ON b.broker = u.broker AND b.state = 'alive'
# MAGIC   GROUP BY u.as_of_ms, u.broker
# MAGIC )
# MAGIC SELECT broker, mode(resource) AS busiest_resource, round(100 * percentile(share, 0.95), 1) AS p95_pct,
# MAGIC        round(100 * max(share), 1) AS highest_pct,
# MAGIC        round(CAST(:limit_pct AS DOUBLE) - 100 * percentile(share, 0.95), 1) AS headroom_points
# MAGIC FROM moments
# MAGIC GROUP BY broker
# MAGIC ORDER BY headroom_points, broker

# COMMAND ----------

bars(_sqldf, "broker", "p95_pct", "The busiest brokers; the line is the limit", float(dbutils.widgets.get("limit_pct")))

# COMMAND ----------

# MAGIC %md
# MAGIC ## With fewer brokers
# MAGIC The same load on the brokers that stay if the largest ones go, as even as a balancer can make it. What a
# MAGIC broker uses without traffic is counted as load that moves, so the truth is a little better. `enough`: the
# MAGIC highest moment stays below the limit. `tight`: 95 % of the moments do. Judge by resources that are work:
# MAGIC what processes hold of memory does not move.

# COMMAND ----------

# DBTITLE 1,With fewer brokers
# MAGIC %sql
# MAGIC WITH present AS (
# MAGIC   SELECT u.resource, u.broker, max_by(u.capacity, u.as_of_ms) AS capacity
# MAGIC   FROM broker_use u
# MAGIC   JOIN brokers b ON b.broker = u.broker AND b.state = 'alive'
# MAGIC   GROUP BY u.resource, u.broker
# MAGIC ),
# MAGIC ranked AS (
# MAGIC   SELECT resource, capacity, row_number() OVER (PARTITION BY resource ORDER BY capacity DESC, broker) AS place
# MAGIC   FROM present
# MAGIC ),
# MAGIC steps AS (
# MAGIC   SELECT explode(sequence(0, CAST(:fewer AS INT))) AS fewer
# MAGIC ),
# MAGIC staying AS (
# MAGIC   SELECT s.fewer, r.resource, count(*) AS brokers, sum(r.capacity) AS capacity
# MAGIC   FROM ranked r
# MAGIC   JOIN steps s ON r.place > s.fewer
# MAGIC   GROUP BY s.fewer, r.resource
# MAGIC ),
# MAGIC shares AS (
# MAGIC   SELECT s.fewer, s.brokers, s.resource, percentile(u.used / s.capacity, 0.95) AS p95,
# MAGIC          max(u.used / s.capacity) AS highest
# MAGIC   FROM staying s
# MAGIC   JOIN cluster_use u ON u.resource = s.resource
# MAGIC   GROUP BY s.fewer, s.brokers, s.resource
# MAGIC )
# MAGIC SELECT fewer, brokers, resource, round(100 * p95, 1) AS p95_pct, round(100 * highest, 1) AS highest_pct,
# MAGIC        CASE WHEN 100 * highest <= CAST(:limit_pct AS DOUBLE) THEN 'enough'
# MAGIC             WHEN 100 * p95 <= CAST(:limit_pct AS DOUBLE) THEN 'tight' ELSE 'too few' END AS verdict
# MAGIC FROM shares
# MAGIC ORDER BY fewer, p95 DESC, resource

# COMMAND ----------

# MAGIC %md
# MAGIC ## Growth
# MAGIC The 95th percentile of each day, of all brokers together. `points_a_day` compares each day with the same
# MAGIC weekday of other weeks only, so the rhythm of a week is no growth; it is empty for a week or less.
# MAGIC `days_until_limit` counts from the busiest of the last seven days, on a straight line. Days with less than
# MAGIC 20 hours of averages are left out.

# COMMAND ----------

# DBTITLE 1,Days
# MAGIC %sql
# MAGIC CREATE OR REPLACE TEMPORARY VIEW days AS
# MAGIC SELECT resource, floor(as_of_ms / 86400000) AS day_number, to_date(timestamp_millis(min(as_of_ms))) AS day,
# MAGIC        count(*) AS averages, 100 * percentile(share, 0.95) AS p95_pct, 100 * avg(share) AS mean_pct
# MAGIC FROM cluster_use
# MAGIC GROUP BY resource, floor(as_of_ms / 86400000)
# MAGIC HAVING max(as_of_ms) - min(as_of_ms) >= 72000000

# COMMAND ----------

# DBTITLE 1,Growth
# MAGIC %sql
# MAGIC WITH apart AS (
# MAGIC   SELECT resource, day_number, p95_pct,
# MAGIC          day_number - avg(day_number) OVER (PARTITION BY resource, day_number % 7) AS days_apart,
# MAGIC          p95_pct - avg(p95_pct) OVER (PARTITION BY resource, day_number % 7) AS points_apart,
# MAGIC          max(day_number) OVER (PARTITION BY resource) AS last_day
# MAGIC   FROM days
# MAGIC ),
# MAGIC trends AS (
# MAGIC   SELECT resource, count(*) AS days,
# MAGIC          sum(days_apart * points_apart) / nullif(sum(days_apart * days_apart), 0) AS points_a_day,
# MAGIC          max(CASE WHEN day_number > last_day - 7 THEN p95_pct END) AS lately_pct
# MAGIC   FROM apart
# MAGIC   GROUP BY resource
# MAGIC )
# MAGIC SELECT resource, days, round(lately_pct, 1) AS busiest_day_pct, round(points_a_day, 3) AS points_a_day,
# MAGIC        CASE WHEN lately_pct >= CAST(:limit_pct AS DOUBLE) THEN 0
# MAGIC             WHEN points_a_day > 0 THEN round((CAST(:limit_pct AS DOUBLE) - lately_pct) / points_a_day)
# MAGIC        END AS days_until_limit
# MAGIC FROM trends
# MAGIC ORDER BY days_until_limit NULLS LAST, resource

# COMMAND ----------

by_day = spark.sql(
    "SELECT CAST(day AS TIMESTAMP) AS day, resource, round(p95_pct, 1) AS p95_pct FROM days ORDER BY day, resource"
)
display(by_day)
lines(by_day, "day", "p95_pct", "resource", "95th percentile of each day, all brokers together")
