"""What the job adds to the Spark settings it was submitted with."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkConf

from controller.process.paths import ROOT, jars_of
from controller.process.spark_submit import spark_environment, spark_submit_command
from jobs.session import FALLBACK, fill_in, read_conf


def submitted(master: str, conf_file: str) -> SparkConf:
    """The settings of a submitted job once the job has filled in what is missing."""
    conf = SparkConf(loadDefaults=False).set("spark.submit.deployMode", "client").set("spark.master", master)
    for key, value in read_conf(ROOT / "conf" / "spark" / conf_file).items():
        if not conf.contains(key):
            conf.set(key, value)
    fill_in(conf)
    return conf


def test_executors_of_a_cluster_can_reach_the_driver() -> None:
    conf = submitted("spark://master:7077", "cluster.conf")
    assert conf.get("spark.driver.host", "") == ""
    assert conf.get("spark.driver.bindAddress", "") == ""


def test_on_one_machine_nothing_listens_beyond_it() -> None:
    assert submitted("local[2]", "local.conf").get("spark.driver.host") == "127.0.0.1"
    assert submitted("local[2]", "cluster.conf").get("spark.driver.bindAddress") == "127.0.0.1"


ASKS = """
import json, sys
sys.path.insert(0, {root!r})
from jobs.session import build_session
spark = build_session("ballast-default-name")
conf, context = dict(spark.sparkContext.getConf().getAll()), spark.sparkContext
sql = {{key: spark.conf.get(key) for key in ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")}}
sql["spark.sql.extensions"] = spark.conf.get("spark.sql.extensions")
from jobs.engine import describe_engine
from jobs.spark_context import scheduler_pool
with scheduler_pool(context, "control"):
    doubled = sorted(context.parallelize(range(4), 2).map(lambda x: 2 * x).collect())
pool = context._jsc.sc().getPoolForName("control")
share = pool.get().minShare() if pool.isDefined() else None  # without fair scheduling there are no pools
spark.range(3).write.format("delta").save({table!r})
asked = [context.master, context.appName, context.defaultParallelism, doubled, conf, sql]
print("ASKED", json.dumps([*asked, describe_engine(context)._asdict(), share]))
"""


def asked(folder: Path, *options: str, properties: str) -> list[Any]:
    """What the running session of a job says that was submitted with these options."""
    script, file = folder / "asks.py", folder / "some.conf"
    script.write_text(ASKS.format(root=str(ROOT), table=str(folder / "table")))
    file.write_text(properties)
    command = spark_submit_command([], file, script)
    command[1:1] = options
    done = subprocess.run(
        command, env=spark_environment(os.environ, file), cwd=folder, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ASKED ")]
    assert lines, done.stderr[-4000:]
    return list(json.loads(lines[0].removeprefix("ASKED ")))


@pytest.mark.spark
def test_what_spark_submit_gives_holds_in_the_running_session(short_lived_jvms: None, tmp_path: Path) -> None:
    options = ("--master", "local[3]", "--name", "given", "--conf", "spark.ballast.one=by --conf")
    properties = "spark.master local[5]\nspark.ballast.two by the file\nspark.sql.shuffle.partitions 6\n"
    properties += "spark.sql.extensions org.apache.spark.sql.example.Unknown\nspark.sql.session.timeZone Asia/Tokyo\n"
    properties += "spark.scheduler.mode FAIR\n"
    found = asked(tmp_path, *options, properties=properties)
    master, name, parallelism, doubled, conf, sql, engine, control_share = found
    assert (master, name, parallelism, doubled) == ("local[3]", "given", 3, [0, 2, 4, 6])
    assert engine == {"spark": pyspark.__version__, "master": "local[3]", "executors": 0, "cores": 3}
    assert control_share == 1, "the pools of the two queries are configured"
    assert (conf["spark.ballast.one"], conf["spark.ballast.two"]) == ("by --conf", "by the file")
    assert {Path(jar).name for jar in conf["spark.jars"].split(",")} == {jar.name for jar in jars_of("spark")}
    assert sql["spark.sql.shuffle.partitions"] == "6"
    assert sql["spark.sql.session.timeZone"] == "UTC"  # nobody may change that
    assert sql["spark.sql.extensions"].split(",")[0] == "org.apache.spark.sql.example.Unknown"
    assert "DeltaSparkSessionExtension" in sql["spark.sql.extensions"]


@pytest.mark.spark
@pytest.mark.thorough
def test_a_clusters_defaults_count_below_the_file_and_above_what_the_job_fills_in(
    short_lived_jvms: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[5]\nspark.ballast.one by the defaults\nspark.ballast.two by the defaults\n"
        "spark.sql.streaming.stopTimeout 7s\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = asked(tmp_path, properties="spark.master local[2]\nspark.ballast.one by the file\n")
    conf = found[4]
    assert (found[0], conf["spark.ballast.one"]) == ("local[2]", "by the file")
    assert conf["spark.ballast.two"] == "by the defaults"
    assert conf["spark.sql.streaming.stopTimeout"] == "7s" != FALLBACK["spark.sql.streaming.stopTimeout"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_runs_on_executors_of_its_own(short_lived_jvms: None, tmp_path: Path) -> None:
    master = "local-cluster[1,1,1024]"
    found = asked(tmp_path, "--master", master, properties="spark.executor.memory 1g\n")
    assert found[0] == master
    assert found[1] == "ballast-default-name"
    assert found[3] == [0, 2, 4, 6]
    assert (found[6]["executors"], found[6]["cores"]) == (1, 1)


def test_what_was_submitted_wins_over_the_file_and_the_callers_wishes() -> None:
    conf = SparkConf(loadDefaults=False).set("spark.sql.shuffle.partitions", "7")
    fill_in(
        conf, ROOT / "conf" / "spark" / "local.conf", {"spark.sql.shuffle.partitions": "5", "spark.log.level": "INFO"}
    )
    assert conf.get("spark.sql.shuffle.partitions") == "7"
    assert conf.get("spark.log.level") == "INFO"
    assert conf.get("spark.sql.session.timeZone") == "UTC"
