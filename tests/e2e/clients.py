"""Client processes of one test: producers and readers over sockets, their progress, and the audit of what they saw."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from controller.process.children import Child
from controller.testbed.checker.checker import CheckReport, check_store
from controller.testbed.checker.logs import ClientRecords, Delivery, count_unread, read_logs
from controller.testbed.demo.workload import CONSUMER, PRODUCER
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.waiting import wait_until

PATIENCE_S = 180.0  # only a hang takes so long


class Clients:
    """Clients of one test on a cluster that may have others; ended by `finish` or at the end of the `with`."""

    def __init__(self, cluster: LocalCluster, label: str) -> None:
        self.cluster = cluster
        self.label = label
        self.producers: list[Child] = []
        self.readers: list[Child] = []
        self.logs: dict[str, Path] = {}

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *exc: object) -> None:
        for child in (*self.producers, *self.readers):
            child.kill()

    def read(self, name: str, kind: str, topics: Iterable[str], subscription: str | None = None) -> Child:
        """A reader process. A subscription begins with the topic's first message, however late the reader is."""
        more = ["--subscription", subscription or name, "--type", kind]
        child = self._start(name, CONSUMER, [*more, *(word for topic in topics for word in ("--topic", topic))])
        self.readers.append(child)
        return child

    def send(self, rates: Mapping[str, float], size_bytes: int = 200) -> Child:
        """One producer process for all topics; rates in messages/s."""
        child = self._start(f"producer{len(self.producers)}", PRODUCER, ["--size", str(size_bytes)])
        self.producers.append(child)
        set_rates(child, rates)
        return child

    def records(self, *names: str) -> ClientRecords:
        """What the clients' logs say by now; without names, all of them."""
        chosen = names or tuple(self.logs)
        return read_logs([self.logs[name] for name in chosen if self.logs[name].exists()])

    def acked(self) -> Counter[str]:
        """Messages acknowledged to producers so far, by topic."""
        found: Counter[str] = Counter()
        for (topic, _), cursor in self.records(*self._producer_names()).acked.items():
            found[topic] += cursor.size
        return found

    def wait_for_progress(self, topics: Iterable[str], more: int = 5) -> None:
        """Until every topic has got that many more acknowledgements than now."""
        before, topics = self.acked(), list(topics)

        def progressed() -> bool:
            now = self.acked()
            return all(now[topic] >= before[topic] + more for topic in topics)

        wait_until(progressed, PATIENCE_S, 0.2)

    def delivered(self, name: str) -> int:
        """Messages that a reader has written down, repeated deliveries included."""
        consumptions = [c for each in self.records(name).consumed.values() for c in each]
        return sum(e.high - e.low for c in consumptions for e in c.events if isinstance(e, Delivery))

    def finish(self) -> CheckReport:
        """Producers stop and get their acknowledgements, readers read the rest, the auditor judges all of it."""
        for child in self.producers:
            assert child.stop(60) == 0, child.last_words()
        wait_until(lambda: not count_unread(self.records()), PATIENCE_S, 0.3)
        for child in self.readers:
            child.terminate()
        for child in self.readers:
            assert child.wait(30) == 0, child.last_words()
        return check_store(self.cluster.folder / "store", self.logs.values(), drained=True)

    def _producer_names(self) -> list[str]:
        return [f"producer{number}" for number in range(len(self.producers))]

    def _start(self, name: str, program: tuple[str, ...], more: list[str]) -> Child:
        full = f"{self.label}-{name}"
        log = self.logs[name] = self.cluster.folder / "clients" / f"{full}.jsonl"
        lookups = self.cluster.client_options()
        return self.cluster.start(full, [*program, *lookups, "--name", full, *more, "--log", str(log)], stdin=True)


def set_rates(producer: Child, rates: Mapping[str, float]) -> None:
    """Change what a producer process sends; topics left out go on as they were."""
    for topic, rate in rates.items():
        producer.tell(json.dumps({"topic": topic, "rate": rate}))


def assert_nothing_lost(report: CheckReport) -> None:
    """I1 and I5, and that the audit had something to judge."""
    assert report.ok, report.findings
    assert report.messages_written > 0
    assert report.messages_read >= report.messages_written
