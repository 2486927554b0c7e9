"""A controller on a real Kafka and real tables without Spark: the real loop, tables and feed, without rounds.

Also the agent of a Pulsar cluster as a process of its own, and the settings that all of them share.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from prometheus_client import CollectorRegistry

from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.bus.reach import SourceSettings, read_reach
from controller.bus.topics import TopicNames
from controller.config.load import load_settings
from controller.config.policy_values import control_settings
from controller.config.settings import Settings
from controller.domain.state import ClusterState
from controller.ledger.tables import TableRoot
from controller.process.clock import boot_ms, wall_ms
from controller.process.paths import ROOT
from controller.service.feed import Feed
from controller.service.loop import Claim, Clocks, ControlLoop
from controller.service.metrics import ControlMetrics
from controller.service.reach import starting_offsets
from controller.service.records import Row
from controller.service.start import claim, first_entries, last_entries
from controller.service.tables import ControlTables
from tests.e2e.programs import BALLAST
from tests.e2e.waiting import wait_until

JOURNAL_ID = "ours"
BATCH_S = 0.1


class PlainController:
    """Holds the journal while it is entered. Leaving stops it in good order; `crash` does not."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._names = settings, TopicNames(settings.kafka.topic_prefix)
        self._rows: queue.SimpleQueue[Row] = queue.SimpleQueue()
        self._stopping, self._instance = threading.Event(), f"plain-{uuid.uuid4().hex[:8]}"
        self._thread = threading.Thread(target=self._run, name="plain-controller", daemon=True)

    @property
    def state(self) -> ClusterState:
        return self._loop.state

    def __enter__(self) -> PlainController:
        settings, names, metrics = self._settings, self._names, ControlMetrics(CollectorRegistry())
        bootstrap, control = settings.kafka.bootstrap_servers, control_settings(settings)
        self._tables = ControlTables(settings.tables.root, self._instance, settings, metrics, self._stopping)
        state = self._tables.load_state()
        identity = {"cluster_id": "test", "topic_ids": {}}
        first = first_entries(state, self._instance, wall_ms(), control, identity, JOURNAL_ID)
        state = claim(state, first, self._tables.commit)
        self._feed = Feed(
            JsonProducer(bootstrap, self._instance), names, self._instance, journal_id=JOURNAL_ID,
            tick_ms=500, repeat_ms=1_000, wall_ms=wall_ms,
        )  # fmt: skip
        clocks = Clocks(boot_ms, wall_ms)
        held = Claim(self._instance, state, identity)
        self._loop = ControlLoop(held, self._tables, self._feed, names, control, clocks, metrics)
        reach = read_reach(SourceSettings(bootstrap, names.control, {}))
        offsets = starting_offsets(reach, state.offsets, from_end=names.all_heartbeats)
        start = {(topic, int(part)): at for topic, parts in offsets.items() for part, at in parts.items()}
        self._reader = TopicReader(bootstrap, names.control, self._take, start=start, name="plain-controller-reader")
        self._reader.start()
        self._wait_for(reach, offsets)
        self._feed.start(state.seq)
        self._feed.publish(first)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._stopping.is_set():
            self.crash()
            state, unjournaled = self._loop.state, self._loop.unjournaled
            identity = {"cluster_id": "test", "topic_ids": {}}
            self._tables.commit(last_entries(state, self._instance, 0, wall_ms(), unjournaled, identity))
        assert self._loop.failure is None, self._loop.failure

    def crash(self) -> None:
        """End without a word in the journal."""
        self._stopping.set()
        self._thread.join(60)
        self._reader.stop()
        self._feed.stop()

    def _wait_for(self, reach: dict, offsets: dict) -> None:  # type: ignore[type-arg]
        """Spark's first batch has all that was there before it began."""
        there = sum(
            max(0, part.end - offsets[topic][number])
            for topic, parts in reach.items()
            for number, part in parts.items()
        )
        wait_until(lambda: self._rows.qsize() >= there, 60)

    def _take(self, records: list[KafkaRecord]) -> None:
        for record in records:
            self._rows.put(Row(*record))

    def _collect(self) -> Sequence[Row]:
        found = []
        while not self._rows.empty():
            found.append(self._rows.get())
        return found

    def _run(self) -> None:
        batch = 0
        while not self._stopping.is_set() and self._loop.failure is None:
            self._loop.process(self._collect, batch)
            batch += 1
            time.sleep(BATCH_S)


def write_settings(folder: Path, bootstrap: str, names: TopicNames, service_urls: Sequence[str]) -> Path:
    """A configuration file for controller, agent and commands."""
    file = folder / "ballast.yaml"
    file.write_text(
        f"kafka:\n  bootstrap_servers: '{bootstrap}'\n  topic_prefix: '{names.prefix}'\n"
        f"tables:\n  root: {folder}/tables\n  checkpoints: {folder}/checkpoints\n"
        f"http:\n  agent_port: 0\n"
        f"pulsar_cluster:\n  service_urls: {list(service_urls)}\n"
    )
    settings = load_settings(file, env={})
    TableRoot(settings.tables.root).create_all()
    return file


@contextmanager
def cluster_agent(conf: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`ballast agent --runtime pulsar` as a process; its log is beside the configuration."""
    with (conf.parent / "agent.log").open("wb") as log:
        agent = subprocess.Popen(
            [*BALLAST, "agent", "--runtime", "pulsar", "--conf", str(conf)], stdout=log, stderr=log, cwd=ROOT
        )
        try:
            yield agent
        finally:
            agent.terminate()
            agent.wait(60)
