"""`python -m controller.testbed.pulsar.traffic.producer_program`: one process that sends to many topics at given rates.

A line `{"topic": …, "rate": …}` on standard input sets the rate of a topic in messages/s; 0 pauses it. The end waits
for acknowledgements. Messages are never sent twice by this program: the client library resends what it holds after a
reconnect, which is what shows as duplicates.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from controller.process.clock import boot_ms
from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.control import ClientLog, Control
from controller.testbed.pulsar.traffic.library import add_connection_options, connect, import_pulsar
from controller.testbed.pulsar.traffic.message import SMALLEST_BYTES, Stamp, encode
from controller.testbed.pulsar.traffic.observed import TopicSends

TICK_S = 0.005
LOG_EVERY_MS = 250
OPENED_AT_ONCE = 8
# Of a topic that is not served, so that its messages wait in this process instead of blocking it.
MOST_WAITING = 20_000
LONGEST_BURST_MS = 1_000  # what a process that was paused catches up at most


class TopicSender:
    """One topic: its producer, its rate, and what became of its messages."""

    def __init__(self, opening: Future[Any], accepted: Any, size_bytes: int) -> None:
        self.opening = opening  # of the producer: a topic that is not served yet delays no other
        self.accepted = accepted  # the result of a message that was stored
        self.size_bytes = size_bytes
        self.rate_per_s = 0.0
        self.sends = TopicSends()
        self.lock = threading.Lock()  # acknowledgements arrive in a thread of the client library
        self._due = 0.0
        self._last_ms = boot_ms()
        self._logged = 0

    def send_due(self, now_ms: int) -> None:
        """Send what the rate asks for since the last call, once the producer is open."""
        if not self.opening.done():
            self._last_ms = now_ms
            return
        producer = self.opening.result()
        self._due += self.rate_per_s * min(now_ms - self._last_ms, LONGEST_BURST_MS) / 1000
        self._last_ms = now_ms
        while self._due >= 1 and self.sends.waiting < MOST_WAITING:
            self._due -= 1
            stamp = Stamp(self.sends.next_sequence, boot_ms())
            self.sends.next_sequence += 1
            producer.send_async(encode(stamp, self.size_bytes), partial(self._on_answer, stamp))
        self._due = min(self._due, max(1.0, self.rate_per_s))  # rates below 1/s add up to a message, too

    def log_progress(self, topic: str, log: ClientLog) -> None:
        """Write the acknowledgements since the last call."""
        with self.lock:
            low, high = self._logged, self.sends.acked.mark
            gap = self.sends.gap.take() if high > low else None
        if gap is not None:
            log.write_progress(topic, low, high, gap)
            self._logged = high

    def _on_answer(self, stamp: Stamp, result: Any, message_id: Any) -> None:
        arrived_ms = boot_ms()
        with self.lock:
            if result == self.accepted:
                self.sends.note_acked(stamp, arrived_ms)
            else:
                self.sends.failed += 1


class ProducerProcess:
    """All topics of this process."""

    def __init__(self, client: Any, accepted: Any, log: ClientLog, size_bytes: int) -> None:
        self._client = client
        self._accepted = accepted
        self._log = log
        self._size_bytes = size_bytes
        self._senders: dict[str, TopicSender] = {}
        self._openers = ThreadPoolExecutor(OPENED_AT_ONCE)
        self._stopping = False
        self._logged_ms = 0

    def on_order(self, order: dict[str, Any]) -> None:
        """Set the rate of a topic."""
        try:
            topic, rate = str(order["topic"]), float(order["rate"])
            if not 0 <= rate < 1e6:
                raise ValueError(f"rate {rate}")
        except (KeyError, TypeError, ValueError) as error:
            print(f"bad order {order!r}: {error}", file=sys.stderr)
            return
        if topic not in self._senders:
            opening = self._openers.submit(self._open, topic)
            self._senders[topic] = TopicSender(opening, self._accepted, self._size_bytes)
        self._senders[topic].rate_per_s = rate

    def on_tick(self) -> None:
        """Send what is due, and write the log now and then."""
        now_ms = boot_ms()
        for sender in self._senders.values():
            sender.send_due(now_ms)
        if now_ms - self._logged_ms >= LOG_EVERY_MS:
            self._logged_ms = now_ms
            self._write_progress()

    def finish(self, timeout_s: float) -> None:
        """Wait for acknowledgements, and write the totals."""
        self._stopping = True
        self._openers.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + timeout_s
        while any(sender.sends.waiting for sender in self._senders.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self._write_progress()
        totals = {}
        for topic, sender in self._senders.items():
            with sender.lock:
                sends = sender.sends
                acked = [[0, sends.acked.mark], *map(list, sends.acked.ranges)]
                totals[topic] = {"sent": sends.next_sequence, "failed": sends.failed, "acked": acked}
        self._log.write("end", topics=totals)
        self._log.close()

    def _write_progress(self) -> None:
        for topic, sender in self._senders.items():
            sender.log_progress(topic, self._log)
        self._log.flush()

    def _open(self, topic: str) -> Any:
        """A producer of the topic; tries again while nobody serves it."""
        while not self._stopping:
            try:
                return self._client.create_producer(
                    topic,
                    send_timeout_millis=0,  # the library holds messages until they are acknowledged
                    max_pending_messages=MOST_WAITING + 1,
                    max_pending_messages_across_partitions=MOST_WAITING + 1,
                    batching_enabled=False,
                )
            except Exception as error:  # whatever the library raises
                print(f"{topic} cannot be opened yet: {error!r}", file=sys.stderr)
                time.sleep(0.5)
        raise CancelledError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add_connection_options(parser)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--size", type=int, default=512, help="bytes of a message")
    parser.add_argument("--drain", type=float, default=30.0, help="seconds to wait for acknowledgements at the end")
    options = parser.parse_args(arguments)
    try:
        pulsar = import_pulsar()
        client = connect(pulsar, options)
    except PulsarFailed as error:
        print(error, file=sys.stderr)
        return 1
    control = Control()
    process = ProducerProcess(client, pulsar.Result.Ok, ClientLog(options.log), max(options.size, SMALLEST_BYTES))
    print("ready", flush=True)
    control.run(TICK_S, process.on_order, process.on_tick)
    process.finish(options.drain)
    with contextlib.suppress(Exception):  # the totals are written; a broker that is gone does not matter any more
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
