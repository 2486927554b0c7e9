"""The loads query on workers that share nothing with the driver: nothing is lost or counted twice, whoever dies."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaProducer

from controller.bus.topics import TopicNames
from controller.domain.load import BUNDLE_FIELDS
from controller.ledger.tables import TableRoot
from controller.process.paths import ROOT
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.spark_cluster import SparkCluster
from tests.cluster.workers import CORES, NOBODY, WORKERS, files_in_use, processes_of, user_of_workers
from tests.installed import Installed
from tests.spark.job_process import Job
from tests.spark.loads.loads_samples import report

FIELD = BUNDLE_FIELDS.index("throughput_in")
WAIT_S = 180.0


class Reports:
    """Load reports of four brokers, and what panes must add up to."""

    def __init__(self, kafka: EmbeddedKafka, topics: TopicNames) -> None:
        self._producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all")
        self._topic = topics.load_reports
        self._dice = random.Random(7)
        self.sent = 0
        self.sums: dict[str, float] = {}  # of bytes in, by bundle, the tail included

    def send(self, count: int) -> None:
        """Some more, acknowledged by Kafka when this returns."""
        for _ in range(count):
            broker = f"b{self.sent % 4}:8080"
            document = report(broker, self.sent, self._dice.sample(range(20), 5), self._dice)
            for row in [*document["bundles"], {**document["tail"], "bundle": "tail"}]:
                self.sums[row["bundle"]] = self.sums.get(row["bundle"], 0.0) + row["throughput_in"]
            self._producer.send(self._topic, key=broker.encode(), value=json.dumps(document).encode())
            self.sent += 1
        self._producer.flush()


class Site:
    """The job on the cluster, and what its tables hold."""

    def __init__(self, folder: Path, spark_conf: Path) -> None:
        self.folder, self._spark_conf = folder, spark_conf
        self.root = TableRoot(folder / "tables")
        self.jobs: list[Job] = []

    def start(self) -> Job:
        """The loads query alone, submitted as an operator does."""
        self.jobs.append(Job(self.folder, "--only", "loads", "--spark-conf", str(self._spark_conf)))
        return self.jobs[-1]

    def counted(self) -> int:
        """Reports in the panes of brokers, which a batch writes last."""
        if not self.root.exists("broker_panes"):
            return 0
        return sum(self.root.open("broker_panes").to_pyarrow_table(columns=["reports"])["reports"].to_pylist())

    def sums(self) -> dict[str, float]:
        """Bytes in by bundle, over all panes."""
        rows = self.root.open("bundle_panes").to_pyarrow_table().to_pylist()
        result: dict[str, float] = {}
        for row in rows:
            result[row["bundle"]] = result.get(row["bundle"], 0.0) + row["throughput_in_sum"]
        return result

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Until it is so. Fails with the job's log, when it ended or takes too long."""
        deadline = time.monotonic() + WAIT_S
        while not done():
            assert self.jobs[-1].alive, f"the job ended: {self.jobs[-1].said()[-4000:]}"
            assert time.monotonic() < deadline, f"{what} did not come: {self.jobs[-1].said()[-4000:]}"
            time.sleep(0.2)


@pytest.fixture
def reports(kafka: EmbeddedKafka, topics: TopicNames) -> Reports:
    return Reports(kafka, topics)


@pytest.fixture
def site(folder: Path, spark_conf: Path) -> Iterator[Site]:
    made = Site(folder, spark_conf)
    yield made
    for job in made.jobs:
        job.end()


def check_exact(site: Site, reports: Reports) -> None:
    """Every report once: rows and sums."""
    site.wait(lambda: site.counted() >= reports.sent, f"{reports.sent} reports")
    assert site.counted() == reports.sent
    assert site.sums() == pytest.approx(reports.sums)


def test_reports_are_summed_by_workers_who_know_nothing_of_the_driver(
    cluster: SparkCluster, far: Installed, site: Site, reports: Reports
) -> None:
    reports.send(60)
    job = site.start()
    check_exact(site, reports)
    engine = f"at {cluster.url}, {WORKERS} executors, {WORKERS * CORES} cores"
    site.wait(lambda: engine in job.said(), "the line that says what it runs on")
    theirs = processes_of(user_of_workers())
    used = {name for process in theirs for name in files_in_use(process)}
    assert any(str(far.environment) in name for name in used), "nothing runs in the workers' environment"
    if user_of_workers() == NOBODY:
        assert not [name for name in used if name.startswith(f"{ROOT}/")]
    assert job.stop() == 0


def test_a_worker_that_dies_in_a_batch_and_one_that_joins(cluster: SparkCluster, site: Site, reports: Reports) -> None:
    site.start()
    reports.send(40)
    site.wait(lambda: site.counted() >= 40, "the first reports")
    reports.send(400)  # ten batches
    site.wait(lambda: site.counted() >= 80, "some of many batches")
    cluster.kill_worker(1)
    reports.send(100)
    cluster.start_worker(3)
    reports.send(100)
    check_exact(site, reports)
    site.wait(lambda: sum(worker.alive for worker in cluster.workers()) == 2, "the new worker")
    cluster.start_worker(1)


def test_a_driver_that_dies_goes_on_where_it_was(site: Site, reports: Reports) -> None:
    first = site.start()
    reports.send(300)
    site.wait(lambda: site.counted() >= 80, "some of many batches")
    os.killpg(first.process.pid, signal.SIGKILL)
    first.wait()
    reports.send(100)
    site.start()
    check_exact(site, reports)


def test_tables_in_an_object_store_get_every_report_once(
    site: Site, reports: Reports, folder: Path, root: TableRoot
) -> None:
    """Workers see neither its credentials nor the tables: the driver writes, conditionally."""
    options = ", ".join(f"{name}: '{value}'" for name, value in root.storage_options.items())
    file = folder / "ballast.yaml"
    file.write_text(file.read_text().replace("root: tables,", f"root: '{root.root}', storage_options: {{{options}}},"))
    site.root = root
    site.start()
    reports.send(100)
    check_exact(site, reports)
