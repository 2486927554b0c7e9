"""Moves at a steady rate in a running cluster: unload commands, sent without waiting for their answers.

Each is worth five journal entries beside the offsets: the command, transferring, releasing, released, owned.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid

from controller.bus.producer import JsonProducer
from controller.bus.topics import TopicNames
from controller.process.clock import wall_ms
from controller.testbed.local_cluster import LocalCluster

ENTRIES_A_MOVE = 5


class Pressure:
    """A thread that unloads bundle after bundle, `moves_per_s` of them."""

    def __init__(self, cluster: LocalCluster, bundles: list[str], moves_per_s: float) -> None:
        kafka = cluster.settings.kafka
        self.sent = 0
        self._topic = TopicNames(kafka.topic_prefix).commands
        self._producer = JsonProducer(kafka.bootstrap_servers, "soak", kafka.client)
        self._bundles = itertools.cycle(bundles)
        self._pause_s = 1 / moves_per_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pressure", daemon=True)

    def __enter__(self) -> Pressure:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(10)
        self._producer.close()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due += self._pause_s
            record = {"v": 1, "id": uuid.uuid4().hex, "kind": "unload_bundle", "args": {"bundle": next(self._bundles)}}
            self._producer.send(self._topic, {**record, "who": "soak", "why": "soak", "sent_ms": wall_ms()})
            self.sent += 1
