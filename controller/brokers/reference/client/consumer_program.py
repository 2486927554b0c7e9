"""`python -m controller.brokers.reference.client.consumer_program`: one process that consumes from many topics.

Control lines on stdin: {"topic": NAME} subscribes, {"ack": false} stops acknowledging (a backlog builds up), {"ack":
true} acknowledges what was held back and continues, {"stop": true} ends the process as SIGTERM does. At the end it
waits briefly for confirmations and writes its summary to the log and, as one JSON line, to stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from controller.brokers.reference.client.consumer import Consumer
from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.log import ClientLog, DeliveryLog
from controller.brokers.reference.client.lookup import Lookup
from controller.brokers.reference.client.process import add_lookup_arguments, lookup_of, run_program, run_until_stopped
from controller.brokers.reference.wire import Numbered, SubscriptionType
from controller.domain.ids import namespace_of

CONFIRM_S = 2.0
ACK_EVERY_S = 0.02  # deliveries are logged before they are acknowledged, so that a kill leaves no unlogged ack


class ConsumerProcess:
    """All consumers of the process."""

    def __init__(
        self,
        name: str,
        subscription: str,
        kind: SubscriptionType,
        lookup: Lookup,
        log: ClientLog,
        *,
        permits: int,
    ) -> None:
        self._name = name
        self._subscription = subscription
        self._kind = kind
        self._permits = permits
        self._log = log
        self._lookup = lookup
        self._links = Links()
        self._consumers: dict[str, Consumer] = {}
        self._logs: list[DeliveryLog] = []
        self._producers: dict[str, int] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._auto_ack = True

    async def order(self, fields: dict[str, Any]) -> None:
        """Carry out one control line. Raises ValueError for a bad one."""
        if "topic" in fields:
            self._add(str(fields["topic"]))
        if "ack" in fields:
            self._auto_ack = bool(fields["ack"])

    async def acknowledge(self) -> None:
        """Acknowledge what was delivered and logged, until cancelled."""
        while True:
            await asyncio.sleep(ACK_EVERY_S)
            self._ack_logged()

    def _ack_logged(self) -> None:
        due = [c for c in self._consumers.values() if c.held] if self._auto_ack else []
        if due:
            self.flush()
        for consumer in due:
            consumer.ack_held()

    def flush(self) -> None:
        """Write the log."""
        for deliveries in self._logs:
            deliveries.flush()
        self._log.flush()

    async def finish(self) -> dict[str, Any]:
        """Wait for outstanding confirmations, close, and return the summary."""
        for task in self._starting:
            task.cancel()
        self._ack_logged()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + CONFIRM_S
        while loop.time() < deadline_s and any(c.unconfirmed for c in self._consumers.values()):
            await asyncio.sleep(0.01)
        for consumer in self._consumers.values():
            await consumer.stop()
        self.flush()
        summary = self._summary()
        self._log.write("end", **summary)
        self._links.close()
        await self._lookup.close()
        return summary

    def _add(self, topic: str) -> None:
        namespace_of(topic)
        if topic in self._consumers:
            return
        number = len(self._consumers)
        self._log.write(
            "topic",
            i=number,
            topic=topic,
            name=self._name,
            subscription=self._subscription,
            type=self._kind.value,
        )
        ordered = self._kind is not SubscriptionType.SHARED
        deliveries = DeliveryLog(self._log, number, self._producers, ordered=ordered)
        self._logs.append(deliveries)
        consumer = self._consumers[topic] = Consumer(
            topic,
            self._subscription,
            self._name,
            self._lookup,
            self._links,
            kind=self._kind,
            permits=self._permits,
            auto_ack=False,
            on_delivered=lambda c, messages, at_ms: _note(deliveries, c, messages, at_ms),
            on_confirmed=lambda c, ranges, at_ms: deliveries.note_confirmed(ranges, at_ms),
        )
        task = asyncio.create_task(consumer.start())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _summary(self) -> dict[str, Any]:
        consumers = list(self._consumers.values())
        return {
            "name": self._name,
            "subscription": self._subscription,
            "topics": len(consumers),
            "delivered": sum(c.delivered for c in consumers),
            "redelivered": sum(c.redelivered for c in consumers),
            "unconfirmed": sum(c.unconfirmed for c in consumers),
            "refused_acks": sum(c.refused_acks for c in consumers),
            "reopened": sum(c.reopened for c in consumers),
        }


def _note(log: DeliveryLog, consumer: Consumer, messages: list[Numbered], at_ms: int) -> None:
    again = [m for m in messages if consumer.seen.contains(m[0])]
    if again:
        log.write_redelivered(again, at_ms)
    if len(again) < len(messages):
        log.note_delivered([m for m in messages if not consumer.seen.contains(m[0])], at_ms)


async def run(given: argparse.Namespace) -> None:
    """Run until stopped."""
    log = ClientLog(given.log)
    process = ConsumerProcess(
        given.name, given.subscription, SubscriptionType(given.type), lookup_of(given), log, permits=given.permits
    )
    for topic in given.topic:
        await process.order({"topic": topic})
    acknowledging = asyncio.create_task(process.acknowledge())
    await run_until_stopped(process.order, process.flush)
    acknowledging.cancel()
    await asyncio.gather(acknowledging, return_exceptions=True)
    summary = await process.finish()
    log.close()
    print(json.dumps(summary), flush=True)


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Consume from topics of a Ballast cluster.")
    add_lookup_arguments(parser)
    parser.add_argument("--name", required=True, help="consumer name, one per process")
    parser.add_argument("--subscription", required=True)
    parser.add_argument("--type", choices=[t.value for t in SubscriptionType], default="exclusive")
    parser.add_argument("--topic", action="append", default=[], help="repeat it")
    parser.add_argument("--permits", type=int, default=1000, help="messages on their way per topic")
    parser.add_argument("--log", type=Path, required=True, help="JSONL file, see client/log.py")
    run_program(run(parser.parse_args(argv)))


if __name__ == "__main__":
    main()
