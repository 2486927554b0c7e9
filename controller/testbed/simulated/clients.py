"""The clients of a run, in a process of their own: real producers and consumers, which look topics up, follow their
bundles and acknowledge what they read.

Each topic has one of each, and an own way to acknowledge: at once; late and one by one; late and cumulative, so that an
older acknowledgement comes after a newer one. The process may be killed; the next one goes on where the store's cursors
are, and sends nothing again that was not acknowledged to the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count, cycle
from random import Random
from typing import Any

from controller.brokers.reference.client.consumer import Consumer
from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.lookup import Lookup
from controller.brokers.reference.client.producer import Gap, Producer
from controller.brokers.reference.store.protocol import Header
from controller.brokers.reference.wire import Numbered
from controller.domain.errors import InvariantBroken
from controller.domain.ids import topic_hash
from controller.testbed.simulated.lookups import LookupClient
from controller.testbed.simulated.message_store import SUBSCRIPTION
from controller.testbed.simulated.messages import Messages
from controller.testbed.simulated.network import SimNetwork
from controller.testbed.simulated.virtual_loop import VirtualLoop, unforeseen
from controller.testbed.simulated.world import draw_rate

EVERY_MS = (200, 4_000)  # between two sends to a topic
BATCH = (1, 1, 1, 2, 5)  # messages of a send
LATE_MS = (0, 2_500)  # until a message is acknowledged
MOST_PENDING = 40  # messages that a producer keeps for a topic without an owner
NAME = "simulated"
AT_ONCE, SINGLY, CUMULATIVE, BOTH = range(4)


def topics_of(namespace: str, numbers: Sequence[int]) -> list[str]:
    """Names of topics: so many in each of the namespace's first bundles."""
    found: list[list[str]] = [[] for _ in numbers]
    for serial in count():
        name = f"persistent://{namespace}/messages-{serial}"
        bundle = topic_hash(name) * len(numbers) >> 32
        if len(found[bundle]) < numbers[bundle]:
            found[bundle].append(name)
        if [len(names) for names in found] == list(numbers):
            return [name for names in found for name in names]
    raise AssertionError


class ClientProcess:
    """One process of the clients."""

    def __init__(
        self, network: SimNetwork, name: str, topics: Sequence[str], lookup_urls: list[str], messages: Messages
    ) -> None:
        self.name = name
        self.alive = self.publishing = True
        self.failure = ""
        self.dice: Random = network.world.dice(name)
        self.loop = VirtualLoop(network, name, draw_rate(self.dice))
        self.loop.set_exception_handler(self._note_failure)
        self.messages, self._network = messages, network
        self.ids: Iterator[int] = count()
        self.producers: list[WatchedProducer] = []
        self._consumers: list[WatchedConsumer] = []
        self._main = self.loop.create_task(self._run(topics, lookup_urls))

    async def _run(self, topics: Sequence[str], lookup_urls: list[str]) -> None:
        lookup, links = Lookup(lookup_urls, http=LookupClient()), Links()
        self.producers = [WatchedProducer(self, topic, lookup, links) for topic in topics]
        ways = zip(topics, cycle((AT_ONCE, SINGLY, CUMULATIVE, BOTH)), strict=False)
        self._consumers = [WatchedConsumer(self, topic, way, lookup, links) for topic, way in ways]
        publishing = (producer.publish() for producer in self.producers)
        await asyncio.gather(*(one.start() for one in self._consumers), *publishing)

    @property
    def pending(self) -> int:
        """Messages that are not acknowledged to their producers yet."""
        return sum(producer.pending for producer in self.producers)

    def kill(self) -> None:
        """SIGKILL."""
        self.alive = self.publishing = False
        self.loop.halt()
        self._network.kill(self.loop)

    def close(self) -> None:
        """Give back what it holds."""
        self.kill()
        self.loop.unwind()

    def check(self) -> None:
        """Raise InvariantBroken if a client has ended, or failed unnoticed."""
        if self.failure:
            raise InvariantBroken(f"an exception was lost in clients: {self.failure}")

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if self.alive:
            self.failure = self.failure or unforeseen(context)


class WatchedProducer(Producer):
    """Sends messages of its own to a topic, now and then."""

    def __init__(self, process: ClientProcess, topic: str, lookup: Lookup, links: Links) -> None:
        super().__init__(topic, NAME, lookup, links, on_acked=self._note_acked, on_gap=self._note_gap)
        self._process = process
        self._payloads: dict[int, bytes] = {}

    async def publish(self) -> None:
        """Send whenever the process is to."""
        dice, process = self._process.dice, self._process
        await self.start()
        while True:
            for _ in range(dice.choice(BATCH) if process.publishing and self.pending < MOST_PENDING else 0):
                payload = f"{process.name}.{next(process.ids)}".encode()
                self._payloads[self.send_now("", payload)] = payload
                process.messages.publish()
            await asyncio.sleep(dice.uniform(*EVERY_MS) / 1000)

    def handle_opened(self, answer: Header) -> None:
        """See `Producer`."""
        super().handle_opened(answer)
        if self.rewound:
            self._process.messages.breach(f"{self.topic}: its owner knows less than what was acknowledged: {answer}")

    def _note_acked(self, producer: Producer, first: int, number: int, offsets: list[int]) -> None:
        payloads = [self._payloads.pop(sequence) for sequence in range(first, first + number)]
        self._process.messages.acknowledge(self.topic, payloads, offsets)

    def _note_gap(self, gap: Gap) -> None:
        self._process.messages.meet(gap.cause)


class WatchedConsumer(Consumer):
    """Reads a topic, and acknowledges in one of several ways."""

    def __init__(self, process: ClientProcess, topic: str, way: int, lookup: Lookup, links: Links) -> None:
        super().__init__(
            topic, SUBSCRIPTION, NAME, lookup, links, auto_ack=way == AT_ONCE,
            on_delivered=self._note_delivered, on_confirmed=self._note_confirmed,
        )  # fmt: skip
        self._process, self._way = process, way

    def handle_opened(self, answer: Header) -> None:
        """See `Consumer`."""
        self._process.messages.open_consumer(self.topic, int(answer["mark"]))
        super().handle_opened(answer)

    def _note_delivered(self, consumer: Consumer, messages: list[Numbered], at_ms: int) -> None:
        self._process.messages.deliver(self.topic, messages)
        if self._way != AT_ONCE:
            late_s = self._process.dice.uniform(*LATE_MS) / 1000
            asyncio.get_running_loop().call_later(late_s, self._acknowledge, messages[0][0], messages[-1][0] + 1)

    def _acknowledge(self, first: int, end: int) -> None:
        if self._way == CUMULATIVE or (self._way == BOTH and self._process.dice.random() < 0.5):
            self.ack_below(end)
        else:
            self.ack([(first, end)])

    def _note_confirmed(self, consumer: Consumer, ranges: list[tuple[int, int]], at_ms: int) -> None:
        self._process.messages.confirm(self.topic, ranges)
