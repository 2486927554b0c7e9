"""Publishes the controller's records on Kafka: ticks, the entries of each commit, and the newest seq periodically.

The feed is a hint, never the truth: an agent that misses a record sees the gap in `seq` and reads the journal's table.
So nothing here blocks or fails a batch: the producer logs failed records, `troubles` names the topics that take none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.domain.entries import Entry
from controller.domain.errors import few_text
from controller.process import clock

EngineRow = Mapping[str, str | int]  # spark (its version), master, executors, cores
UNTAKEN_MS = 30_000  # without an acknowledgement for this long, a topic is a trouble
ENTRIES_PER_RECORD = 1_000  # some 300 kB; Kafka accepts up to 8 MiB, and a mass failover writes 50,000 entries


class Feed:
    """Publishes for one controller instance, from `start` to `stop`. Thread-safe."""

    def __init__(
        self,
        producer: JsonProducer,
        names: TopicNames,
        instance: str,
        *,
        journal_id: str | None,
        tick_ms: int,
        repeat_ms: int,
        wall_ms: Callable[[], int],
        engine: Callable[[], EngineRow | None] = lambda: None,
        boot_ms: Callable[[], int] = clock.boot_ms,
    ) -> None:
        """`tick_ms`: interval of ticks on every heartbeats topic; `repeat_ms`: interval of records with the newest
        seq. `engine`: what the controller runs on, if that is known; called in the ticking thread."""
        self.seq = 0
        self._producer = producer
        self._names = names
        self._instance = instance
        self._who: dict[str, Any] = {"instance": instance, "journal_id": journal_id}
        self._tick_ms = tick_ms
        self._repeat_ms = repeat_ms
        self._wall_ms, self._boot_ms = wall_ms, boot_ms
        self._engine = engine
        self._engine_row: EngineRow | None = None
        self._taken_ms: dict[str, int] = {}  # topic -> when Kafka last acknowledged a record
        self._stopping = threading.Event()
        self._poked = threading.Event()
        self._thread = threading.Thread(target=self._run, name="controller-tick", daemon=True)

    def start(self, seq: int) -> None:
        """Start ticking; `seq` is that of the newest journal entry."""
        self.seq = seq
        self._taken_ms = dict.fromkeys((self._names.journal_feed, *self._names.all_heartbeats), self._boot_ms())
        self._thread.start()

    def publish(self, entries: Sequence[Entry]) -> None:
        """Send the entries of a commit, in order, right after the commit."""
        for start in range(0, len(entries), ENTRIES_PER_RECORD):
            rows = [entry.to_row() for entry in entries[start : start + ENTRIES_PER_RECORD]]
            self._publish({"entries": rows})
        if entries:
            self.seq = entries[-1].seq

    def poke(self) -> None:
        """Tick now, to cause a batch that no record from outside would cause: for a finished round, or a lease."""
        self._poked.set()

    def troubles(self) -> list[str]:
        """Which topics Kafka takes no records for; empty if there are none."""
        silent_ms = {topic: self._boot_ms() - taken_ms for topic, taken_ms in self._taken_ms.items()}
        most_ms = max(UNTAKEN_MS, 3 * self._repeat_ms)  # in a quiet cluster the feed has no other record
        silent = [topic for topic, ms in silent_ms.items() if ms > most_ms]
        if not silent:
            return []
        return [f"feed: Kafka has taken no record on {few_text(silent)} for {max(silent_ms.values()) // 1000} s"]

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop ticking and deliver queued records."""
        self._stopping.set()
        self._poked.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._producer.close(timeout_s)

    def _run(self) -> None:
        since_repeat_ms = self._repeat_ms
        while not self._stopping.is_set():
            self._poked.clear()
            self._tick()
            if since_repeat_ms >= self._repeat_ms:
                self._engine_row = self._engine()
                self._publish({"seq": self.seq})
                since_repeat_ms = 0
            self._poked.wait(self._tick_ms / 1000)
            since_repeat_ms += self._tick_ms

    def _publish(self, what: Mapping[str, Any]) -> None:
        self._send(self._names.journal_feed, {"v": 1, **self._who, **what, "engine": self._engine_row})

    def _tick(self) -> None:
        record = {"v": 1, "kind": "tick", **self._who, "seq": self.seq, "sent_ms": self._wall_ms()}
        record["boot_ms"] = self._boot_ms()
        for topic in self._names.all_heartbeats:
            self._send(topic, record, key=self._instance)

    def _send(self, topic: str, record: Mapping[str, Any], key: str | None = None) -> None:
        self._producer.send(topic, record, key=key).add_done_callback(partial(self._note_taken, topic))

    def _note_taken(self, topic: str, sent: Future[tuple[int, int]]) -> None:
        if sent.exception() is None:
            self._taken_ms[topic] = self._boot_ms()
