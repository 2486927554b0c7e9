"""A producer of one topic: sequences, a window of unacknowledged messages, resending in order.

Invariants: sequences of a producer name are dense, and each message keeps its own; after a reconnect all unacknowledged
messages are sent again, oldest first, before any new one (the store answers repeated ones with their first offset); a
message is acknowledged once.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from controller.brokers.reference.client.endpoint import Endpoint
from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.lookup import Lookup
from controller.brokers.reference.store.messages import Message, pack_messages
from controller.brokers.reference.store.protocol import Header
from controller.brokers.reference.wire import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES

Acked = Callable[["Producer", int, int, list[int]], None]  # producer, first sequence, count, offsets


@dataclass(frozen=True, slots=True)
class Gap:
    """A hand-over as a producer sees it: from the last acknowledgement of one broker to the first of the next."""

    topic: str
    from_address: str
    to_address: str
    cause: str  # moved, dropped or lost (see Endpoint.cause)
    gap_ms: float
    at_ms: float  # loop clock (CLOCK_MONOTONIC), at the first acknowledgement by the new owner


class Producer(Endpoint):
    """Sends to one topic under a producer name of its own."""

    def __init__(
        self,
        topic: str,
        name: str,
        lookup: Lookup,
        links: Links,
        *,
        window: int = 1000,
        on_acked: Acked = lambda producer, first, count, offsets: None,
        on_gap: Callable[[Gap], None] = lambda gap: None,
    ) -> None:
        super().__init__(topic, lookup, links)
        self.name = name
        self.acked = 0
        self.duplicates = 0  # repeated sends, answered as stored before
        self.max_ack_gap_ms = 0.0
        self.rewound = 0  # a broker knew less than what was acknowledged: must never happen
        self._window = window
        self._on_acked = on_acked
        self._on_gap = on_gap
        self._pending: deque[Message] = deque()
        self._unsent = 0  # how many at the end of `_pending` are not sent on this connection
        self._next = 0
        self._flushing = False
        self._last_ack: tuple[str, float] | None = None
        self._room = asyncio.Event()
        self._room.set()

    @property
    def pending(self) -> int:
        """Messages not acknowledged yet."""
        return len(self._pending)

    @property
    def next_sequence(self) -> int:
        """The sequence of the next message."""
        return self._next

    async def send(self, key: str, payload: bytes) -> int:
        """Queue a message, waiting while the window is full; returns its sequence."""
        while len(self._pending) >= self._window:
            self._room.clear()
            await self._room.wait()
        return self.send_now(key, payload)

    def send_now(self, key: str, payload: bytes) -> int:
        """As `send`, ignoring the window."""
        sequence, self._next = self._next, self._next + 1
        self._pending.append(Message(self.name, sequence, key, payload))
        self._unsent += 1
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)
        return sequence

    async def flush(self) -> None:
        """Wait until every message queued so far is acknowledged."""
        while self._pending:
            self._room.clear()
            await self._room.wait()

    def opening_request(self) -> Header:
        """See Endpoint."""
        return {"op": "producer", "topic": self.topic, "name": self.name}

    def handle_opened(self, answer: Header) -> None:
        """See Endpoint. Continue after the last stored sequence, or resend what is not acknowledged."""
        last = int(answer["last"])
        if self._next == 0 and not self._pending:
            self._next = last + 1
        first = self._pending[0].sequence if self._pending else self._next
        if last + 1 < first:
            self.rewound += 1
        self._unsent = len(self._pending)
        self._flush()

    def on_frame(self, header: Header, body: bytes) -> None:
        """See Endpoint."""
        if header["op"] == "sent":
            self._on_sent(int(header["first"]), header["offsets"], len(header["duplicates"]))

    def _flush(self) -> None:
        self._flushing = False
        while self._unsent and self._link is not None:
            start = len(self._pending) - self._unsent
            batch: list[Message] = []
            size = 0
            for message in itertools.islice(self._pending, start, start + MAX_BATCH_MESSAGES):
                batch.append(message)
                size += len(message.payload)
                if size > MAX_BATCH_BYTES:
                    break
            self._unsent -= len(batch)
            self._link.send(
                {"op": "send", "ref": self._ref, "first": batch[0].sequence, "n": len(batch)},
                pack_messages(batch),
            )

    def _on_sent(self, first: int, offsets: list[int], duplicates: int) -> None:
        if not self._pending or self._pending[0].sequence != first:
            return  # an answer to a send of an earlier connection, which will be answered again
        for _ in offsets:
            self._pending.popleft()
        self.acked += len(offsets)
        self.duplicates += duplicates
        self._measure(asyncio.get_running_loop().time() * 1000.0)
        self._room.set()
        self._on_acked(self, first, len(offsets), offsets)

    def _measure(self, now_ms: float) -> None:
        if self._last_ack is not None:
            address, at_ms = self._last_ack
            self.max_ack_gap_ms = max(self.max_ack_gap_ms, now_ms - at_ms)
            if address != self.address:
                self._on_gap(Gap(self.topic, address, self.address, self.cause, now_ms - at_ms, now_ms))
        self._last_ack = (self.address, now_ms)
