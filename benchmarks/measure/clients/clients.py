"""Clients of the measured topics: one producer process and one reader process, with logs for the checker.

There is one topic per bundle, so that the hand-over of a bundle is one gap in the producer's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from controller.domain.ids import Bundle, topic_hash
from controller.domain.ring import initial_bundles, locate
from controller.process.children import Child
from controller.testbed.checker.checker import CheckReport, check_store
from controller.testbed.checker.logs import read_logs, wait_until_read
from controller.testbed.demo.workload import CONSUMER, PRODUCER
from controller.testbed.local_cluster import LocalCluster

PAYLOAD_BYTES = 200


def topic_in(bundle: Bundle, ring: tuple[Bundle, ...]) -> str:
    """The first of the topics `t-0`, `t-1`, … whose hash is in the bundle."""
    for number in range(1_000_000):
        topic = f"persistent://{bundle.namespace}/t-{number}"
        if locate(ring, topic_hash(topic)) == bundle:
            return topic
    raise ValueError(f"no topic found for {bundle}: is it a bundle of its ring?")


def one_topic_a_bundle(namespace: str, bundles: int) -> dict[str, Bundle]:
    """Topic -> bundle, for a namespace created with `bundles` bundles."""
    ring = tuple(initial_bundles(namespace, bundles))
    return {topic_in(bundle, ring): bundle for bundle in ring}


class Clients:
    """A producer and a reader of some topics. Call `start`, `stop`, then `check`."""

    def __init__(self, cluster: LocalCluster, topics: Iterable[str], rate_per_s: float) -> None:
        self.cluster = cluster
        self.topics = list(topics)
        self.rate_per_s = rate_per_s  # of each topic
        self.producer_log = cluster.folder / "clients" / "producer.jsonl"
        self.reader_log = cluster.folder / "clients" / "reader.jsonl"
        self._producer: Child | None = None
        self._reader: Child | None = None

    def start(self) -> None:
        """Start the reader, then the producer, so that nothing is sent before the subscription exists."""
        topics = [word for topic in self.topics for word in ("--topic", topic)]
        named = ["--name", "bench-reader", "--subscription", "audit"]
        self._reader = self._client("reader", CONSUMER, [*named, *topics], self.reader_log)
        named = ["--name", "bench-producer", "--size", str(PAYLOAD_BYTES), "--rate", str(self.rate_per_s)]
        self._producer = self._client("producer", PRODUCER, [*named, *topics], self.producer_log)

    def stop(self, drain_s: float = 120.0) -> dict[str, Any]:
        """Stop the producer once everything is acknowledged, the reader once it has read everything.

        Return the producer's summary.
        """
        assert self._producer is not None
        assert self._reader is not None
        self._producer.stop(60)
        wait_until_read([self.producer_log, self.reader_log], drain_s)
        self._reader.stop(60)
        summaries = read_logs([self.producer_log]).summaries
        return dict(summaries[-1]) if summaries else {}

    def gaps(self) -> list[Mapping[str, Any]]:
        """Every change of owner that the producer saw: topic, from, to, cause, gap_ms, at (boot clock, ms)."""
        return list(read_logs([self.producer_log]).gaps)

    def check(self) -> CheckReport:
        """Check the store against the clients' logs. Call after `stop`."""
        return check_store(self.cluster.folder / "store", [self.producer_log, self.reader_log], drained=True)

    def _client(self, name: str, program: tuple[str, ...], more: list[str], log: Path) -> Child:
        lookups = self.cluster.client_options()
        return self.cluster.start(name, [*program, *lookups, *more, "--log", str(log)], stdin=True)


def check_figures(report: CheckReport) -> dict[str, int]:
    """The counts of a check that are stored with the times."""
    return {
        "written": report.messages_written,
        "read": report.messages_read,
        "lost": report.messages_lost,
        "duplicated": report.messages_duplicated,
        "reordered": report.messages_reordered,
        "redelivered": report.redelivered,
        "fence_violations": report.fence_violations,
    }


def problems_of(report: CheckReport) -> list[str]:
    """Findings that invalidate the run; empty if the invariants held."""
    return [] if report.ok else (report.findings[:10] or ["the check failed without a finding"])
