"""Measures what a bundle statistic costs the driver of the loads query as batches grow, by writer. Half an hour:

    python -m benchmarks cluster_writers

As in `cluster_scale`, each measurement drains a filled topic by two workers of a core each, in a driver process of its
own, and checks each sum in the tables. A batch has one report of each broker, and every report lists 1,000 bundles: it
is brokers that make a batch large. All sizes of a writer have equally many batches, as Spark reads earlier rows back.

- `delta_rs`, `spark`: who averages and writes; the tables are in a folder. The threshold alone says which, as in any
  job.
- `delta_rs_in_store`: the tables are in the S3 server of the tests, whose own CPU is not counted.
- `tasks_in_store`: tasks store the files there, and the driver commits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import object_store
from benchmarks.measure.loads.backlog import Backlog
from benchmarks.measure.loads.cluster_scale import Plan, measure, of_cluster, ratio
from benchmarks.measure.loads.spark_workers import running_workers
from benchmarks.measure.result import NotMeasured, Result, Target
from controller.testbed.kafka import EmbeddedKafka

BUNDLES = 1_000  # in each report
SMALL, LARGE, LARGEST = 250, 1_000, 2_000  # brokers
FLAT = 1.1


@dataclass(frozen=True, slots=True)
class Case:
    """Who writes, and reports of how many brokers. `rounds`: batches, of which the first `warm_up` do not count."""

    writer: str
    brokers: tuple[int, ...]
    rounds: int
    warm_up: int
    in_store: bool = False
    by_tasks: bool = False

    def plan(self, brokers: int, bootstrap: str, on: tuple[str, tuple[int, ...]], store: str) -> Plan:
        """The measurement of one size. `on`: master and workers; `store`: the address of the S3 server."""
        stats = brokers * BUNDLES
        threshold = stats if self.writer == "spark" else 2 * stats
        place = (object_store.new_root(), object_store.storage_options(store)) if self.in_store else ()
        plan = Plan(Backlog(brokers, BUNDLES, 0, self.rounds), bootstrap, *on, self.warm_up, threshold, *place)
        return replace(plan, tasks_store_files=self.by_tasks)


CASES = {
    "delta_rs": Case("delta_rs", (SMALL, LARGE, LARGEST), 6, 2),
    "delta_rs_in_store": Case("delta_rs", (SMALL, LARGE), 6, 2, in_store=True),
    "tasks_in_store": Case("delta_rs", (SMALL, LARGE), 6, 2, in_store=True, by_tasks=True),
    "spark": Case("spark", (SMALL, LARGE), 3, 1),  # a hundred times as much CPU
}
QUICK = {name: replace(case, brokers=(4, 8), rounds=3, warm_up=1) for name, case in CASES.items()}
TARGETS = [Target(f"{name}.driver_us_large_to_small", FLAT, "x") for name in CASES]


def run(folder: Path, quick: bool = False) -> Result:
    """All of it; `quick`: that it works."""
    folder.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"bundles_a_report": BUNDLES}
    with (
        object_store.served(folder) as store,
        EmbeddedKafka(folder / "kafka") as kafka,
        running_workers(folder / "two", 2) as cluster,
    ):
        for name, case in (QUICK if quick else CASES).items():
            plans = [case.plan(brokers, kafka.bootstrap, of_cluster(cluster), store) for brokers in case.brokers]
            figures[name] = figures_of(case.writer, [measure(folder, plan) for plan in plans])
    return Result("cluster_writers", figures, [] if quick else TARGETS)


def figures_of(writer: str, sizes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The measurements of a writer, and how CPU a statistic goes from the first to the second. Raises NotMeasured if
    another one has written."""
    others = {row["writer"] for row in sizes} - {writer}
    if others:
        raise NotMeasured(f"{others.pop()} has written in place of {writer}")
    small, large = sizes[:2]
    ratios = {f"{part}_us_large_to_small": ratio(large[f"{part}_us_a_stat"], small[f"{part}_us_a_stat"])
              for part in ("driver", "executors")}  # fmt: skip
    return {"sizes": list(sizes), **ratios}
