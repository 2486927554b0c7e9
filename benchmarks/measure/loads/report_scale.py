"""Reports and rounds as in `report_latency`, with 1,000 brokers of 1,000 bundles. `python -m benchmarks report_scale`

The whole job runs on two workers of a core each, with Kafka and the process that simulates the brokers on the same two
cores. Each broker reports its busiest hundred bundles and one row for the tail of the others. The bundles are owned
from the beginning (`owned`), so that nobody waits for a million grants.

Reports come every 30 s. Rounds are in shadow mode, one every 60 s, as by default. Inventories come once a minute: at
the usual ten seconds, reading a million names each time would take 0.8 of a core alone (8 ms an inventory).
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.measure.loads.loaded import Load
from benchmarks.measure.loads.report_latency import WORKERS, Options, measure
from benchmarks.measure.loads.spark_workers import running_workers
from benchmarks.measure.result import Result, Target

LARGE = Load(brokers=1_000, bundles=1_000, report_s=30.0, listed=100, owned=True)
INVENTORY_S = 60
TARGETS = [Target("latency_s.p99", 10.0, "s")]


def run(folder: Path, quick: bool = False) -> Result:
    """Measure once."""
    sets = (f"control.inventory_interval_ms={INVENTORY_S * 1000}",)
    options = Options(reports=270, warm_up_s=60.0, load=LARGE, round_every_s=60, overrides=sets)
    if quick:
        options = Options(reports=40, warm_up_s=20.0, load=Load(10, 20, listed=5, owned=True), overrides=sets)
    with running_workers(folder / "spark", WORKERS) as workers:
        found = measure(folder / "job", options, workers)
    load = {**options.load.figures(), "inventory_every_s": INVENTORY_S, "round_every_s": options.round_every_s}
    return Result("report_scale", {"load": load, "workers_of_a_core": WORKERS, **found}, TARGETS)
