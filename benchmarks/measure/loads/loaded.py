"""Starts a controller for the latency benchmarks: alone, or with the loads query and the reports of a fleet."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.testbed.local_cluster import LocalCluster

GENERATOR = (sys.executable, "-m", "benchmarks.measure.loads.load_generator")
READY_S = 900.0  # the controller grants 500 bundles a batch


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a fleet: brokers, bundles per broker, the report interval, and how many bundles a report lists.
    `owned`: its bundles are from the beginning, and it speaks before the job starts."""

    brokers: int = 50
    bundles: int = 100
    report_s: float = 5.0
    listed: int | None = None  # all
    owned: bool = False

    def figures(self) -> dict[str, float]:
        """For the results."""
        listed = {} if self.listed is None else {"listed_a_report": self.listed}
        return {"brokers": self.brokers, "bundles_a_broker": self.bundles, "report_every_s": self.report_s, **listed}


@contextlib.contextmanager
def start_loaded_cluster(
    folder: Path, load: Load | None, only: str | None, warm_up_s: float, overrides: Sequence[str] = (),
    job: Sequence[str] = (),
) -> Iterator[LocalCluster]:  # fmt: skip
    """Start Kafka, tables and the job (`only`: one of its queries); with a load, also a fleet that owns its bundles.

    The brokers are simulated, since only the controller is measured. Rounds run in shadow mode. `overrides`: more
    settings of the cluster; `job`: further options of `ballast run`.
    """
    with LocalCluster(folder, profile="local", overrides=("rounds.mode=shadow", *overrides)) as cluster:
        cluster.start_kafka_and_store()
        if load is not None and load.owned:
            start_fleet(cluster, load)
        cluster.start_job(only=only, more=job)
        cluster.wait_for_job()
        if load is not None and not load.owned:
            start_fleet(cluster, load)
        time.sleep(warm_up_s)
        yield cluster


def start_fleet(cluster: LocalCluster, load: Load) -> None:
    """Start the process of the fleet, wait until it owns every bundle."""
    sizes = ["--brokers", load.brokers, "--bundles", load.bundles, "--report-s", load.report_s]
    sizes += ["--listed", load.listed] if load.listed is not None else []
    argv = [*GENERATOR, "--conf", str(cluster.config_file), *map(str, sizes), *(["--owned"] if load.owned else [])]
    cluster.start("fleet", argv).wait_for_line("fleet ready", READY_S)
