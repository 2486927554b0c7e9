"""One open topic: producers append through it, subscriptions read through it.

Invariants: a message is acknowledged to its producer only after the store has it; messages of one topic go to the store
in the order they were served; after `close`, or once the lease has expired, nothing is acknowledged, confirmed or
delivered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from controller.brokers.reference.bundle import ServedBundle
from controller.brokers.reference.capacity import Throttle
from controller.brokers.reference.handles import ConsumerHandle, Handle, ProducerHandle
from controller.brokers.reference.store.client import Answer, StoreClient
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.messages import Message, pack_messages, unpack_all_stored, unpack_messages
from controller.brokers.reference.store.protocol import FrameConnection
from controller.brokers.reference.subscription import Ranges, Subscription
from controller.brokers.reference.wire import Numbered, SubscriptionType
from controller.domain.errors import BallastError

CACHE_BYTES = 256 * 1024  # of the newest messages, cached so that consumers at the tail need no read


class Failed(Protocol):
    """Called when the store refused an operation of a topic. `epoch`: at which it was asked."""

    def __call__(self, topic: OpenTopic, error: BallastError, epoch: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """What a topic needs from its broker."""

    store: StoreClient
    throttle: Throttle
    owner: str
    boot_ms: Callable[[], int]
    failed: Failed
    may_serve: Callable[[], bool]  # whether the lease is valid at this very moment


class OpenTopic:
    """A topic with connected clients. `served` changes when its bundle is split."""

    def __init__(self, name: str, served: ServedBundle, services: Services, tail: dict[str, Any]) -> None:
        self.name = name
        self.served = served
        self.next_offset: int = tail["next"]
        self.bytes: int = tail["bytes"]
        self.last_sequences: dict[str, int] = dict(tail["producers"])
        self.producers: dict[str, ProducerHandle] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.cursors: dict[str, Cursor] = {
            s: Cursor(c["mark"], c["ranges"], c["start"]) for s, c in tail["cursors"].items()
        }
        self.taking = True  # False while a release or reopen waits for pending operations of the store
        self.closed = False
        self.cache_bytes = 0
        self.messages = 0  # in and out since the last sample
        self._cache: list[Numbered] = []
        self._services = services
        self._in_flight: set[asyncio.Future[Answer]] = set()
        self._unstored: dict[str, set[asyncio.Future[Answer]]] = {}

    @property
    def serves(self) -> bool:
        """Whether a request may be carried out now."""
        return self.taking and self._services.may_serve()

    @property
    def turn_messages(self) -> int:
        """The most messages that one delivery may hold."""
        return self._services.throttle.turn_messages

    # -- producing

    def unstored(self, producer: str) -> set[asyncio.Future[Answer]]:
        """The appends of this producer name whose outcome is unknown yet, whichever connections they came by."""
        return self._unstored.setdefault(producer, set())

    def send(self, producer: ProducerHandle, first: int, body: bytes, count: int) -> None:
        """Queue the messages of one producer; each batch is acknowledged with `sent` once stored."""
        self._services.throttle.inward(
            self.name,
            count,
            len(body),
            lambda: producer.open and self.serves,
            lambda: self._store(producer, first, body),
        )

    def _store(self, producer: ProducerHandle, first: int, body: bytes) -> None:
        try:
            messages = unpack_messages(body)
        except BallastError:
            messages = []
        if not messages or any(m.producer != producer.name or m.sequence != first + i for i, m in enumerate(messages)):
            producer.connection.abort()  # the client breaks the protocol, so nothing it sends can be trusted
            return
        traffic = self.served.traffic
        traffic.messages_in += len(messages)
        self.messages += len(messages)
        traffic.bytes_in += len(body)
        epoch = self.served.epoch
        future = self._services.store.send_append(self.name, epoch, self._services.owner, body)
        self._track(future, self.unstored(producer.name))
        future.add_done_callback(lambda done: self._on_stored(producer, first, messages, len(body), done, epoch))

    def _on_stored(
        self,
        producer: ProducerHandle,
        first: int,
        messages: list[Message],
        size: int,
        done: asyncio.Future[Answer],
        epoch: int,
    ) -> None:
        if self._is_lost(done, epoch):
            return
        header, _ = done.result()
        offsets = header["offsets"]
        # New is what this broker has not heard of: the store may have had it, if the answer was lost with a connection.
        fresh = [(o, m) for o, m in zip(offsets, messages, strict=True) if o >= self.next_offset]
        last = self.last_sequences.get(producer.name, -1)
        self.last_sequences[producer.name] = max(last, messages[-1].sequence)
        if fresh:
            self.next_offset = fresh[-1][0] + 1
            self.bytes += size
            self._remember(fresh)
        if producer.open and self._services.may_serve():
            sent = {"op": "sent", "ref": producer.ref, "first": first, "offsets": offsets}
            producer.connection.send({**sent, "duplicates": header["duplicates"]})
        for subscription in self.subscriptions.values():
            subscription.pump()

    # -- consuming

    def subscription(self, name: str, kind: SubscriptionType, cursor: Cursor) -> Subscription:
        """The subscription, created when it has no consumers yet."""
        found = self.subscriptions.get(name)
        if found is None:
            found = self.subscriptions[name] = Subscription(self, name, kind, cursor)
        return found

    def acknowledge(self, consumer: ConsumerHandle, number: int | None, ranges: Ranges, below: int | None) -> None:
        """Store an acknowledgement and confirm it with `acked`; `number` None: without an answer."""
        if not self.serves:
            return  # not confirmed, so the client repeats it when it subscribes at the next owner
        accepted, refused = consumer.subscription.accept(consumer, ranges, below)
        self._services.throttle.charge(0.2)
        subscription, epoch = consumer.subscription, self.served.epoch
        if accepted:
            subscription.newest_ack = self._services.store.ack(
                self.name, subscription.name, epoch, self._services.owner, accepted
            )
            self._track(subscription.newest_ack, set())
        if subscription.newest_ack is None:
            self._confirm(consumer, number, refused)
            return
        # Where nothing was accepted, an earlier one covers it, which the store may not have yet. If that is refused,
        # its own callback, with its own epoch, comes first and closes the topic.
        subscription.newest_ack.add_done_callback(
            lambda done: None if self._is_lost(done, epoch) else self._confirm(consumer, number, refused)
        )

    def _confirm(self, consumer: ConsumerHandle, number: int | None, refused: Ranges) -> None:
        if consumer.open and number is not None and self._services.may_serve():
            consumer.connection.send(
                {
                    "op": "acked",
                    "ref": consumer.ref,
                    "id": number,
                    "refused": refused,
                    "at": self._services.boot_ms(),
                }
            )

    def deliver(self, consumer: ConsumerHandle, batch: list[Numbered], again: list[int]) -> None:
        """Queue a batch for delivery, as the broker's capacity allows."""
        body = pack_messages(message for _, message in batch)
        repeated = {batch[i][0] for i in again}
        at_ms = self._services.boot_ms()

        def run() -> None:
            left, packed = self._unacknowledged_of(consumer, batch), body
            if len(left) < len(batch):
                packed = pack_messages(message for _, message in left)
            if not left:
                return
            traffic = self.served.traffic
            traffic.messages_out += len(left)
            self.messages += len(left)
            traffic.bytes_out += len(packed)
            header = {
                "op": "deliver",
                "ref": consumer.ref,
                "offsets": [offset for offset, _ in left],
                "redelivered": [i for i, (offset, _) in enumerate(left) if offset in repeated],
                "at": at_ms,
            }
            consumer.connection.send(header, packed)

        self._services.throttle.outward(self.name, len(batch), len(body), lambda: consumer.open and self.serves, run)

    def _unacknowledged_of(self, consumer: ConsumerHandle, batch: list[Numbered]) -> list[Numbered]:
        """The batch without messages that were acknowledged while it was queued: a client that comes from another owner
        still acknowledges what it got there, and must not see it again once that is confirmed."""
        cursor = consumer.subscription.cursor
        left = [numbered for numbered in batch if not cursor.contains(numbered[0])]
        if len(left) < len(batch):
            consumer.permits += len(batch) - len(left)
            consumer.subscription.pump()
        return left

    def find_cached(self, offset: int) -> Numbered | None:
        """A recent message from the cache, or None."""
        at = offset - self._cache[0][0] if self._cache else -1
        return self._cache[at] if 0 <= at < len(self._cache) else None

    def fetch(self, offset: int, then: Callable[[list[Numbered]], None]) -> None:
        """Read from the store; calls `then` with the messages from the offset on, unless the topic was closed."""
        epoch = self.served.epoch
        future = self._services.store.call(
            {"op": "read", "topic": self.name, "offset": offset, "max_bytes": CACHE_BYTES}
        )

        def on_fetched(done: asyncio.Future[Answer]) -> None:
            if self._is_lost(done, epoch):
                return
            records = unpack_all_stored(done.result()[1])
            then([(r.offset, Message(r.producer, r.sequence, r.key, r.payload)) for r in records])

        future.add_done_callback(on_fetched)

    # -- lifecycle

    async def quiesce(self) -> None:
        """Accept no new work, and wait for pending operations of the store, acknowledgements included."""
        self.taking = False
        if self._in_flight:
            await asyncio.wait(list(self._in_flight))

    def handles(self) -> list[Handle]:
        """All clients connected to this topic."""
        consumers: Iterable[Handle] = (c for s in self.subscriptions.values() for c in s.consumers)
        return [*self.producers.values(), *consumers]

    def detach(self, handle: Handle) -> None:
        """Remove a producer or consumer that its client closed, or whose connection is gone."""
        handle.open = False
        if isinstance(handle, ConsumerHandle):
            handle.subscription.detach(handle)
        elif self.producers.get(handle.name) is handle:
            del self.producers[handle.name]

    def close(self) -> dict[FrameConnection, list[int]]:
        """Close at once; returns the refs that were open, by connection, for the caller to notify."""
        self.closed, self.taking = True, False
        refs: dict[FrameConnection, list[int]] = {}
        for handle in self.handles():
            handle.open = False
            refs.setdefault(handle.connection, []).append(handle.ref)
        return refs

    def count_unacknowledged(self) -> int:
        """How many messages are delivered but not acknowledged, over all subscriptions."""
        return sum(len(s.pending) for s in self.subscriptions.values())

    def _is_lost(self, done: asyncio.Future[Answer], epoch: int) -> bool:
        """Whether there is no answer to go on with: the topic was closed, or the store refused, which is passed on."""
        if self.closed or done.cancelled():
            return True
        error = done.exception()
        if not isinstance(error, BallastError):
            return False
        self._services.failed(self, error, epoch)
        return True

    def _track(self, future: asyncio.Future[Answer], also: set[asyncio.Future[Answer]]) -> None:
        for in_flight in (self._in_flight, also):
            in_flight.add(future)
            future.add_done_callback(in_flight.discard)

    def _remember(self, fresh: list[Numbered]) -> None:
        if self._cache and self._cache[-1][0] + 1 != fresh[0][0]:
            self._cache.clear()
            self.cache_bytes = 0
        self._cache += fresh
        self.cache_bytes += sum(len(m.payload) + len(m.key) + 32 for _, m in fresh)
        if self.cache_bytes > 2 * CACHE_BYTES:
            keep = len(self._cache) // 2
            self._cache = self._cache[-keep:] if keep else []
            self.cache_bytes = sum(len(m.payload) + len(m.key) + 32 for _, m in self._cache)
