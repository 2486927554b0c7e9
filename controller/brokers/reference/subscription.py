"""Delivers one topic to the consumers of one subscription.

Invariants: an offset is pending with at most one consumer; exclusive and failover subscriptions deliver in offset order
and restart at the first unacknowledged offset when the consumer changes; an acknowledgement of an offset that is
pending with another consumer is refused, so nothing is dispatched after its acknowledgement was confirmed.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING

from controller.brokers.reference.handles import ConsumerHandle
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.wire import MAX_BATCH_BYTES, Numbered, SubscriptionType

if TYPE_CHECKING:
    from controller.brokers.reference.store.client import Answer
    from controller.brokers.reference.topic import OpenTopic

Ranges = list[tuple[int, int]]


class Subscription:
    """Consumers, cursor, and the offsets that are delivered but not acknowledged."""

    def __init__(self, topic: OpenTopic, name: str, kind: SubscriptionType, cursor: Cursor) -> None:
        self.topic = topic
        self.name = name
        self.kind = kind
        self.cursor = cursor
        self.consumers: list[ConsumerHandle] = []
        self.pending: dict[int, ConsumerHandle] = {}
        self.newest_ack: asyncio.Future[Answer] | None = None  # the store's answers come in the order of its requests
        self._read_from = cursor.mark
        self._again: list[int] = []  # heap of offsets to redeliver (shared)
        self._delivered_to = cursor.mark  # one above the highest offset ever dispatched here
        self._fetched: dict[int, Numbered] = {}
        self._fetching = False
        self._turn = 0

    def attach(self, consumer: ConsumerHandle) -> None:
        """Add a consumer; delivery starts when it grants permits."""
        self.consumers.append(consumer)

    def detach(self, consumer: ConsumerHandle) -> None:
        """Remove a consumer; what was pending with it is delivered again."""
        if consumer not in self.consumers:
            return
        self.consumers.remove(consumer)
        theirs = [offset for offset, holder in self.pending.items() if holder is consumer]
        for offset in theirs:
            del self.pending[offset]
        if self.kind is SubscriptionType.SHARED:
            for offset in theirs:
                heapq.heappush(self._again, offset)
        else:
            self._read_from = self.cursor.mark
        self.pump()

    def accept(self, consumer: ConsumerHandle, ranges: Ranges, below: int | None) -> tuple[Ranges, Ranges]:
        """Divide an acknowledgement into accepted and refused ranges; the cursor moves for the accepted ones.

        The caller stores them. Offsets that are pending with another consumer, or not stored yet, are refused.
        """
        if below is not None:
            ranges = [*ranges, (self.cursor.mark, below)] if below > self.cursor.mark else ranges
        foreign = sorted(o for o, holder in self.pending.items() if holder is not consumer)
        accepted: Ranges = []
        refused: Ranges = []
        for low, high in ranges:
            high_ok = min(high, self.topic.next_offset)
            if high_ok < high:
                refused.append((max(low, high_ok), high))
            for offset in foreign:
                if low <= offset < high_ok:
                    if low < offset:
                        accepted.append((low, offset))
                    refused.append((offset, offset + 1))
                    low = offset + 1
            if low < high_ok:
                accepted.append((low, high_ok))
        for low, high in accepted:
            self.cursor.add(low, high)
        self._forget(accepted)
        return accepted, refused

    def _forget(self, ranges: Ranges) -> None:
        for low, high in ranges:
            if high - low <= len(self.pending):
                for offset in range(low, high):
                    self.pending.pop(offset, None)
            else:
                for offset in [o for o in self.pending if low <= o < high]:
                    del self.pending[offset]

    def pump(self) -> None:
        """Dispatch as much as permits allow. Call this whenever there may be something to deliver."""
        while not self._fetching and self.topic.taking:
            consumer = self._next_consumer()
            if consumer is None:
                return
            batch = self._choose(consumer)
            if not batch:
                return
            self._dispatch(consumer, batch)

    def _next_consumer(self) -> ConsumerHandle | None:
        if self.kind is not SubscriptionType.SHARED:
            first = self.consumers[0] if self.consumers else None
            return first if first is not None and first.permits > 0 else None
        for step in range(len(self.consumers)):
            consumer = self.consumers[(self._turn + step) % len(self.consumers)]
            if consumer.permits > 0:
                self._turn = (self._turn + step + 1) % len(self.consumers)
                return consumer
        return None

    def _next_offset(self) -> int | None:
        while self._again:
            offset = self._again[0]
            if not self.cursor.contains(offset) and offset not in self.pending:
                return offset
            heapq.heappop(self._again)
        self._read_from = self.cursor.next_open(self._read_from)
        return self._read_from if self._read_from < self.topic.next_offset else None

    def _choose(self, consumer: ConsumerHandle) -> list[Numbered]:
        batch: list[Numbered] = []
        size = 0
        limit = min(consumer.permits, self.topic.turn_messages)
        if self.kind is SubscriptionType.SHARED:
            limit = min(limit, 16)  # small batches, so that consumers share
        while len(batch) < limit and size < MAX_BATCH_BYTES:
            offset = self._next_offset()
            if offset is None:
                break
            found = self._fetched.get(offset) or self.topic.find_cached(offset)
            if found is None:
                if not batch:
                    self._fetching = True
                    self.topic.fetch(offset, self._on_fetched)
                break
            if self._again and self._again[0] == offset:
                heapq.heappop(self._again)
            else:
                self._read_from = offset + 1
            self.pending[offset] = consumer
            batch.append(found)
            size += len(found[1].payload)
        return batch

    def _on_fetched(self, found: list[Numbered]) -> None:
        self._fetched = {numbered[0]: numbered for numbered in found}
        self._fetching = False
        self.pump()

    def _dispatch(self, consumer: ConsumerHandle, batch: list[Numbered]) -> None:
        consumer.permits -= len(batch)
        again = [i for i, (offset, _) in enumerate(batch) if offset < self._delivered_to]
        self._delivered_to = max(self._delivered_to, batch[-1][0] + 1)
        self.topic.deliver(consumer, batch, again)
