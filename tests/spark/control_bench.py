"""What the control query's tests share: a controller in this process on real Kafka and Delta, and a hand for agents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.config.sections.control import Control, Rounds
from controller.config.sections.platform import Kafka, Tables
from controller.config.settings import Settings
from controller.domain.apply import fold
from controller.domain.entries import Entry
from controller.domain.state import ClusterState
from controller.ledger.journal_rows import entries_since
from controller.ledger.tables import TableRoot
from controller.service.arguments import parse_arguments
from jobs.control_runner import ControlRunner

TIMEOUT_S = 120.0  # only a hang takes so long


def settings_for(folder: Path, bootstrap: str, names: TopicNames, **control: Any) -> Settings:
    """Tables and checkpoints below the folder; short leases, so that a test need not wait long."""
    return Settings(
        kafka=Kafka(bootstrap_servers=bootstrap, topic_prefix=names.prefix),
        tables=Tables(root=str(folder / "tables"), checkpoints=str(folder / "checkpoints")),
        control=Control(**{"lease_ms": 4_000, **control}),
        rounds=Rounds(mode="live", strategy="headroom", round_interval_s=10),
    )


class Agents:
    """Speaks for brokers: a line on Kafka for each word of an agent."""

    def __init__(self, bootstrap: str, names: TopicNames) -> None:
        self._names = names
        self._producer = JsonProducer(bootstrap, "test-agents")

    def heartbeat(self, broker: str, applied_seq: int = 0, session: int = 1) -> None:
        info = {"runtime": "reference", "can_fence": True, "capacity": {}}
        self._send(self._names.heartbeats, broker, applied_seq=applied_seq, session=session, info=info)

    def event(self, kind: str, broker: str, **fields: Any) -> None:
        self._send(self._names.broker_events, broker, kind=kind, **fields)

    def assign_request(self, broker: str, bundle: str) -> None:
        self._producer.send(self._names.assign_requests, {"v": 1, "broker": broker, "bundle": bundle}, key=bundle)

    def command(self, id: str, kind: str, **args: Any) -> None:
        self._producer.send(self._names.commands, {"v": 1, "id": id, "kind": kind, "args": args, "who": "t"}, key=id)

    def raw(self, topic: str, value: bytes) -> None:
        self._producer.send_bytes(topic, value)

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()

    def _send(self, topic: str, broker: str, **fields: Any) -> None:
        who = {"broker": broker, "incarnation": 1, "nonce": "n1", "session": 1, "applied_seq": 0}
        self._producer.send(topic, {"v": 1, **who, **fields}, key=broker)


class Heartbeats:
    """Keeps brokers alive from a thread of its own."""

    def __init__(self, agents: Agents, *brokers: str) -> None:
        self.brokers = set(brokers)
        self._agents = agents
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Heartbeats:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            for broker in sorted(self.brokers):
                self._agents.heartbeat(broker)


class Journal:
    """The journal as an agent sees it, with every entry kept."""

    def __init__(self, settings: Settings) -> None:
        self._tables = TableRoot(settings.tables.root)
        self._state = ClusterState()
        self.entries: list[Entry] = []

    @property
    def state(self) -> ClusterState:
        self._catch_up()
        return self._state

    def of_kind(self, kind: str) -> list[Entry]:
        self._catch_up()
        return [entry for entry in self.entries if entry.kind.value == kind]

    def wait(self, holds: Callable[[ClusterState], bool], what: str, timeout_s: float = TIMEOUT_S) -> ClusterState:
        deadline = time.monotonic() + timeout_s
        while not holds(self.state):
            assert time.monotonic() < deadline, f"{what}: not after {timeout_s:g} s; seq {self._state.seq}"
            time.sleep(0.05)
        return self._state

    def _catch_up(self) -> None:
        """From the very first entry: a follower's bootstrap would hide what is below the base snapshot."""
        if self._tables.exists("journal"):
            fresh = entries_since(self._tables.handle("journal"), self._tables.log("journal"), self._state.seq)
            self._state = fold(self._state, fresh)
            self.entries += fresh


class Controller:
    """A `ControlRunner` with the settings of a test."""

    def __init__(self, settings: Settings, spark: SparkSession, *arguments: str) -> None:
        self.registry = CollectorRegistry()
        self.part = ControlRunner(settings, parse_arguments(arguments), self.registry, threading.Event())
        self._spark = spark

    def __enter__(self) -> Controller:
        self.part.start(self._spark)
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        self.part.stop(clean=kind is None)

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0
