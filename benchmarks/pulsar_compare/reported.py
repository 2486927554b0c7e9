"""The CPU that brokers report to Pulsar's balancers: usage and limit, with either load manager.

The modular manager answers it (`broker-stats/load-report`). The extensible one publishes it, when it has changed, on a
non-persistent topic of its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from benchmarks.pulsar_compare.samples import Cpu
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.traffic.library import import_pulsar

LOAD_TOPIC = "non-persistent://pulsar/system/loadbalancer-broker-load-data"
LOAD_REPORT = "/admin/v2/broker-stats/load-report"


class ReportedCpu(Protocol):
    """Reads the newest figures."""

    def read(self, brokers: Sequence[str]) -> dict[str, Cpu]:
        """By broker, of those that have said something."""
        ...


@contextmanager
def make_reported_cpu(cluster: PulsarCluster) -> Iterator[ReportedCpu]:
    """The reader for the load manager of the cluster."""
    if cluster.spec.manager == "modular":
        yield _LoadReports(cluster)
        return
    pulsar, published = import_pulsar(), _Published(cluster)
    client = pulsar.Client(cluster.client_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        client.create_reader(LOAD_TOPIC, pulsar.MessageId.latest, reader_listener=published.on_message)
        yield published
    finally:
        client.close()


class _LoadReports:
    def __init__(self, cluster: PulsarCluster) -> None:
        self._cluster = cluster

    def read(self, brokers: Sequence[str]) -> dict[str, Cpu]:
        """Ask each broker."""
        found = {}
        for name in brokers:
            answer = self._cluster.admin.request("GET", name, LOAD_REPORT)
            if answer.status_code == 200:
                cpu = answer.json()["cpu"]
                found[name] = Cpu(round(float(cpu["usage"]), 2), round(float(cpu["limit"]), 2))
        return found


class _Published:
    def __init__(self, cluster: PulsarCluster) -> None:
        self._names = {cluster.spec.broker_id(name): name for name in cluster.spec.broker_names}
        self._newest: dict[str, Cpu] = {}
        self._lock = threading.Lock()

    def on_message(self, reader: Any, message: Any) -> None:
        """Note one broker's figures; an empty message takes them back."""
        name = self._names.get(message.partition_key())
        if name is None:
            return
        with self._lock:
            self._newest.pop(name, None)
            if message.data():
                cpu = json.loads(message.data())["cpu"]
                self._newest[name] = Cpu(round(float(cpu["usage"]), 2), round(float(cpu["limit"]), 2))

    def read(self, brokers: Sequence[str]) -> dict[str, Cpu]:
        """What was published last."""
        with self._lock:
            return {name: self._newest[name] for name in brokers if name in self._newest}
