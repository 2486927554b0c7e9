# Databricks notebook source
# MAGIC %md
# MAGIC # Backtest
# MAGIC Replays the load that this cluster recorded with other strategies and knobs, compares balance with the number
# MAGIC of moves, and recommends tolerance, churn and budget. It reads the tables `broker_panes` and `bundle_panes`
# MAGIC and writes only into the folder `out`; nothing in the cluster changes.
# MAGIC
# MAGIC On Databricks: install the project's wheel on the cluster, import the folder of the notebooks, set the widgets
# MAGIC (`out` to a folder that all nodes share, such as one below `/dbfs` or `/Volumes`), run all cells.
# MAGIC Elsewhere: `.venv/bin/python notebooks/run_local.py 04_backtest tables=run/tables`.

# COMMAND ----------

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as F

from controller.backtest.point.grid import configured_value, points_to_run
from controller.backtest.point.result import to_columns
from controller.backtest.recording.input import read_input
from controller.backtest.recording.pace import pace_of
from controller.backtest.recording.prepared import Replay, prepare
from controller.backtest.report.configuration import check_values
from controller.backtest.report.report import CONF, PARETO, REPORT, TIMELINE, write_report
from controller.backtest.report.view import View
from controller.backtest.store import QUARANTINE, Job, Store
from controller.config.load import load_settings
from controller.config.policy_values import policy_settings
from controller.loads.recorded import Overrides
from jobs.backtest_tasks import run_tasks
from plots import picture

dbutils.widgets.text("tables", "run/tables", "Folder of the Delta tables")
dbutils.widgets.text("out", "run/backtest", "Folder for results; what is finished there is not run again")
dbutils.widgets.text("strategies", "steady,threshold,average,uniform", "Strategies")
dbutils.widgets.text("grid", "steady.tolerance=0.02,0.05,0.1; steady.churn=0.005,0.01,0.02", "Knobs, by semicolons")
dbutils.widgets.text("profile", "local", "Configuration profile of the cluster")

TABLES = dbutils.widgets.get("tables").rstrip("/")
OUT = Path(dbutils.widgets.get("out"))
STRATEGIES = [name.strip() for name in dbutils.widgets.get("strategies").split(",")]
GRID = [axis.strip() for axis in dbutils.widgets.get("grid").split(";") if axis.strip()]
settings = load_settings(None, dbutils.widgets.get("profile"))
base = policy_settings(settings)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What was recorded
# MAGIC Panes of ten seconds are the steps of the replay, or shorter ones where rounds came more often. The round
# MAGIC interval is the usual one of the recorded rounds; without any, that of the configuration.

# COMMAND ----------

pace = pace_of(TABLES, settings)
found = read_input(TABLES, pace.step_ms, Overrides(), OUT / QUARANTINE)
recording = found.recording
facts = {
    "reports": TABLES,
    "steps": len(recording.at_ms),
    "step_ms": found.step_ms,
    "first_ms": int(recording.at_ms[0]),
    "last_ms": int(recording.at_ms[-1]),
    "brokers": len(recording.brokers),
    "bundles": len(recording.bundles),
    "round_interval_ms": pace.interval_ms,
}
recorded = spark.createDataFrame([(name, str(value)) for name, value in facts.items()], "what string, value string")
display(recorded)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Run
# MAGIC Each strategy with each combination of the knobs that it reads is one Spark task, and so is what is configured
# MAGIC now, to compare with. A task stores its result as a file: an interrupted run continues where it was, and
# MAGIC `ballast backtest --out` uses the same files.

# COMMAND ----------

job = Job(recording.digest(), base, Replay(facts["round_interval_ms"]))
points = points_to_run(STRATEGIES, GRID, base)
check_values(
    {knob for point in points for knob in point.knobs},
    lambda overrides: load_settings(None, dbutils.widgets.get("profile"), overrides),
)
store = Store(OUT)
missing = [point for point in points if store.load(job, point) is None]
if missing and not store.arrays(job).exists():
    store.keep_arrays(job, prepare(recording, base.weights.in_order(), job.replay))
points_run = run_tasks(spark.sparkContext, OUT.resolve(), job, missing)
runs = [store.load(job, point) for point in points]
store.write_tables(runs, facts)
recommendation = write_report(OUT, runs, base, facts)
view = View(runs, base)
print(f"{len(points)} points, {points_run} of them now; the interactive report is {OUT / REPORT}")
if recommendation.point is None:
    print(f"recommended: nothing, {recommendation.confidence}. What follows compares points, and is no advice.")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Scoreboard
# MAGIC `max_best`: the highest load of a broker divided by the best achievable one, if bundles could be divided
# MAGIC arbitrarily; 1 is perfect balance. Moves by cause: to brokers that had been empty, from brokers that left, and
# MAGIC for balance.

# COMMAND ----------

columns = pa.table(
    {
        **to_columns(view.results),
        "knobs": [", ".join(f"{name}={value}" for name, value in run.point.knobs.items()) for run in runs],
        "moves_of_a_bundle_a_day": [round(each, 4) for each in view.churn],
    }
)
empty = [field.name for field in columns.schema if field.type == pa.null()]  # figures that no point has
for name in empty:
    columns = columns.set_column(columns.column_names.index(name), name, columns[name].cast(pa.float64()))
scoreboard = spark.createDataFrame(columns)
scoreboard.createOrReplaceTempView("scoreboard")

# COMMAND ----------

# DBTITLE 1,Scoreboard
# MAGIC %sql
# MAGIC SELECT strategy, knobs, round(max_best_mean, 3) AS max_best_mean, round(max_best_worst, 3) AS max_best_worst,
# MAGIC        moves_of_a_bundle_a_day, moves_balance, moves_addition, moves_removal, splits,
# MAGIC        round(overload_minutes, 1) AS overload_minutes
# MAGIC FROM scoreboard
# MAGIC ORDER BY max_best_mean, moves_balance, strategy, knobs

# COMMAND ----------

# MAGIC %md
# MAGIC ## Imbalance against churn
# MAGIC The Pareto front consists of the points that no other point beats in both: along it, more balance costs more
# MAGIC moves. Points that came to the same are all listed.

# COMMAND ----------

on_front = [at for place in view.front for at in view.points_beside(place)]
front = spark.createDataFrame(columns.take(pa.array(on_front, pa.int64()))).orderBy(
    "max_best_mean", "strategy", "knobs"
)
display(front.select("strategy", "knobs", "max_best_mean", "moves_of_a_bundle_a_day"))
picture(OUT / PARETO, "All points; the front is the line")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Over time
# MAGIC For each strategy, the point that the rule below chooses.

# COMMAND ----------

over_time = spark.createDataFrame(
    [
        (strategy, at_ms, max_best, cv, moves)
        for strategy, at in view.chosen.items()
        for at_ms, max_best, cv, moves in zip(*runs[at].timeline.to_json().values(), strict=True)
    ],
    "strategy string, at_ms long, max_best double, variation double, moves long",
).select(F.timestamp_millis("at_ms").alias("at"), "strategy", "max_best", "variation", "moves")
display(over_time.orderBy("at", "strategy"))
picture(OUT / TIMELINE, "The chosen point of each strategy")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Were predictions right?
# MAGIC For each move of a round: the predicted load of source and target against the load one round later, as a
# MAGIC fraction of the level that all brokers could share.

# COMMAND ----------

# DBTITLE 1,Predictions
# MAGIC %sql
# MAGIC SELECT strategy, sum(n_checked) AS checked, max(error_p50) AS worst_p50, max(error_p90) AS worst_p90
# MAGIC FROM scoreboard
# MAGIC GROUP BY strategy
# MAGIC ORDER BY strategy

# COMMAND ----------

# MAGIC %md
# MAGIC ## Recommendation
# MAGIC The point with the fewest moves among those within a few percent of the best balance and with no more
# MAGIC overload. A recording of less than an hour recommends nothing: `recommended` is empty, the settings stay as
# MAGIC configured. `recommendation.yaml` in the folder contains what to run with as configuration.

# COMMAND ----------

print(recommendation.verdict.text)
advised = {"strategy": recommendation.strategy, **recommendation.settings}
now = {"strategy": base.strategy} | {name: str(configured_value(base, name)) for name in recommendation.settings}
recommended = spark.createDataFrame(
    [(name, now[name], None if recommendation.point is None else str(value)) for name, value in advised.items()],
    "setting string, configured string, recommended string",
)
display(recommended)
for sentence in (str(recommendation.confidence), *recommendation.reasons, *recommendation.advice):
    print(f"- {sentence}")
print((OUT / CONF).read_text())
