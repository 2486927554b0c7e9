"""The loads query drains a full topic: bundle statistics a second, and the CPU they cost.

    python -m benchmarks loads_throughput
    python -m benchmarks.measure.loads.loads_throughput [--bundles 1000] [--writer auto] [--cores 2] …

The topic has four partitions and holds reports of fifty brokers, one each five seconds of event time (two a pane, as in
steady traffic), before the query starts; nothing is sent meanwhile. Counted from the end of the second batch, as the
first ones compile, to the end of the last. Every number of every table is checked: reports and sums of the panes,
the newest averages of every bundle, nothing in quarantine.

CPU seconds are those of all that takes part (driver, JVM, Python workers, Kafka): on a shared machine they are the
figure to compare, as wall time depends on who else is there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from kafka import KafkaProducer

from benchmarks.measure.figures import summary
from benchmarks.measure.loads.fleet import prepared, stamped
from benchmarks.measure.result import NotMeasured, Result, Target
from controller.bus.topics import CREATE_TIME, TopicNames, TopicSpec, ensure_topics
from controller.domain.load import BUNDLE_FIELDS, COUNTS, RATES, RESOURCES
from controller.ledger.tables import TableRoot
from controller.loads.settings import LoadsSettings
from controller.testbed.kafka import EmbeddedKafka
from jobs.loads_batch import BatchReport
from jobs.loads_query import start_loads
from jobs.session import build_session

INTERVAL_MS, PANE_MS = 5_000, 10_000
WARM_UP_BATCHES = 2
VARIANTS = 2  # of each broker's report; the sequence differs in all of them
PARTITIONS = 4
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run. `batch_stats`: bundle statistics a micro-batch reads."""

    bundles: int = 1_000
    brokers: int = 50
    stats: int = 2_000_000
    batch_stats: int = 250_000
    writer: str = "auto"
    cores: int = 2
    threshold_rows: int = LoadsSettings.writer_threshold_rows
    steady_s: int = 0  # instead of draining: so many seconds at the agents' pace

    @property
    def rounds(self) -> int:
        """Reports of each broker."""
        return max(4, self.stats // (self.bundles * self.brokers))

    @property
    def per_batch(self) -> int:
        """Reports of a micro-batch."""
        return max(PARTITIONS, self.batch_stats // self.bundles)


@dataclass
class Sent:
    """What the topic was filled with."""

    reports: int = 0
    size_bytes: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of each field over all bundle rows
    newest: dict[str, float] = field(default_factory=dict)  # bundle -> msg_rate_in over the last minute
    newest_end_ms: int = 0


def report(broker: str, bundles: int, dice: np.random.Generator) -> dict[str, Any]:
    """A load report whose bundles sum up to its totals."""
    rates = dice.uniform(0, 1000, (bundles, len(RATES))).round(3).tolist()
    counts = dice.integers(0, 1000, (bundles, len(COUNTS))).tolist()
    width = 0xFFFFFFFF // bundles
    listed: list[dict[str, Any]] = [
        {"bundle": f"t/{broker.split(':')[0]}/0x{n * width:08x}_0x{(n + 1) * width:08x}"}
        | dict(zip(RATES, rates[n], strict=True))
        | dict(zip(COUNTS, counts[n], strict=True))
        for n in range(bundles)
    ]
    totals: dict[str, Any] = {name: sum(b[name] for b in listed) for name in BUNDLE_FIELDS} | {"bundles": bundles}
    return {
        "v": 1,
        "broker": broker,
        "incarnation": 1,
        "nonce": "bench",
        "session": 1,
        "resources": {name: {"usage": float(dice.uniform(0, 100)), "limit": 100.0} for name in RESOURCES},
        "rpc_queue_ms": 1.0,
        "metadata_latency_ms": 2.0,
        "totals": totals,
        "bundles": listed,
        "tail": None,
    }


def fill(kafka: EmbeddedKafka, topic: str, plan: Plan, start_ms: int) -> Sent:
    """Every broker's reports, in the order of their event times."""
    dice = np.random.default_rng(random.Random(2).randrange(2**32))
    sent, names = Sent(), [f"b{number}:8080" for number in range(plan.brokers)]
    documents = {name: [report(name, plan.bundles, dice) for _ in range(VARIANTS)] for name in names}
    variants = {name: [prepared(document) for document in docs] for name, docs in documents.items()}
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1, max_request_size=8 * MIB, batch_size=MIB)
    for number in range(plan.rounds):
        for position, name in enumerate(names):
            at_ms = start_ms + number * INTERVAL_MS + position * INTERVAL_MS // len(names)
            value = stamped(variants[name][number % VARIANTS], number + 1, at_ms)
            producer.send(topic, key=name.encode(), value=value, timestamp_ms=at_ms)
            sent.reports += 1
            sent.size_bytes += len(value)
            sent.newest_end_ms = max(sent.newest_end_ms, (at_ms // PANE_MS + 1) * PANE_MS)
        producer.flush()  # the client's own queue has no limit
    producer.close()
    for docs in documents.values():
        for number in range(plan.rounds):
            totals = docs[number % VARIANTS]["totals"]
            for name in BUNDLE_FIELDS:
                sent.sums[name] = sent.sums.get(name, 0.0) + totals[name]
    return sent


class Cpu:
    """CPU seconds of this process and all below it: the JVM, Python workers, Kafka."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._kafka = kafka.pid

    def now(self) -> dict[str, float]:
        """By part: driver, jvm, workers, kafka."""
        me = psutil.Process()
        spent = {"driver": sum(me.cpu_times()[:2]), "jvm": 0.0, "workers": 0.0, "kafka": 0.0}
        for process in me.children(recursive=True):
            try:
                times, name = process.cpu_times(), process.name()
            except psutil.Error:
                continue
            part = "kafka" if process.pid == self._kafka else "jvm" if "java" in name else "workers"
            spent[part] += times.user + times.system
            if part == "workers":  # with what those that ended have spent
                spent[part] += times.children_user + times.children_system
        return spent


def drain(spark: Any, kafka: EmbeddedKafka, folder: Path, plan: Plan) -> dict[str, Any]:
    """Fill a topic, then let the query read it to its end; figures, or NotMeasured when a number is wrong."""
    names = TopicNames(f"drain{plan.bundles}-{plan.cores}-{time.monotonic_ns() % 100_000}.")
    ensure_topics(kafka.bootstrap, [TopicSpec(names.load_reports, PARTITIONS, -1, CREATE_TIME)])
    root = folder / names.prefix
    TableRoot(root).create_all()
    start_ms = (int(time.time() * 1000) - plan.rounds * INTERVAL_MS - 60_000) // PANE_MS * PANE_MS
    sent = fill(kafka, names.load_reports, plan, start_ms)
    settings = LoadsSettings(
        bootstrap_servers=kafka.bootstrap,
        topic=names.load_reports,
        tables_root=str(root),
        checkpoint=str(folder / f"{names.prefix}checkpoint"),
        max_offsets_per_trigger=plan.per_batch,
        trigger_ms=0,
        writer=plan.writer,
        writer_threshold_rows=plan.threshold_rows,
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
    check(root, plan, sent)
    counted = [batch for _, _, batch in done[WARM_UP_BATCHES:]]
    (from_s, from_cpu, _), (to_s, to_cpu, _) = done[WARM_UP_BATCHES - 1], done[-1]
    cpu_s = {part: to_cpu[part] - from_cpu[part] for part in to_cpu}
    stats = sum(batch.reports for batch in counted) * plan.bundles
    million = stats / 1e6
    return {
        "brokers": plan.brokers,
        "bundles": plan.bundles,
        "reports": sent.reports,
        "bytes_a_stat": round(sent.size_bytes / sent.reports / plan.bundles, 1),
        "cores": plan.cores,
        "writer": counted[-1].writer,
        "batches": len(counted),
        "stats_a_batch": round(stats / len(counted)),
        "bundle_stats_per_s": round(stats / (to_s - from_s)),
        "whole_run_stats_per_s": round(sent.reports * plan.bundles / (to_s - from_s + _first_s(done))),
        "cpu_s_per_million": round(sum(cpu_s.values()) / million, 2),
        "cpu_s_per_million_by_part": {part: round(spent / million, 2) for part, spent in cpu_s.items()},
        "cores_used": round(sum(cpu_s.values()) / (to_s - from_s), 2),
        "load_1m": [round(load_before, 2), round(os.getloadavg()[0], 2)],
        "stages_p50_s": stages(counted),
    }


def _first_s(done: list[tuple[float, Any, BatchReport]]) -> float:
    return sum(sum(batch.seconds.values()) for _, _, batch in done[:WARM_UP_BATCHES])


def steady(spark: Any, kafka: EmbeddedKafka, folder: Path, seconds: float, plan: Plan) -> dict[str, Any]:
    """Reports at the agents' pace (50 brokers x 100 bundles, one each 5 s): the cost when nothing is behind. `delay_s`
    is from a report's append to the end of the batch that wrote its rows, for the newest report of a batch."""
    names = TopicNames(f"steady{time.monotonic_ns() % 100_000}.")
    ensure_topics(kafka.bootstrap, [TopicSpec(names.load_reports, PARTITIONS, -1)])
    root = folder / names.prefix
    TableRoot(root).create_all()
    dice, brokers = np.random.default_rng(1), [f"b{number}:8080" for number in range(50)]
    variants = {name: prepared(report(name, 100, dice)) for name in brokers}
    settings = LoadsSettings(
        bootstrap_servers=kafka.bootstrap,
        topic=names.load_reports,
        tables_root=str(root),
        checkpoint=str(folder / f"{names.prefix}checkpoint"),
        writer=plan.writer,
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
        value = stamped(variants[name], number // len(brokers) + 1, int(time.time() * 1000))
        producer.send(names.load_reports, key=name.encode(), value=value)
        number += 1
        time.sleep(max(0.0, begun + number * INTERVAL_MS / 1000 / len(brokers) - time.monotonic()))
    spent, elapsed, batches = cpu.now(), time.monotonic() - from_s, done[warm:]
    producer.close()
    loads.stop()
    return {
        "stats_per_s": round(len(brokers) * 100 / INTERVAL_MS * 1000),
        "writer": plan.writer,
        "batches": len(batches),
        "cores_used": round(sum(spent.values()) / elapsed - sum(from_cpu.values()) / elapsed, 3),
        "cores_used_by_part": {part: round((spent[part] - from_cpu[part]) / elapsed, 3) for part in spent},
        "batch_s": summary([sum(b.seconds.values()) for _, b in batches]),
        "delay_s": summary([at - b.last_event_ms / 1000 for at, b in batches if b.last_event_ms]),
        "load_1m": round(os.getloadavg()[0], 2),
        "stages_p50_s": stages([b for _, b in batches]),
    }


def check(root: Path, plan: Plan, sent: Sent) -> None:
    """Compare the tables with what was sent. Raises NotMeasured."""
    tables = TableRoot(root)
    if tables.open("quarantine").to_pyarrow_table().num_rows:
        raise NotMeasured(
            f"quarantine is not empty: {tables.open('quarantine').to_pyarrow_table()['rule'].to_pylist()[:3]}"
        )
    brokers = tables.open("broker_panes").to_pyarrow_table()
    bundles = tables.open("bundle_panes").to_pyarrow_table()
    _equal("reports of broker_panes", pc.sum(brokers["reports"]).as_py(), sent.reports)
    _equal("reports of bundle_panes", pc.sum(bundles["reports"]).as_py(), sent.reports * plan.bundles)
    for name in BUNDLE_FIELDS:
        for table in (brokers, bundles):
            _equal(f"sum of {name}", pc.sum(table[f"{name}_sum"]).as_py(), sent.sums[name])
    load = tables.open("bundle_load").to_pyarrow_table()
    _averages(bundles, load.filter(pc.equal(load["as_of_ms"], sent.newest_end_ms)), plan, sent)


def _averages(panes: pa.Table, load: pa.Table, plan: Plan, sent: Sent) -> None:
    """The newest row of each bundle is the mean of its panes of the last minute."""
    newest = load.sort_by("batch_id").group_by(["bundle"], use_threads=False)
    newest = newest.aggregate([("msg_rate_in", "last"), ("reports", "last")]).sort_by("bundle")
    _equal("bundles with a newest average", newest.num_rows, plan.brokers * plan.bundles)
    window = panes.filter(pc.greater(panes["pane_end_ms"], sent.newest_end_ms - 60_000))
    merged = window.group_by(["bundle"]).aggregate([("msg_rate_in_sum", "sum"), ("reports", "sum")]).sort_by("bundle")
    wanted = pc.divide(merged["msg_rate_in_sum_sum"], merged["reports_sum"]).to_numpy()
    if not np.allclose(newest["msg_rate_in_last"].to_numpy(), wanted, rtol=1e-9):
        raise NotMeasured("the newest averages of bundle_load are not the means of its panes")
    _equal(
        "reports in the newest averages", pc.sum(newest["reports_last"]).as_py(), pc.sum(merged["reports_sum"]).as_py()
    )


def _equal(what: str, found: float, wanted: float) -> None:
    if abs(found - wanted) > 1e-9 * abs(wanted):
        raise NotMeasured(f"{what}: {found} in the tables, {wanted} sent")


def stages(batches: list[BatchReport]) -> dict[str, float]:
    """Median seconds of each stage of a batch."""
    names = {name for b in batches for name in b.seconds}
    return {n: summary([b.seconds[n] for b in batches if n in b.seconds])["p50"] for n in sorted(names)}


def measured(
    folder: Path, plans: list[Plan], say: Callable[[dict[str, Any]], None] = lambda figures: None
) -> list[Any]:
    """Each plan's figures; plans of one number of cores share a session."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    cores = plans[0].cores
    if cores == 1:
        os.sched_setaffinity(0, {0})  # Kafka, JVM and workers inherit it
    with EmbeddedKafka(folder / "kafka") as kafka:
        spark = build_session("loads-bench", extra={"spark.master": f"local[{cores}]"})
        for plan in plans:
            one = replace(plan, cores=cores)
            if plan.steady_s:
                found.append(steady(spark, kafka, folder, plan.steady_s, one))
            else:
                found.append(drain(spark, kafka, folder, one))
            say(found[-1])
        spark.stop()
    return found


def run(folder: Path, quick: bool = False) -> Result:
    """The main figure, and the cost as bundles grow."""
    if quick:
        figures = {"bundles_1000": measured(folder, [Plan(stats=600_000, batch_stats=100_000)])[0]}
        return Result("loads_throughput", figures)
    grow = [Plan(), Plan(bundles=100, stats=1_500_000), Plan(bundles=10_000, brokers=10, stats=2_000_000)]
    figures = {f"bundles_{f['bundles']}": f for f in measured(folder, grow)}
    for f in figures.values():
        f["us_a_stat"] = round(1e6 / f["bundle_stats_per_s"], 2)
    return Result("loads_throughput", figures, [Target("bundles_1000.us_a_stat", 1e6 / 60_000, "us")])


def main() -> None:
    """One plan, printed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bundles", "brokers", "stats", "batch_stats", "cores", "threshold_rows", "steady_s"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Plan(), name))
    parser.add_argument("--writer", default="auto", choices=["auto", "delta_rs", "spark"])
    parser.add_argument("--times", type=int, default=1)
    given = vars(parser.parse_args())
    times = given.pop("times")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Kafka is ended on the way out
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
        measured(Path(folder), [Plan(**given)] * times, lambda figures: print(json.dumps(figures), flush=True))


if __name__ == "__main__":
    main()
