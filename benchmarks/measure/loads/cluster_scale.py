"""Measures the loads query on a Spark standalone cluster: its cost, more workers, more brokers. Half an hour:

    python -m benchmarks cluster_scale

Every measurement drains a topic that was filled before, in a driver process of its own, and checks each sum in the
tables. A batch has one report of each broker. CPU seconds are those of the batches after the first ones, which compile:

- `cost`: 250 brokers of 1,000 bundles, in local mode and by two workers of a core each.
- `workers`: 1,000 brokers that list 1,000 bundles each, by one worker and by two, each of them held to half a core by a
  cgroup quota; twice, in the order one, two, two, one. `workers_small`: the same with 250 brokers, of which a batch is
  short.
- `growth`: 10, 100 and 1,000 brokers of 1,000 bundles, the busiest hundred listed and the rest as one row; and 1,000
  brokers that list all.

The page draws lines through `growth` (`scale_model`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.measure.loads.backlog import Backlog, fill_backlog
from benchmarks.measure.loads.scale_model import SHARES
from benchmarks.measure.loads.sent_reports import INTERVAL_MS, PANE_MS, check_sums
from benchmarks.measure.loads.spark_workers import CLUSTER_CONF, pids_of, properties, running_workers
from benchmarks.measure.result import NotMeasured, Result, Target
from controller.bus.topics import CREATE_TIME, TopicNames, TopicSpec, delete_topics, ensure_topics
from controller.ledger.tables import TableRoot
from controller.loads.settings import LoadsSettings
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.spark_cluster import SparkCluster
from jobs.loads_batch import BatchReport
from jobs.loads_query import start_loads
from jobs.session import build_session

MODULE = "benchmarks.measure.loads.cluster_scale"
PARTITIONS = 4
HALF_CORE = 0.5
PAIRED = (("one", 1), ("two", 2), ("two", 2), ("one", 1))  # what changes on the machine meanwhile concerns both
EVERY_S = 0.5  # memory is looked at
TREES_EVERY = 20  # looks, the processes are listed anew: a listing reads all of /proc, at the driver's expense
TARGETS = [
    Target("cost.cluster.executors_us_a_stat", 10.0, "us"),
    Target("cost.cluster_to_local", 1.15, "x"),
    Target("workers.time_of_two_to_one", round(1 / 1.8, 3), "x"),
    Target("workers.cpu_of_two_to_one", 1.10, "x"),
]


@dataclass(frozen=True, slots=True)
class Plan:
    """One measurement. `master`: of Spark; `workers`: pids of the cluster's, none in local mode; `tables`: where they
    are, without it in a folder of their own."""

    backlog: Backlog
    bootstrap: str
    master: str
    workers: tuple[int, ...] = ()
    warm_up: int = 2  # batches that are not counted
    threshold: int = LoadsSettings.writer_threshold_rows
    tables: str = ""
    storage_options: Mapping[str, str] = field(default_factory=dict)
    tasks_store_files: bool = False


class Held(NamedTuple):
    """What workers with a quota read, and how many batches of it are not counted."""

    backlog: Backlog
    warm_up: int


COST = Backlog(brokers=250, listed=1_000, tail=0, rounds=8)
GROWTH = (
    Backlog(10, 100, 900, 40),
    Backlog(100, 100, 900, 20),
    Backlog(1_000, 100, 900, 8),
    Backlog(1_000, 1_000, 0, 4),
)
# A JVM with half a core compiles for longer, and two of them twice as much.
HELD, HELD_SMALL = Held(replace(GROWTH[-1], rounds=14), 4), Held(replace(COST, rounds=40), 16)
QUICK = Backlog(brokers=10, listed=100, tail=900, rounds=6)


def run(folder: Path, quick: bool = False) -> Result:
    """All of it; `quick`: that it works."""
    folder.mkdir(parents=True, exist_ok=True)
    with EmbeddedKafka(folder / "kafka") as kafka:
        cost: dict[str, Any] = {"local": measure(folder, Plan(QUICK if quick else COST, kafka.bootstrap, "local[2]"))}
        with running_workers(folder / "two", 2) as cluster:
            sizes = (QUICK,) if quick else (COST, *GROWTH)
            plans = [Plan(each, kafka.bootstrap, *of_cluster(cluster)) for each in sizes]
            cost["cluster"], *growth = [measure(folder, plan) for plan in plans]
        figures: dict[str, Any] = {"cost": cost}
        cost["cluster_to_local"] = ratio(cost["cluster"]["us_a_stat"], cost["local"]["us_a_stat"])
        if quick:
            return Result("cluster_scale", figures)
        for name, held in (("workers", HELD), ("workers_small", HELD_SMALL)):
            figures[name] = _measure_workers(folder / name, kafka.bootstrap, held)
        figures["growth"] = growth
    return Result("cluster_scale", figures, TARGETS)


def _measure_workers(folder: Path, bootstrap: str, held: Held) -> dict[str, Any]:
    runs: dict[str, list[dict[str, Any]]] = {"one": [], "two": []}
    for number, (name, count) in enumerate(PAIRED):
        with running_workers(folder / f"held-{number}", count, HALF_CORE) as cluster:
            runs[name].append(measure(folder, Plan(held.backlog, bootstrap, *of_cluster(cluster), held.warm_up)))
    found: dict[str, Any] = {name: mean_of(measured) for name, measured in runs.items()}
    found["stats_per_s"] = {name: [run["stats_per_s"] for run in measured] for name, measured in runs.items()}
    found["time_of_two_to_one"] = ratio(found["one"]["stats_per_s"], found["two"]["stats_per_s"])
    found["cpu_of_two_to_one"] = ratio(found["two"]["us_a_stat"], found["one"]["us_a_stat"])
    return found


def mean_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One run of each figure's mean; what is no number is that of the first."""
    return {name: _mean([run[name] for run in runs]) for name in runs[0]}


def _mean(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, Mapping):
        return mean_of(values)
    if isinstance(first, str):
        return first
    mean = sum(values) / len(values)
    return round(mean) if isinstance(first, int) else round(mean, 4)


def of_cluster(cluster: SparkCluster) -> tuple[str, tuple[int, ...]]:
    """Master and workers of a plan."""
    return cluster.url, pids_of(cluster)


def measure(folder: Path, plan: Plan) -> dict[str, Any]:
    """In a process of its own, whose memory is the driver's alone. Raises NotMeasured."""
    argv = [sys.executable, "-m", MODULE, "--folder", str(folder), "--plan", json.dumps(asdict(plan))]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise NotMeasured(f"{plan} ended with {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(figures), flush=True)
    return figures


def ratio(one: float, other: float) -> float:
    """For the results."""
    return round(one / other, 3)


# ---------------------------------------------------------------- in the driver's process


def drain(folder: Path, plan: Plan) -> dict[str, Any]:
    """Fill the topic, and let the query drain it."""
    backlog, names = plan.backlog, TopicNames(f"scale{time.monotonic_ns()}.")
    ensure_topics(plan.bootstrap, [TopicSpec(names.load_reports, PARTITIONS, -1, CREATE_TIME)])
    root = TableRoot(plan.tables or folder / names.prefix, plan.storage_options)
    root.create_all()
    start_ms = (int(time.time() * 1000) - backlog.rounds * INTERVAL_MS - 60_000) // PANE_MS * PANE_MS
    sent = fill_backlog(plan.bootstrap, names.load_reports, backlog, start_ms, PARTITIONS)
    conf = CLUSTER_CONF if plan.workers else None
    spark = build_session("cluster-scale", conf, properties(plan.master))
    settings = LoadsSettings(
        bootstrap_servers=plan.bootstrap, topic=names.load_reports, tables_root=root.root,
        storage_options=plan.storage_options, writer_threshold_rows=plan.threshold, trigger_ms=0,
        tasks_store_files=plan.tasks_store_files,
        checkpoint=str(folder / f"{names.prefix}checkpoint"), max_offsets_per_trigger=backlog.brokers,
    )  # fmt: skip
    done: list[tuple[float, dict[str, float], BatchReport]] = []
    with Memory(plan.workers) as memory_seen:
        loads = start_loads(
            spark, settings, lambda batch: done.append((time.monotonic(), cpu_s(plan.workers), batch)),
            available_now=True,
        )  # fmt: skip
        loads.query.awaitTermination()
    if loads.query.exception() is not None:
        raise NotMeasured(f"the query ended: {loads.query.exception()}")
    check_sums(root, backlog.rows_a_report, sent)
    delete_topics(plan.bootstrap, [names.load_reports])  # a batch of them is up to 280 MB
    shuffled = _shuffled_bytes(spark)
    spark.stop()
    (from_s, from_cpu, _), (to_s, to_cpu, _) = done[plan.warm_up - 1], done[-1]
    batches = [batch for _, _, batch in done[plan.warm_up :]]
    stats = sum(batch.reports for batch in batches) * backlog.rows_a_report
    spent = {part: to_cpu[part] - from_cpu[part] for part in to_cpu}
    return {
        "brokers": backlog.brokers,
        "listed": backlog.listed,
        "tail": backlog.tail,
        "master": plan.master.partition(":")[0],
        "workers": len(plan.workers),
        "writer": batches[-1].writer,
        "batches": len(batches),
        "stats_a_batch": round(stats / len(batches)),
        "stats_per_s": round(stats / (to_s - from_s)),
        "us_a_stat": round(1e6 * sum(spent.values()) / stats, 2),
        **{f"{part}_us_a_stat": round(1e6 * spent[part] / stats, 2) for part in SHARES},
        **{f"{part}_cpu_s_a_batch": round(spent[part] / len(batches), 4) for part in SHARES},
        "stages_s_a_batch": _stages_s(batches),
        "shuffled_bytes_a_stat": round(shuffled / (sent.reports * backlog.rows_a_report), 1),
        "memory_mib": memory_seen.most,
    }


def _stages_s(batches: Sequence[BatchReport]) -> dict[str, float]:
    """Where the driver's time goes, on average: `read` until the last task has answered, then what it does itself."""
    names = sorted({name for batch in batches for name in batch.seconds})
    return {name: round(sum(batch.seconds.get(name, 0.0) for batch in batches) / len(batches), 3) for name in names}


def cpu_s(workers: Sequence[int]) -> dict[str, float]:
    """CPU seconds so far: of executors and their Python workers, and of the driver with its JVM. In local mode the JVM
    and the Python workers are the executors."""
    driver = psutil.Process()
    spent = dict.fromkeys(SHARES, 0.0)
    spent["driver"] = sum(driver.cpu_times()[:2])
    trees = {"executors" if not workers else "driver": driver.children(recursive=True)}
    for pid in workers:
        trees.setdefault("executors", []).extend(psutil.Process(pid).children(recursive=True))
    for part, processes in trees.items():
        for process in processes:
            with suppress(psutil.Error):
                times = process.cpu_times()
                spent[part] += times.user + times.system
                if "java" not in process.name():  # Python workers that have ended
                    spent[part] += times.children_user + times.children_system
    return spent


class Memory:
    """The most resident memory of driver and executors together, each process's at the same moment, in MiB."""

    def __init__(self, workers: Sequence[int], driver: int | None = None) -> None:
        """`driver`: its process, by default this one."""
        self.most = dict.fromkeys(SHARES, 0)
        self._driver = psutil.Process(driver)
        self._workers = workers
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        looks, trees = 0, self._trees()
        while not self._stopped.wait(EVERY_S):
            looks += 1
            if looks % TREES_EVERY == 0:
                trees = self._trees()
            for part, processes in trees.items():
                self.most[part] = max(self.most[part], round(sum(map(_resident, processes)) / 2**20))

    def _trees(self) -> dict[str, list[psutil.Process]]:
        trees = {"driver": [self._driver, *self._driver.children(recursive=True)], "executors": []}
        for pid in self._workers:
            with suppress(psutil.Error):
                trees["executors"] += psutil.Process(pid).children(recursive=True)
        return trees


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _shuffled_bytes(spark: Any) -> int:
    """Written to shuffles by all executors, as Spark counts it."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(int(executors.apply(at).totalShuffleWrite()) for at in range(executors.size()))


def main() -> None:
    """One measurement, for `measure`."""
    parser = argparse.ArgumentParser(description="One measurement of cluster_scale.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--plan", type=json.loads, required=True)
    given = parser.parse_args()
    plan = Plan(**{**given.plan, "backlog": Backlog(**given.plan["backlog"]), "workers": tuple(given.plan["workers"])})
    print(json.dumps(drain(given.folder, plan)), flush=True)


if __name__ == "__main__":
    main()
