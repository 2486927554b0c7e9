"""Measures how fast the loads query drains a full topic: bundle statistics per second, and their CPU cost.

    python -m benchmarks loads_throughput
    python -m benchmarks.measure.loads.loads_throughput [--bundles 1000] [--writer auto] [--cores 2] …

Before the query starts, the topic's four partitions are filled with reports of fifty brokers, one every five seconds of
event time (two per pane, as in steady traffic). Time counts from the end of the second batch, because the first ones
compile, to the end of the last. Every number in every table is checked: reports and sums of the panes, the newest
averages of every bundle, an empty quarantine.

CPU seconds include driver, JVM, Python workers and Kafka. On a shared machine they are the figure to compare, because
wall time depends on other processes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from kafka import KafkaProducer

from benchmarks.measure.figures import summary
from benchmarks.measure.loads.fleet import serialize, stamp
from benchmarks.measure.loads.sent_reports import INTERVAL_MS, PANE_MS, Workload, check, fill, report
from benchmarks.measure.result import NotMeasured, Result, Target
from controller.bus.topics import CREATE_TIME, TopicNames, TopicSpec, ensure_topics
from controller.ledger.tables import TableRoot
from controller.loads.settings import LoadsSettings
from controller.testbed.kafka import EmbeddedKafka
from jobs.loads_batch import BatchReport
from jobs.loads_query import start_loads
from jobs.session import build_session

WARM_UP_BATCHES = 2
PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run. `batch_stats`: bundle statistics per micro-batch."""

    bundles: int = 1_000
    brokers: int = 50
    stats: int = 2_000_000
    batch_stats: int = 250_000
    writer: str = "auto"
    cores: int = 2
    threshold_rows: int = LoadsSettings.writer_threshold_rows
    steady_s: int = 0  # above 0: reports for this many seconds at the agents' pace, instead of draining

    @property
    def workload(self) -> Workload:
        """The reports to drain."""
        return Workload(self.brokers, self.bundles, max(4, self.stats // (self.bundles * self.brokers)))

    @property
    def per_batch(self) -> int:
        """Reports of a micro-batch."""
        return max(PARTITIONS, self.batch_stats // self.bundles)


class Cpu:
    """CPU seconds of this process and its children: JVM, Python workers, Kafka."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._kafka = kafka.pid

    def now(self) -> dict[str, float]:
        """CPU seconds so far, by driver, jvm, workers and kafka."""
        me = psutil.Process()
        spent = {"driver": sum(me.cpu_times()[:2]), "jvm": 0.0, "workers": 0.0, "kafka": 0.0}
        for process in me.children(recursive=True):
            try:
                times, name = process.cpu_times(), process.name()
            except psutil.Error:
                continue
            part = "kafka" if process.pid == self._kafka else "jvm" if "java" in name else "workers"
            spent[part] += times.user + times.system
            if part == "workers":  # including workers that have ended
                spent[part] += times.children_user + times.children_system
        return spent


def drain(spark: Any, kafka: EmbeddedKafka, folder: Path, options: Options) -> dict[str, Any]:
    """Fill a topic and let the query drain it; return the figures. Raises NotMeasured if a number is wrong."""
    names = TopicNames(f"drain{options.bundles}-{options.cores}-{time.monotonic_ns() % 100_000}.")
    ensure_topics(kafka.bootstrap, [TopicSpec(names.load_reports, PARTITIONS, -1, CREATE_TIME)])
    root = folder / names.prefix
    TableRoot(root).create_all()
    start_ms = (int(time.time() * 1000) - options.workload.rounds * INTERVAL_MS - 60_000) // PANE_MS * PANE_MS
    sent = fill(kafka, names.load_reports, options.workload, start_ms)
    settings = LoadsSettings(
        bootstrap_servers=kafka.bootstrap,
        topic=names.load_reports,
        tables_root=str(root),
        checkpoint=str(folder / f"{names.prefix}checkpoint"),
        max_offsets_per_trigger=options.per_batch,
        trigger_ms=0,
        writer=options.writer,
        writer_threshold_rows=options.threshold_rows,
    )
    cpu, done, lock = Cpu(kafka), [], threading.Lock()

    def note(batch: BatchReport) -> None:
        with lock:
            done.append((time.monotonic(), cpu.now(), batch))

    load_before = os.getloadavg()[0]
    loads = start_loads(spark, settings, note, available_now=True)
    loads.query.awaitTermination()
    if loads.query.exception() is not None:
        raise NotMeasured(f"the query ended: {loads.query.exception()}")
    check(root, options.workload, sent)
    counted = [batch for _, _, batch in done[WARM_UP_BATCHES:]]
    (from_s, from_cpu, _), (to_s, to_cpu, _) = done[WARM_UP_BATCHES - 1], done[-1]
    cpu_s = {part: to_cpu[part] - from_cpu[part] for part in to_cpu}
    stats = sum(batch.reports for batch in counted) * options.bundles
    million = stats / 1e6
    return {
        "brokers": options.brokers,
        "bundles": options.bundles,
        "reports": sent.reports,
        "bytes_a_stat": round(sent.size_bytes / sent.reports / options.bundles, 1),
        "cores": options.cores,
        "writer": counted[-1].writer,
        "batches": len(counted),
        "stats_a_batch": round(stats / len(counted)),
        "bundle_stats_per_s": round(stats / (to_s - from_s)),
        "whole_run_stats_per_s": round(sent.reports * options.bundles / (to_s - from_s + _first_s(done))),
        "cpu_s_per_million": round(sum(cpu_s.values()) / million, 2),
        "cpu_s_per_million_by_part": {part: round(spent / million, 2) for part, spent in cpu_s.items()},
        "cores_used": round(sum(cpu_s.values()) / (to_s - from_s), 2),
        "load_1m": [round(load_before, 2), round(os.getloadavg()[0], 2)],
        "stages_p50_s": stages(counted),
    }


def _first_s(done: list[tuple[float, Any, BatchReport]]) -> float:
    return sum(sum(batch.seconds.values()) for _, _, batch in done[:WARM_UP_BATCHES])


def steady(spark: Any, kafka: EmbeddedKafka, folder: Path, seconds: float, options: Options) -> dict[str, Any]:
    """Send reports at the agents' pace (50 brokers x 100 bundles every 5 s) and measure the cost without a backlog.

    `delay_s`: from the append of a batch's newest report to the end of the batch.
    """
    names = TopicNames(f"steady{time.monotonic_ns() % 100_000}.")
    ensure_topics(kafka.bootstrap, [TopicSpec(names.load_reports, PARTITIONS, -1)])
    root = folder / names.prefix
    TableRoot(root).create_all()
    dice, brokers = np.random.default_rng(1), [f"b{number}:8080" for number in range(50)]
    variants = {name: serialize(report(name, 100, dice)) for name in brokers}
    settings = LoadsSettings(
        bootstrap_servers=kafka.bootstrap,
        topic=names.load_reports,
        tables_root=str(root),
        checkpoint=str(folder / f"{names.prefix}checkpoint"),
        writer=options.writer,
    )
    done: list[tuple[float, BatchReport]] = []
    loads = start_loads(spark, settings, lambda batch: done.append((time.time(), batch)))
    producer, cpu = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1), Cpu(kafka)
    begun, number = time.monotonic(), 0
    warm_up_s = 20.0
    while time.monotonic() < begun + warm_up_s + seconds:
        if number == round(warm_up_s / INTERVAL_MS * 1000) * len(brokers):
            from_cpu, from_s, warm = cpu.now(), time.monotonic(), len(done)
        name = brokers[number % len(brokers)]
        value = stamp(variants[name], number // len(brokers) + 1, int(time.time() * 1000))
        producer.send(names.load_reports, key=name.encode(), value=value)
        number += 1
        time.sleep(max(0.0, begun + number * INTERVAL_MS / 1000 / len(brokers) - time.monotonic()))
    spent, elapsed, batches = cpu.now(), time.monotonic() - from_s, done[warm:]
    producer.close()
    loads.stop()
    return {
        "stats_per_s": round(len(brokers) * 100 / INTERVAL_MS * 1000),
        "writer": options.writer,
        "batches": len(batches),
        "cores_used": round(sum(spent.values()) / elapsed - sum(from_cpu.values()) / elapsed, 3),
        "cores_used_by_part": {part: round((spent[part] - from_cpu[part]) / elapsed, 3) for part in spent},
        "batch_s": summary([sum(b.seconds.values()) for _, b in batches]),
        "delay_s": summary([at - b.last_event_ms / 1000 for at, b in batches if b.last_event_ms]),
        "load_1m": round(os.getloadavg()[0], 2),
        "stages_p50_s": stages([b for _, b in batches]),
    }


def stages(batches: list[BatchReport]) -> dict[str, float]:
    """Median seconds of each stage of a batch."""
    names = {name for b in batches for name in b.seconds}
    return {n: summary([b.seconds[n] for b in batches if n in b.seconds])["p50"] for n in sorted(names)}


def measure_all(
    folder: Path, plans: list[Options], say: Callable[[dict[str, Any]], None] = lambda figures: None
) -> list[Any]:
    """Run all options in one session, on the cores of the first; return their figures."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    cores = plans[0].cores
    if cores == 1:
        os.sched_setaffinity(0, {0})  # Kafka, JVM and workers inherit it
    with EmbeddedKafka(folder / "kafka") as kafka:
        spark = build_session("loads-bench", extra={"spark.master": f"local[{cores}]"})
        for options in plans:
            one = replace(options, cores=cores)
            if options.steady_s:
                found.append(steady(spark, kafka, folder, options.steady_s, one))
            else:
                found.append(drain(spark, kafka, folder, one))
            say(found[-1])
        spark.stop()
    return found


def run(folder: Path, quick: bool = False) -> Result:
    """The main figure, and the cost as bundles grow."""
    if quick:
        figures = {"bundles_1000": measure_all(folder, [Options(stats=600_000, batch_stats=100_000)])[0]}
        return Result("loads_throughput", figures)
    grow = [Options(), Options(bundles=100, stats=1_500_000), Options(bundles=10_000, brokers=10, stats=2_000_000)]
    figures = {f"bundles_{f['bundles']}": f for f in measure_all(folder, grow)}
    for f in figures.values():
        f["us_a_stat"] = round(1e6 / f["bundle_stats_per_s"], 2)
    return Result("loads_throughput", figures, [Target("bundles_1000.us_a_stat", 1e6 / 60_000, "us")])


def main() -> None:
    """Run with options from the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bundles", "brokers", "stats", "batch_stats", "cores", "threshold_rows", "steady_s"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Options(), name))
    parser.add_argument("--writer", default="auto", choices=["auto", "delta_rs", "spark"])
    parser.add_argument("--times", type=int, default=1)
    given = vars(parser.parse_args())
    times = given.pop("times")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinding stops Kafka
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
        measure_all(Path(folder), [Options(**given)] * times, lambda figures: print(json.dumps(figures), flush=True))


if __name__ == "__main__":
    main()
