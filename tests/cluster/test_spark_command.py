"""`ballast spark` as a person uses it: up, a job on the workers at the printed address, down."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from controller.process.spark_submit import spark_environment, spark_submit_command
from controller.testbed.spark_cluster import SparkCluster
from tests.cluster.conftest import LOOPBACK, SMALL
from tests.e2e.programs import ballast

# Tasks start when both executors are there, and each has room for one: a folder for each worker.
ALL_AT_ONCE = "spark.scheduler.minRegisteredResourcesRatio 1\nspark.scheduler.maxRegisteredResourcesWaitingTime 120s\n"
ASKS = """
import json, os
from pyspark.sql import SparkSession
context = SparkSession.builder.getOrCreate().sparkContext
print("RAN_IN", json.dumps(context.parallelize(range(2), 2).map(lambda _: os.getcwd()).collect()))
"""


def test_two_workers_from_the_command_line_run_a_job(short_lived_jvms: None, tmp_path: Path) -> None:
    folder = tmp_path / "spark"
    words = ("--dir", str(folder))
    try:
        up = ballast("spark", "up", "--workers", "2", *words, "--json")
        assert up.returncode == 0, up.stderr
        facts = json.loads(up.stdout)
        assert facts["processes"] == dict.fromkeys(("master", "worker-1", "worker-2"), "running")
        assert [worker["cores"] for worker in facts["workers"]] == [1, 1]
        for again in (ballast("spark", "up", *words, "--json"), ballast("spark", "status", *words, "--json")):
            assert (again.returncode, json.loads(again.stdout)) == (0, facts), "what runs is not started anew"
        ran_in = folders_of_tasks(facts["master"], tmp_path)
        assert sorted(place.relative_to(folder).parts[0] for place in ran_in) == ["worker-1", "worker-2"]
        assert ballast("spark", "down", *words).stdout == "stopped\n"
        status = ballast("spark", "status", *words, "--json")
        ended = json.loads(status.stdout)
        assert (status.returncode, ended["up"], ended["workers"]) == (1, False, [])
        assert "running" not in ended["processes"].values()
        assert ballast("spark", "down", *words).stdout == "was not running\n"
    finally:
        SparkCluster(folder).down()


def folders_of_tasks(master: str, folder: Path) -> list[Path]:
    """Where the two tasks of a submitted program were run."""
    script, properties = folder / "asks.py", folder / "spark.conf"
    script.write_text(ASKS)
    properties.write_text(f"spark.master {master}\n{LOOPBACK}{SMALL}{ALL_AT_ONCE}")
    done = subprocess.run(
        spark_submit_command([], properties, script), env=spark_environment(os.environ, properties),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RAN_IN ")] or [done.stderr[-4000:]]
    assert line.startswith("RAN_IN "), line
    return [Path(name) for name in json.loads(line.removeprefix("RAN_IN "))]
