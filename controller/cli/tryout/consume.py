"""`ballast consume TOPIC`: prints the messages of a topic of the reference brokers, a line each.

A message is acknowledged once it is printed, so what a closed pipe did not take comes again. A partitioned topic is
read whole: the order of messages is that of each partition.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Annotated, Any, BinaryIO

import typer

from controller.brokers.reference.client.consumer import Consumer, as_ranges
from controller.brokers.reference.wire import Numbered, SubscriptionType
from controller.cli.act.topic import full_name
from controller.cli.options import AsJson, Conf, Profile, Sets, new_app, report_errors, settings_of
from controller.cli.times import duration
from controller.cli.tryout.reference_client import (
    CONFIRM_S,
    WAIT_S,
    Asked,
    LookupUrls,
    Stopping,
    Topic,
    Wait,
    messages_text,
    opened,
    unique_name,
    whom_to_ask,
)
from controller.config.settings import Settings

app = new_app()
OWN = "ballast-consume"
LOOK_EVERY_S = 0.1
Subscription = Annotated[
    str, typer.Option("--subscription", help="Subscription; it goes on where it ended, a new one at the first message.")
]
Kind = Annotated[SubscriptionType, typer.Option("--type", help="How consumers of the subscription share it.")]
Most = Annotated[int | None, typer.Option("--max", help="End after so many messages.", min=1, show_default=False)]
Idle = Annotated[
    float | None,
    typer.Option("--idle", help="End after so long without a message while connected.", parser=duration,
                 metavar="TIME", show_default=False),
]  # fmt: skip
Latest = Annotated[bool, typer.Option("--latest", help="A new subscription begins with the next message.")]


@app.command()
@report_errors
def consume(
    topic: Topic, conf: Conf = None, profile: Profile = None, sets: Sets = None, as_json: AsJson = False,
    lookup: LookupUrls = None, subscription: Subscription = OWN, kind: Kind = SubscriptionType.EXCLUSIVE,
    most: Most = None, idle: Idle = None, latest: Latest = False, wait: Wait = WAIT_S,
) -> None:  # fmt: skip
    """Print each message as a line and acknowledge it, until Ctrl-C; with --json, also its topic, offset and key."""
    settings = settings_of(conf, profile, sets)
    printer = Printer(sys.stdout.buffer, as_json, most)
    name = full_name(topic)
    asked = whom_to_ask(settings, lookup)
    partitions = asyncio.run(_print_messages(settings, asked, name, printer, subscription, kind, idle, latest, wait))
    typer.echo(messages_text(printer.printed, "of", name, partitions), err=True)


class Printer:
    """Prints messages, at most `most`; `done` once there is no more to print, or nobody to print for."""

    def __init__(self, out: BinaryIO, as_json: bool, most: int | None) -> None:
        self._out, self._as_json, self._most = out, as_json, most
        self.printed = 0
        self.done = False

    def on_delivered(self, consumer: Consumer, messages: list[Numbered], at_ms: int) -> None:
        """Print a batch; the consumer acknowledges all of it, unless some of it was not printed."""
        taken = [] if self.done else messages[: None if self._most is None else self._most - self.printed]
        try:
            for offset, message in taken:
                self._out.write(self._line(consumer.topic, offset, message) + b"\n")
            self._out.flush()
        except BrokenPipeError:
            self.done, taken = True, []
            sys.stdout = None  # otherwise its last flush fails
        self.printed += len(taken)
        self.done = self.done or self.printed == self._most
        if len(taken) < len(messages):
            consumer.auto_ack = False
            if taken:
                consumer.ack(as_ranges([offset for offset, _ in taken]))

    def _line(self, topic: str, offset: int, message: Any) -> bytes:
        if not self._as_json:
            return bytes(message.payload)
        row = {"topic": topic, "offset": offset, "key": message.key}
        row = {"topic": topic, "offset": offset, "key": message.key}
        row |= {"producer": message.producer, "sequence": message.sequence}
        try:
            row |= {"payload": message.payload.decode()}
        except UnicodeDecodeError:
            row |= {"payload_base64": base64.b64encode(message.payload).decode("ascii")}
        return json.dumps(row, ensure_ascii=False).encode()


async def _print_messages(
    settings: Settings, asked: Asked, topic: str, printer: Printer, subscription: str, kind: SubscriptionType,
    idle_s: float | None, latest: bool, wait_s: float,
) -> int:  # fmt: skip
    """Returns the number of partitions."""
    name, stopping = unique_name("consume"), Stopping()
    async with opened(
        settings, asked, topic, wait_s, stopping,
        lambda part, lookup, links: Consumer(
            part, subscription, name, lookup, links, kind=kind, latest=latest, on_delivered=printer.on_delivered
        ),
    ) as consumers:  # fmt: skip
        loop = asyncio.get_running_loop()
        printed, heard_s = 0, loop.time()
        while not (stopping.event.is_set() or printer.done):
            await asyncio.sleep(LOOK_EVERY_S)
            # without a connection nothing can come, however much is there: that is no idleness
            if printer.printed != printed or not all(consumer.address for consumer in consumers):
                printed, heard_s = printer.printed, loop.time()
            if idle_s is not None and loop.time() - heard_s > idle_s:
                break
        stopping.raise_failure()
        deadline_s = loop.time() + CONFIRM_S
        while any(consumer.unconfirmed for consumer in consumers) and loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        return 0 if consumers[0].topic == topic else len(consumers)
