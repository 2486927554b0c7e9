"""From a load report's sending until its row can be read from `broker_load`. `python -m benchmarks report_latency`

Under the load of `control_latency` (50 simulated brokers x 100 bundles every 5 s), single reports of unknown brokers
are sent at random moments. A report is readable when a commit of `broker_load` contains a row of its broker and the
file has been read back. It is measured with a local job, and with one on a Spark standalone cluster of two workers.

Meanwhile a round is due every 10 s, so that there are enough of them: six times as often as usual. Their times are
measured as well.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure.figures import summary
from benchmarks.measure.loads.cluster_scale import Memory
from benchmarks.measure.loads.fleet import Fleet
from benchmarks.measure.loads.loaded import Load, start_loaded_cluster
from benchmarks.measure.loads.round_times import RoundTimes
from benchmarks.measure.loads.spark_workers import pids_of, running_workers, write_spark_conf
from benchmarks.measure.polled import POLL_S, Polled
from benchmarks.measure.result import NotMeasured, Result, Target
from controller.bus.producer import JsonProducer
from controller.ledger.files import read_added
from controller.ledger.tables import TableRoot
from controller.process.clock import wall_ms
from controller.testbed.local_cluster import LocalCluster
from controller.testbed.spark_cluster import SparkCluster
from schemas.load_tables import BROKER_LOAD

TARGETS = [Target("latency_s.p99", 10.0, "s"), Target("on_cluster.latency_s.p99", 10.0, "s")]
PATIENCE_S = 120.0
WORKERS = 2


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run."""

    reports: int = 150
    pause_s: tuple[float, float] = (0.3, 1.5)
    warm_up_s: float = 30.0
    load: Load = field(default_factory=Load)
    round_every_s: int = 10
    overrides: tuple[str, ...] = ()  # more settings of the cluster
    seed: int = 4


class LoadRows(Polled):
    """Follows `broker_load` commit by commit; `seen_at_s` by broker, on CLOCK_MONOTONIC."""

    def __init__(self, root: str) -> None:
        super().__init__("bench-rows")
        tables = TableRoot(root)
        self.seen_at_s: dict[str, float] = {}
        self._log = tables.log(BROKER_LOAD.name)
        self._version = tables.open(BROKER_LOAD.name).version()

    def poll(self) -> None:
        """Read what has been committed since the last look."""
        while self._log.exists(self._version + 1):
            self._version += 1
            for added in self._log.read(self._version).added:
                brokers = set(read_added(self._log, added, BROKER_LOAD)["broker"].to_pylist())
                now_s = time.monotonic()
                for broker in brokers:
                    self.seen_at_s.setdefault(broker, now_s)


def run(folder: Path, quick: bool = False) -> Result:
    """Measure with the whole job, local and then on workers."""
    options = Options(reports=25, warm_up_s=5.0, load=Load(10, 20)) if quick else Options()
    figures: dict[str, Any] = {"load": options.load.figures(), "round_every_s": options.round_every_s}
    figures |= measure(folder / "local", options)
    with running_workers(folder / "spark", WORKERS) as workers:
        figures["on_cluster"] = {"workers_of_a_core": WORKERS, **measure(folder / "on_cluster", options, workers)}
    return Result("report_latency", figures, TARGETS)


def measure(folder: Path, options: Options, workers: SparkCluster | None = None) -> dict[str, Any]:
    """One run. `workers`: where the job runs, None for a local one. Raises NotMeasured if not all of them work."""
    job = ["--spark-conf", str(write_spark_conf(workers, folder / "spark.conf"))] if workers is not None else []
    sets = [f"rounds.round_interval_s={options.round_every_s}", *options.overrides]
    with start_loaded_cluster(folder, options.load, None, options.warm_up_s, sets, job) as cluster:
        pids = pids_of(workers) if workers is not None else ()
        with RoundTimes(cluster.settings) as rounds, Memory(pids, cluster.children["job"].pid) as memory_seen:
            latencies = report(cluster, options)
        if workers is not None and not all(worker.cores_used for worker in workers.workers()):
            raise NotMeasured(f"the job has not used all workers: {workers.workers()}")
        return {"latency_s": summary(latencies), "rounds": rounds.figures(), "memory_mib": memory_seen.most}


def report(cluster: LocalCluster, options: Options) -> list[float]:
    """Send the probes; seconds of each until its row could be read."""
    settings, dice = cluster.settings, random.Random(options.seed)
    names, kafka = settings.kafka.topics, settings.kafka
    producer = JsonProducer(kafka.bootstrap_servers, "bench-probes", kafka.client)
    probes = Fleet(options.reports, 1, nonce="probe", prefix="probe").brokers
    sent_at_s: dict[str, float] = {}
    with LoadRows(settings.tables.root) as rows:
        for name, broker in probes.items():
            time.sleep(dice.uniform(*options.pause_s))
            record = broker.report(wall_ms())
            sent_at_s[name] = time.monotonic()
            producer.send_bytes(names.load_reports, record, key=name)
        deadline = time.monotonic() + PATIENCE_S
        while not sent_at_s.keys() <= rows.seen_at_s.keys():
            if time.monotonic() > deadline:
                missing = sorted(sent_at_s.keys() - rows.seen_at_s.keys())
                raise NotMeasured(f"{len(missing)} reports have no row after {PATIENCE_S:g} s, as {missing[0]}")
            time.sleep(POLL_S)
    producer.close()
    return [rows.seen_at_s[name] - at_s for name, at_s in sent_at_s.items()]
