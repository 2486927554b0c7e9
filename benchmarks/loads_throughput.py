"""The loads query on real Kafka, Spark and Delta: bundle statistics a second, time from report to row.

    python -m benchmarks.loads_throughput [--seconds 60] [--writer auto] [--skip-large]

- steady: 50 brokers x 100 bundles, a report each 5 s. Latency is from the producer's send to the end of the batch that
  wrote the report's rows.
- backlog: 50 brokers x 1,000 bundles x 10 reports, read as fast as it goes; batches after the first two count, because
  the first ones compile.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from pyspark.sql import SparkSession

from benchmarks.figures import summary, write
from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.demo.kafka import EmbeddedKafka
from controller.domain.load import BUNDLE_FIELDS, COUNTS, RATES, RESOURCES
from controller.ledger.tables import TableRoot
from jobs.loads_batch import BatchReport
from jobs.loads_query import start_loads
from jobs.loads_settings import LoadsSettings
from jobs.session import build_session

BROKERS, INTERVAL_S = 50, 5.0
WARM_UP_BATCHES = 2


def report(broker: str, sequence: int, bundles: int, rng: random.Random) -> dict[str, Any]:
    """A load report whose bundles sum up to its totals."""
    listed = []
    for number in range(bundles):
        stats: dict[str, Any] = {"bundle": f"t/{broker.split(':')[0]}/0x{number << 16:08x}_0x{(number + 1) << 16:08x}"}
        stats |= {name: round(rng.uniform(0, 1000), 3) for name in RATES}
        stats |= {name: rng.randrange(1000) for name in COUNTS}
        listed.append(stats)
    totals: dict[str, Any] = {name: sum(b[name] for b in listed) for name in BUNDLE_FIELDS} | {"bundles": bundles}
    return {
        "v": 1,
        "broker": broker,
        "incarnation": 1,
        "nonce": "bench",
        "session": 1,
        "sequence": sequence,
        "sent_ms": 0,
        "resources": {name: {"usage": rng.uniform(0, 100), "limit": 100.0} for name in RESOURCES},
        "rpc_queue_ms": 1.0,
        "metadata_latency_ms": 2.0,
        "totals": totals,
        "bundles": listed,
        "tail": None,
    }


def documents(bundles: int, rng: random.Random) -> list[tuple[bytes, bytes]]:
    """One report of each broker: key and value."""
    names = [f"b{number}:8080" for number in range(BROKERS)]
    return [(n.encode(), json.dumps(report(n, 1, bundles, rng), separators=(",", ":")).encode()) for n in names]


class Bench:
    """One Kafka, one session; each scenario has a topic and tables of its own."""

    def __init__(self, spark: SparkSession, kafka: EmbeddedKafka, folder: Path, writer: str) -> None:
        self.spark, self.kafka, self.folder, self.writer = spark, kafka, folder, writer
        self.producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks=1, max_request_size=8 * 2**20)

    def settings(self, name: str, limit: int) -> LoadsSettings:
        """Create the scenario's topic and tables."""
        topics = TopicNames(f"{name}.")
        ensure_topics(self.kafka.bootstrap, live_topics(topics))
        TableRoot(self.folder / name).create_all()
        return LoadsSettings(
            bootstrap_servers=self.kafka.bootstrap,
            topic=topics.load_reports,
            tables_root=str(self.folder / name),
            checkpoint=str(self.folder / f"{name}-checkpoint"),
            max_offsets_per_trigger=limit,
            writer=self.writer,
        )

    def steady(self, seconds: float) -> dict[str, Any]:
        """Reports at the agents' pace; one broker after the other, evenly over the interval."""
        settings, reports = self.settings("steady", 20_000), documents(100, random.Random(1))
        done: list[tuple[float, BatchReport]] = []
        loads = start_loads(self.spark, settings, lambda b: done.append((time.time(), b)))
        for key, value in reports:
            self.producer.send(settings.topic, key=key, value=value)
        self.producer.flush()
        _wait(lambda: sum(b.reports for _, b in done) >= BROKERS)
        warm, sent = len(done), []
        ends = time.time() + seconds
        while time.time() < ends:
            for key, value in reports:
                self.producer.send(settings.topic, key=key, value=value)
                sent.append(time.time())
                time.sleep(INTERVAL_S / BROKERS)
        self.producer.flush()
        _wait(lambda: sum(b.reports for _, b in done[warm:]) >= len(sent))
        loads.stop()
        latencies: list[float] = []
        for at, batch in done[warm:]:
            first = len(latencies)
            latencies += [at - moment for moment in sent[first : first + batch.reports]]
        batches = [b for _, b in done[warm:] if b.reports]
        return {
            "brokers": BROKERS,
            "bundles": 100,
            "reports": len(sent),
            "report_to_row_s": summary(latencies),
            "batch_s": summary([sum(b.seconds.values()) for b in batches]),
            "stages_p50_s": _stages(batches),
        }

    def backlog(self, bundles: int, rounds: int, per_batch: int) -> dict[str, Any]:
        """Everything is there before the query starts."""
        settings, reports = self.settings(f"backlog{bundles}", per_batch), documents(bundles, random.Random(2))
        for _ in range(rounds):
            for key, value in reports:
                self.producer.send(settings.topic, key=key, value=value)
        self.producer.flush()
        done: list[tuple[float, BatchReport]] = []
        loads = start_loads(
            self.spark, replace(settings, trigger_ms=0), lambda b: done.append((time.time(), b)), available_now=True
        )
        loads.query.awaitTermination()
        counted = done[WARM_UP_BATCHES:]
        elapsed = counted[-1][0] - done[WARM_UP_BATCHES - 1][0]
        stats = sum(b.reports for _, b in counted) * bundles
        return {
            "brokers": BROKERS,
            "bundles": bundles,
            "batches": len(counted),
            "bundle_stats_per_s": round(stats / elapsed),
            "bytes_per_s": round(sum(b.reports for _, b in counted) * len(reports[0][1]) / elapsed),
            "stages_p50_s": _stages([b for _, b in counted]),
        }


def _stages(batches: list[BatchReport]) -> dict[str, float]:
    names = {name for b in batches for name in b.seconds}
    return {n: summary([b.seconds[n] for b in batches if n in b.seconds])["p50"] for n in sorted(names)}


def _wait(done: Any, seconds: float = 600) -> None:
    deadline = time.time() + seconds
    while not done():
        if time.time() > deadline:
            raise TimeoutError(f"the loads query did not catch up within {seconds} s")
        time.sleep(0.1)


def main() -> None:
    """Run both scenarios and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--writer", default="auto", choices=["auto", "delta_rs", "spark"])
    parser.add_argument("--skip-large", action="store_true")
    parser.add_argument("--no-figures", action="store_true", help="print only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder, EmbeddedKafka(Path(folder) / "kafka") as kafka:
        spark = build_session("loads-bench")
        bench = Bench(spark, kafka, Path(folder), arguments.writer)
        figures: dict[str, Any] = {"writer": arguments.writer, "steady_100": bench.steady(arguments.seconds)}
        if not arguments.skip_large:
            figures["backlog_1000"] = bench.backlog(1000, 20, 100)
        spark.stop()
    print(json.dumps(figures, indent=2))
    if not arguments.no_figures:
        print(write(f"loads_throughput_{arguments.writer}", figures))


if __name__ == "__main__":
    main()
