"""Workers of a Spark standalone cluster on this machine, and the settings of an application that runs on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.process.paths import CODE, CONF
from controller.testbed.pulsar.cgroups import CpuGroup
from controller.testbed.spark_cluster import SparkCluster

WORKER_MB, EXECUTOR_MB = 1_400, 1_000
CLUSTER_CONF = CONF / "spark" / "cluster.conf"


@contextmanager
def running_workers(folder: Path, workers: int, cores_each: float | None = None) -> Iterator[SparkCluster]:
    """Workers of a core each; `cores_each`: the quota of their cgroups."""
    cluster = SparkCluster(folder)
    cluster.create(workers, 1, WORKER_MB, Path(sys.executable))
    groups = [CpuGroup.of(folder, f"worker-{number}") for number in range(1, workers + 1)] if cores_each else []
    try:
        cluster.up()
        for group, pid in zip(groups, pids_of(cluster), strict=False):
            group.make()
            group.limit(cores_each or 0.0)
            for place in group.folders:
                (place / "cgroup.procs").write_text(f"{pid}\n")  # executors are born in it
        yield cluster
    finally:
        cluster.down()
        for group in groups:
            group.remove()


def pids_of(cluster: SparkCluster) -> tuple[int, ...]:
    """Of the workers that run."""
    numbers = range(1, cluster.spec.workers + 1)
    return tuple(pid for n in numbers if (pid := cluster.process(f"worker-{n}").pid) is not None)


def properties(master: str) -> dict[str, str]:
    """What an application needs besides the shipped settings: all on loopback, and the code of this checkout."""
    return {
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.driver.memory": "2g",
        "spark.executorEnv.PYTHONPATH": str(CODE),  # the workers' environment may have another version
    }


def write_spark_conf(cluster: SparkCluster, file: Path) -> Path:
    """For `--spark-conf`: the shipped settings for a cluster, with this one as the master. Returns the file."""
    more = {**properties(cluster.url), "spark.ui.enabled": "false"}  # its server would listen beyond loopback
    lines = [CLUSTER_CONF.read_text(), *(f"{name} {value}" for name, value in more.items())]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file
