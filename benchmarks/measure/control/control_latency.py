"""Measures the time from sending an event to applying its journal entry. `python -m benchmarks control_latency`

Events are commands (`create_topic`), sent one at a time at random intervals. A follower reads the journal feed like an
agent and applies entries in order. The time starts before the record is passed to the Kafka client and ends when the
entry that answers it is applied, in one process and on one clock.

`control_latency` measures the control query alone, and with load: 50 simulated brokers of 100 bundles each that report
every 5 s, and 50 heartbeats a second. `control_scale` measures the control query of a large cluster: 1,000 heartbeats
and 100 inventories a second, 100,000 owned bundles. The process that simulates the brokers takes a core's share.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure.control.latency_chain import Chains
from benchmarks.measure.figures import summary
from benchmarks.measure.loads.loaded import Load, start_loaded_cluster
from benchmarks.measure.result import NotMeasured, Result, Target
from controller.agent.feed import parse_feed
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.config.settings import Settings
from controller.domain.events import VERSION
from controller.ledger.follower import Follower
from controller.process.clock import wall_ms
from controller.testbed.local_cluster import LocalCluster

NAMESPACE = "bench/latency"
TARGETS = [
    Target("control_alone.latency_s.p50", 0.4, "s"),
    Target("control_alone.latency_s.p99", 1.0, "s"),
    Target("with_loads.latency_s.p50", 0.7, "s"),
    Target("with_loads.latency_s.p99", 2.0, "s"),
]
TARGETS_LARGE = [Target("latency_s.p99", 1.0, "s")]
THOUSAND = Load(brokers=1_000, bundles=100, report_s=60.0)  # nobody reads the reports: the loads query does not run
PATIENCE_S = 60.0  # until the last entries arrive


@dataclass(frozen=True, slots=True)
class Options:
    """The size of a run. `pause_s`: minimum and maximum time between two events."""

    events: int = 210
    pause_s: tuple[float, float] = (0.2, 1.2)
    warm_up_s: float = 20.0
    load: Load | None = None
    only: str | None = None
    seed: int = 3


class FeedFollower:
    """Applies the feed in order, as an agent does.

    `applied_at_s`: by command id, on CLOCK_MONOTONIC. `moments`: by command id, when it was read and applied, in ms of
    the wall clock.
    """

    def __init__(self, settings: Settings) -> None:
        self.applied_at_s: dict[str, float] = {}
        self.moments: dict[str, tuple[float, float]] = {}
        self._follower = Follower(settings.tables.root)
        self._lock = threading.Lock()
        names, kafka = settings.kafka.topics, settings.kafka
        self._reader = TopicReader(
            kafka.bootstrap_servers, [names.journal_feed], self._take, settings=kafka.client, name="bench-ear"
        )

    def __enter__(self) -> FeedFollower:
        self._reader.start()
        with self._lock:
            self._follower.bootstrap()
        return self

    def __exit__(self, *exc: object) -> None:
        self._reader.stop()

    def _take(self, records: Sequence[KafkaRecord]) -> None:
        with self._lock:
            for record in records:
                heard_ms = time.time() * 1000
                feed = parse_feed(record.value)
                self._follower.hear(feed.seq)
                applied = self._follower.offer(feed.entries)
                if self._follower.behind:  # the feed has a gap, which the table fills
                    applied += self._follower.catch_up()
                now_s = time.monotonic()
                for entry in applied:
                    if entry.command_id is not None:
                        self.applied_at_s.setdefault(entry.command_id, now_s)
                        self.moments.setdefault(entry.command_id, (heard_ms, time.time() * 1000))


def run(folder: Path, quick: bool = False) -> Result:
    """Measure both scenarios of a small cluster."""
    small = Options(events=15, warm_up_s=5.0, load=Load(10, 20))
    alone = Options(events=15, warm_up_s=5.0, only="control") if quick else Options(only="control")
    loaded = small if quick else Options(load=Load())
    figures = {"control_alone": measure(folder / "alone", alone), "with_loads": measure(folder / "loads", loaded)}
    return Result("control_latency", figures, TARGETS)


def run_large(folder: Path, quick: bool = False) -> Result:
    """Measure the large cluster."""
    small = Options(events=15, warm_up_s=5.0, only="control", load=Load(20, 20))
    figures = measure(folder / "large", small if quick else Options(only="control", load=THOUSAND))
    return Result("control_scale", figures, TARGETS_LARGE)


def measure(folder: Path, options: Options) -> dict[str, Any]:
    """Measure one scenario."""
    with start_loaded_cluster(folder, options.load, options.only, options.warm_up_s) as cluster:
        cluster.command("create_namespace", namespace=NAMESPACE, bundles=4)
        latencies = ask(cluster, options)
    return {"load": options.load.figures() if options.load else None, "latency_s": summary(latencies)}


def ask(cluster: LocalCluster, options: Options, chains: Chains | None = None) -> list[float]:
    """Send events at random intervals; return the seconds until each was applied. `chains` takes their moments."""
    settings, dice = cluster.settings, random.Random(options.seed)
    names, kafka = settings.kafka.topics, settings.kafka
    producer = JsonProducer(kafka.bootstrap_servers, "bench-events", kafka.client)
    sent_at_s: dict[str, float] = {}
    with FeedFollower(settings) as ear:
        for number in range(options.events):
            time.sleep(dice.uniform(*options.pause_s))
            identity = uuid.uuid4().hex
            args = {"topic": f"persistent://{NAMESPACE}/t-{number}"}
            record = {"v": VERSION, "id": identity, "kind": "create_topic", "args": args, "sent_ms": wall_ms()}
            if chains is not None:
                chains.event(identity).sent = time.time() * 1000
            sent_at_s[identity] = time.monotonic()
            producer.send(names.commands, record, key=identity)
        _wait_for(ear, sent_at_s)
    producer.close()
    if chains is not None:
        for identity in sent_at_s:
            event = chains.event(identity)
            event.heard, event.applied = ear.moments[identity]
    return [ear.applied_at_s[identity] - at_s for identity, at_s in sent_at_s.items()]


def _wait_for(ear: FeedFollower, sent_at_s: dict[str, float]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not sent_at_s.keys() <= ear.applied_at_s.keys():
        if time.monotonic() > deadline:
            missing = len(sent_at_s.keys() - ear.applied_at_s.keys())
            raise NotMeasured(f"{missing} of {len(sent_at_s)} events were not applied within {PATIENCE_S:g} s")
        time.sleep(0.05)
