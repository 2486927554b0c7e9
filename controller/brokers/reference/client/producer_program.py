"""`python -m controller.brokers.reference.client.producer_program`: sends to many topics at given rates.

Control lines on stdin, at any time: {"topic": NAME, "rate": MESSAGES_PER_S, "size": BYTES, "keys": N} starts or changes
a topic (omitted fields stay), {"stop": true} ends the process as SIGTERM does. At the end it stops sending, waits for
outstanding acknowledgements, and writes its summary to the log and, as one JSON line, to stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.log import ClientLog
from controller.brokers.reference.client.lookup import Lookup
from controller.brokers.reference.client.process import add_lookup_arguments, lookup_of, run_program, run_until_stopped
from controller.brokers.reference.client.producer import Gap, Producer
from controller.domain.ids import namespace_of

TICK_S = 0.005
CATCH_UP_S = 0.5  # how much of what a full window held back is sent later


@dataclass(slots=True)
class Flow:
    """One topic: its producer, and how much is sent to it."""

    producer: Producer
    number: int
    rate_per_s: float = 0.0
    size_bytes: int = 200
    keys: int = 16
    due: float = 0.0
    open: bool = False


class ProducerProcess:
    """All producers of the process and the clock that drives them."""

    def __init__(self, name: str, lookup: Lookup, log: ClientLog, *, window: int, size_bytes: int) -> None:
        self._name = name
        self._log = log
        self._window = window
        self._size_bytes = size_bytes
        self._lookup = lookup
        self._links = Links()
        self._flows: dict[str, Flow] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._gaps: list[Gap] = []

    async def order(self, fields: dict[str, Any]) -> None:
        """Carry out one control line. Raises ValueError for a bad one."""
        topic = str(fields["topic"])
        namespace_of(topic)
        flow = self._flows.get(topic)
        if flow is None:
            flow = self._add(topic)
        flow.rate_per_s = _not_negative(fields, "rate", flow.rate_per_s)
        flow.size_bytes = int(_not_negative(fields, "size", flow.size_bytes))
        flow.keys = max(1, int(_not_negative(fields, "keys", flow.keys)))

    async def drive(self) -> None:
        """Send what is due, until cancelled."""
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = loop.time()
            for flow in self._flows.values():
                if flow.open:
                    flow.due = min(
                        flow.due + flow.rate_per_s * (now_s - last_s), max(1.0, flow.rate_per_s * CATCH_UP_S)
                    )
                    self._send_due(flow)
            last_s = now_s

    async def finish(self, drain_s: float) -> dict[str, Any]:
        """Wait for outstanding acknowledgements, close, and return the summary."""
        for task in self._starting:
            task.cancel()
        flows = [flow for flow in self._flows.values() if flow.open]
        with contextlib.suppress(asyncio.TimeoutError):  # the summary says how many were left
            await asyncio.wait_for(asyncio.gather(*(f.producer.flush() for f in flows)), drain_s)
        summary = self._summary()
        self._log.flush()
        self._log.write("end", **summary)
        for flow in self._flows.values():
            await flow.producer.stop()
        self._links.close()
        await self._lookup.close()
        return summary

    def _add(self, topic: str) -> Flow:
        number = len(self._flows)
        producer = Producer(
            topic,
            self._name,
            self._lookup,
            self._links,
            window=self._window,
            on_acked=lambda _, first, count, offsets: self._log.note_acked(number, first, count),
            on_gap=self._on_gap,
        )
        self._log.write("topic", i=number, topic=topic, name=self._name)
        flow = self._flows[topic] = Flow(producer, number, size_bytes=self._size_bytes)
        task = asyncio.create_task(self._open(flow))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return flow

    async def _open(self, flow: Flow) -> None:
        await flow.producer.start()
        flow.open = True

    def _send_due(self, flow: Flow) -> None:
        producer = flow.producer
        while flow.due >= 1.0 and producer.pending < self._window:
            flow.due -= 1.0
            key = f"k{producer.next_sequence % flow.keys}"
            producer.send_now(key, bytes(flow.size_bytes))

    def _on_gap(self, gap: Gap) -> None:
        self._gaps.append(gap)
        rate_per_s = self._flows[gap.topic].rate_per_s
        self._log.write(
            "gap",
            **{"topic": gap.topic, "from": gap.from_address, "to": gap.to_address},
            cause=gap.cause,
            gap_ms=round(gap.gap_ms, 3),
            interval_ms=round(1000 / rate_per_s, 3) if rate_per_s > 0 else None,
        )

    def _summary(self) -> dict[str, Any]:
        producers = [flow.producer for flow in self._flows.values()]
        return {
            "name": self._name,
            "topics": len(producers),
            "acked": sum(p.acked for p in producers),
            "unacked": sum(p.pending for p in producers),
            "answered_as_duplicates": sum(p.duplicates for p in producers),
            "rewound": sum(p.rewound for p in producers),
            "reopened": sum(p.reopened for p in producers),
            "handovers": len(self._gaps),
            "max_ack_gap_ms": round(max((p.max_ack_gap_ms for p in producers), default=0.0), 3),
        }


def _not_negative(fields: dict[str, Any], name: str, default: float) -> float:
    value = float(fields.get(name, default))
    if not value >= 0:
        raise ValueError(f"{name}={fields[name]!r} is not a number of at least 0")
    return value


async def run(given: argparse.Namespace) -> None:
    """Run until stopped."""
    log = ClientLog(given.log)
    process = ProducerProcess(given.name, lookup_of(given), log, window=given.window, size_bytes=given.size)
    for topic in given.topic:
        name, _, rate = topic.rpartition("=")
        await process.order({"topic": name or topic, "rate": rate if name else given.rate})
    driving = asyncio.create_task(process.drive())
    await run_until_stopped(process.order, log.flush)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    summary = await process.finish(given.drain_s)
    log.close()
    print(json.dumps(summary), flush=True)


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Send to topics of a Ballast cluster.")
    add_lookup_arguments(parser)
    parser.add_argument("--name", required=True, help="producer name, used by no other process")
    parser.add_argument("--topic", action="append", default=[], help="TOPIC or TOPIC=MESSAGES_PER_S; repeat it")
    parser.add_argument("--rate", type=float, default=10.0, help="messages/s for topics without their own")
    parser.add_argument("--size", type=int, default=200, help="payload bytes")
    parser.add_argument("--window", type=int, default=1000, help="unacknowledged messages per topic")
    parser.add_argument("--drain-s", type=float, default=15.0, help="how long the end waits for acknowledgements")
    parser.add_argument("--log", type=Path, required=True, help="JSONL file, see client/log.py")
    run_program(run(parser.parse_args(argv)))


if __name__ == "__main__":
    main()
