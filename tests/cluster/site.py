"""The job on the cluster as an operator submits it, the reports that it reads, and what its tables hold of them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from controller.bus.topics import TopicNames
from controller.ledger.tables import TableRoot
from controller.testbed.kafka import EmbeddedKafka
from tests.spark.job_process import Job
from tests.spark.loads.loads_samples import report

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
            add_bytes_in(self.sums, document)
            self._producer.send(self._topic, key=broker.encode(), value=json.dumps(document).encode())
            self.sent += 1
        self._producer.flush()


def add_bytes_in(sums: dict[str, float], document: dict[str, Any]) -> None:
    """What panes get of a report, by bundle."""
    tail = [{**document["tail"], "bundle": "tail"}] if document["tail"] else []
    for row in [*document["bundles"], *tail]:
        sums[row["bundle"]] = sums.get(row["bundle"], 0.0) + row["throughput_in"]


class Site:
    """The job on the cluster, and what its tables hold."""

    def __init__(self, folder: Path, spark_conf: Path) -> None:
        self.folder, self._spark_conf = folder, spark_conf
        self.root = TableRoot(folder / "tables")
        self.jobs: list[Job] = []

    def use(self, root: TableRoot, loads: str = "") -> None:
        """Tables elsewhere; `loads`: more settings of that section."""
        options = ", ".join(f"{name}: '{value}'" for name, value in root.storage_options.items())
        file, self.root = self.folder / "ballast.yaml", root
        text = file.read_text().replace("root: tables,", f"root: '{root.root}', storage_options: {{{options}}},")
        file.write_text(text.replace("loads: {", f"loads: {{{loads}, ") if loads else text)

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


def check_exact(site: Site, reports: Reports) -> None:
    """Every report once: rows and sums."""
    site.wait(lambda: site.counted() >= reports.sent, f"{reports.sent} reports")
    assert site.counted() == reports.sent
    assert site.sums() == pytest.approx(reports.sums)
