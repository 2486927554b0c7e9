"""`python -m benchmarks.measure.loads.load_generator`: one process that sends the records of a simulated fleet.

It creates the fleet's namespaces and requests their bundles. It sends heartbeats (one per second and broker), load
reports (every 5 s), inventories (every 10 s, or as configured) and answers to grants, each spread evenly over its
interval, to 20 ms, like real agents. It prints `fleet ready` once all its bundles are owned, and ends on SIGTERM. With
`--owned` they are from the beginning: it writes that into the tables before a controller starts.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure.loads.fleet import Fleet, SimulatedBroker
from benchmarks.measure.loads.owned import write_owned
from controller.agent.feed import parse_feed
from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.producer import JsonProducer
from controller.config.load import load_settings
from controller.config.settings import Settings
from controller.config.table_root import table_root
from controller.domain.entries import Entry
from controller.domain.events import VERSION
from controller.domain.ownership import State
from controller.ledger.follower import Follower
from controller.process.clock import wall_ms

HEARTBEAT_S, REQUEST_S = 1.0, 3.0
CATCH_UP_S = 0.5
GATHER_S = 0.02
REQUESTS_AT_ONCE = 5_000


class Generator:
    """Runs a fleet against a real Kafka."""

    def __init__(self, settings: Settings, fleet: Fleet, report_s: float) -> None:
        self.fleet = fleet
        self._names = settings.kafka.topics
        self._follower = Follower(settings.tables.root)
        self._lock = threading.Lock()  # follower and fleet: the reader's thread and the clock's
        self._report_s = report_s
        self._inventory_s = settings.control.inventory_interval_ms / 1000
        kafka = settings.kafka
        self._producer = JsonProducer(kafka.bootstrap_servers, "bench-fleet", kafka.client)
        self._reader = TopicReader(
            kafka.bootstrap_servers, [self._names.journal_feed], self._take, settings=kafka.client, name="bench-fleet"
        )
        self._due: list[tuple[float, int, float, Callable[[], None]]] = []
        self._numbers = itertools.count()  # of turns due at the same time, the older one comes first
        self._said_ready = False
        self._asked_for: set[str] = set()
        self.stopping = threading.Event()

    def run(self) -> None:
        """Send records until `stopping` is set."""
        self._reader.start()
        with self._lock:
            self.fleet.take_over(self._follower.bootstrap().bundles.values())
        self._schedule()
        while not self.stopping.is_set():
            self._speak()
        self._reader.stop()
        self._producer.close()

    def _ready(self) -> bool:
        """Whether every bundle of the fleet is owned according to the journal."""
        with self._lock:
            bundles = self._follower.state.bundles
            records = (bundles.get(str(bundle)) for b in self.fleet.brokers.values() for bundle in b.bundles)
            return all(record is not None and record.state is State.OWNED for record in records)

    def _schedule(self) -> None:
        """Spread the turns of all brokers over the interval."""
        now, count = time.monotonic(), len(self.fleet.brokers)
        for number, broker in enumerate(self.fleet.brokers.values()):
            for every_s, what in (
                (HEARTBEAT_S, self._beat),
                (self._report_s, self._report),
                (self._inventory_s, self._inventory),
            ):
                first = now + every_s * number / count
                self._push(first, every_s, lambda what=what, broker=broker: what(broker))  # type: ignore[misc]
        self._push(now + 2.0, REQUEST_S, self._request)
        self._push(now, CATCH_UP_S, self._catch_up)

    def _push(self, at_s: float, every_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), every_s, what))

    def _speak(self) -> None:
        """Take all turns that are due. There is a pause before them, so that a large fleet's come some at a time: a
        request for each record would cost the machine more than the job that is measured."""
        if self.stopping.wait(max(GATHER_S, self._due[0][0] - time.monotonic())):
            return
        now = time.monotonic()
        while self._due[0][0] <= now:
            at_s, _, every_s, what = heapq.heappop(self._due)
            what()
            self._push(at_s + every_s, every_s, what)

    # ------------------------------------------------------------ what brokers say

    def _beat(self, broker: SimulatedBroker) -> None:
        record = broker.heartbeat(self._follower.seq, wall_ms())
        self._producer.send(self._names.heartbeats, record, key=broker.session.broker)

    def _report(self, broker: SimulatedBroker) -> None:
        self._producer.send_bytes(self._names.load_reports, broker.report(wall_ms()), key=broker.session.broker)

    def _inventory(self, broker: SimulatedBroker) -> None:
        with self._lock:
            if not self._follower.state.alive(broker.session):
                return
            record = broker.inventory(self._follower.seq, wall_ms())
        self._producer.send(self._names.broker_events, record, key=broker.session.broker)

    def _create_namespaces(self) -> None:
        """Ask for each namespace once."""
        for namespace, bundles in self.fleet.namespaces():
            if namespace not in self._asked_for:
                self._asked_for.add(namespace)
                record = create_namespace(namespace, bundles, wall_ms())
                self._producer.send(self._names.commands, record, key=record["id"])

    def _request(self) -> None:
        """Once all brokers are registered, request bundles without an owner, some at a time."""
        if self._said_ready:
            return
        with self._lock:
            state = self._follower.state
            if len(state.live_brokers()) < len(self.fleet.brokers):
                return
            self._create_namespaces()
            missing = [
                r for r in self.fleet.assign_requests(wall_ms())
                if (record := state.bundles.get(r["bundle"])) is not None and record.by is None and record.to is None
            ]  # fmt: skip
        for request in missing[:REQUESTS_AT_ONCE]:
            self._producer.send(self._names.assign_requests, request, key=request["bundle"])

    def _catch_up(self) -> None:
        """Read from the table what the feed did not deliver."""
        with self._lock:
            if self._follower.behind or not self._follower.seq:
                self._answer(self._follower.catch_up())
        if not self._said_ready and self._ready():
            self._said_ready = True
            print("fleet ready", flush=True)

    def _take(self, records: Sequence[KafkaRecord]) -> None:
        with self._lock:
            for record in records:
                feed = parse_feed(record.value)
                self._follower.hear(feed.seq)
                self._answer(self._follower.offer(feed.entries))

    def _answer(self, entries: list[Entry]) -> None:
        for broker, record in self.fleet.answers(entries, wall_ms()):
            self._producer.send(self._names.broker_events, record, key=broker)


def create_namespace(namespace: str, bundles: int, sent_ms: int) -> dict[str, Any]:
    """An operator's command to create a namespace."""
    args = {"namespace": namespace, "bundles": bundles}
    return {"v": VERSION, "id": f"fleet-{namespace}", "kind": "create_namespace", "args": args, "sent_ms": sent_ms}


def options(argv: Sequence[str]) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Simulate brokers on Kafka.")
    parser.add_argument("--conf", type=Path, required=True, help="the cluster's configuration file")
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--bundles", type=int, default=100, help="of each broker")
    parser.add_argument("--report-s", type=float, default=5.0, help="between two load reports of a broker")
    parser.add_argument("--listed", type=int, help="the busiest bundles in a report; default: all")
    parser.add_argument("--owned", action="store_true", help="the bundles are owned from the beginning")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """The command line."""
    given = options(argv)
    settings, fleet = load_settings(given.conf), Fleet(given.brokers, given.bundles, listed=given.listed)
    if given.owned:
        write_owned(table_root(settings), fleet)
    generator = Generator(settings, fleet, given.report_s)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: generator.stopping.set())
    generator.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
