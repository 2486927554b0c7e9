"""`python -m controller.testbed.pulsar.traffic.consumer_program`: one process that consumes topics and checks them.

Every topic has a consumer of its own, so that one topic that is not served delays no other. `ready` on standard output
says that all subscriptions exist.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from pathlib import Path
from typing import Any

from controller.process.clock import boot_ms
from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.control import ClientLog, Control
from controller.testbed.pulsar.traffic.library import add_connection_options, connect, import_pulsar
from controller.testbed.pulsar.traffic.message import decode
from controller.testbed.pulsar.traffic.observed import TopicReceipts

TICK_S = 0.25


class TopicReader:
    """One topic: what was received of it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.receipts = TopicReceipts()
        self.lock = threading.Lock()  # messages arrive in a thread of the client library
        self._logged = 0

    def on_message(self, consumer: Any, message: Any) -> None:
        """Note a delivery and acknowledge it."""
        arrived_ms = boot_ms()
        stamp = decode(message.data())
        if stamp is not None:
            with self.lock:
                self.receipts.note(stamp, str(message.message_id()), arrived_ms)
        with contextlib.suppress(Exception):  # not connected just now: the message comes again
            consumer.acknowledge(message)

    def log_progress(self, log: ClientLog) -> None:
        """Write what was received since the last call."""
        with self.lock:
            low, high = self._logged, self.receipts.seen.mark
            gap = self.receipts.gap.take() if high > low else None
        if gap is not None:
            log.write_progress(self.topic, low, high, gap)
            self._logged = high

    def totals(self) -> dict[str, Any]:
        """What the report needs."""
        with self.lock:
            receipts = self.receipts
            return {
                "received": receipts.received,
                "seen": [[0, receipts.seen.mark], *map(list, receipts.seen.ranges)],
                "redelivered": receipts.redelivered,
                "duplicated": receipts.duplicated,
                "reordered": receipts.reordered,
            }


def subscribe(client: Any, pulsar: Any, reader: TopicReader, subscription: str, stopped: threading.Event) -> None:
    """Subscribe to a topic; tries again while nobody serves it, until the process is told to end."""
    while not stopped.is_set():
        try:
            client.subscribe(
                reader.topic,
                subscription,
                consumer_type=pulsar.ConsumerType.Exclusive,
                initial_position=pulsar.InitialPosition.Earliest,
                message_listener=reader.on_message,
            )
            return
        except Exception as error:  # whatever the library raises
            print(f"{reader.topic} cannot be subscribed to yet: {error!r}", file=sys.stderr)
            stopped.wait(0.5)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_connection_options(parser)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--subscription", default="checker")
    parser.add_argument("--topic", action="append", required=True)
    options = parser.parse_args(arguments)
    try:
        pulsar = import_pulsar()
        client = connect(pulsar, options)
    except PulsarFailed as error:
        print(error, file=sys.stderr)
        return 1
    control, log = Control(), ClientLog(options.log)
    readers = [TopicReader(topic) for topic in options.topic]
    for reader in readers:
        subscribe(client, pulsar, reader, options.subscription, control.stopped)
    if not control.stopped.is_set():
        print("ready", flush=True)

    def write_progress() -> None:
        for reader in readers:
            reader.log_progress(log)
        log.flush()

    control.run(TICK_S, lambda order: None, write_progress)
    write_progress()
    log.write("end", topics={reader.topic: reader.totals() for reader in readers})
    log.close()
    with contextlib.suppress(Exception):  # the totals are written; a broker that is gone does not matter any more
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
