"""Reports and rounds as in `report_latency`, with 1,000 brokers of 1,000 bundles. `python -m benchmarks report_scale`

The whole job runs on two workers of a core each, with Kafka and the process that simulates the brokers on the same two
cores. The bundles are owned from the beginning (`owned`), so that nobody waits for a million grants. In the first run
each broker reports its busiest hundred bundles every 30 s and one row for the tail of the others, in the second one
(`all_listed`) all of them every 60 s.

Rounds are in shadow mode, one every 60 s, as by default. Inventories come once a minute: at the usual ten seconds,
reading a million names each time would take 0.15 of a core alone (1.3 ms an inventory).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure.loads.loaded import Load
from benchmarks.measure.loads.report_latency import WORKERS, Options, measure
from benchmarks.measure.loads.spark_workers import running_workers
from benchmarks.measure.result import Result, Target
from controller.testbed.spark_cluster import SparkCluster

LARGE = Load(brokers=1_000, bundles=1_000, report_s=30.0, listed=100, owned=True)
ALL_LISTED = replace(LARGE, report_s=60.0, listed=None)
INVENTORY_S = 60
SETTINGS = (f"control.inventory_interval_ms={INVENTORY_S * 1000}",)
TARGETS = [Target("latency_s.p99", 10.0, "s"), Target("all_listed.latency_s.p99", 10.0, "s")]


def run(folder: Path, quick: bool = False) -> Result:
    """Measure each once."""
    options = Options(reports=270, warm_up_s=60.0, load=LARGE, round_every_s=60, overrides=SETTINGS)
    if quick:
        options = Options(reports=40, warm_up_s=20.0, load=Load(10, 20, listed=5, owned=True), overrides=SETTINGS)
    whole = replace(options, load=ALL_LISTED if not quick else replace(options.load, listed=None))
    with running_workers(folder / "spark", WORKERS) as workers:
        figures = measure_on(workers, folder / "busiest", options)
    with running_workers(folder / "spark_again", WORKERS) as workers:
        figures["all_listed"] = measure_on(workers, folder / "all", whole)
    return Result("report_scale", figures, TARGETS)


def measure_on(workers: SparkCluster, folder: Path, options: Options) -> dict[str, Any]:
    """One run, with what it was measured under."""
    load = {**options.load.figures(), "inventory_every_s": INVENTORY_S, "round_every_s": options.round_every_s}
    return {"load": load, "workers_of_a_core": WORKERS, **measure(folder, options, workers)}
