"""A consumer of one subscription of one topic.

Invariants: an acknowledgement is confirmed once a broker reports that the store has it; one whose confirmation was lost
is repeated with the next subscribe, before anything is delivered there; permits bound the messages in flight.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.brokers.reference.client.endpoint import Endpoint
from controller.brokers.reference.client.link import Links
from controller.brokers.reference.client.lookup import Lookup
from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.store.messages import unpack_messages
from controller.brokers.reference.store.protocol import Header
from controller.brokers.reference.wire import Numbered, SubscriptionType

Ranges = list[tuple[int, int]]
Delivered = Callable[["Consumer", list[Numbered], int], None]  # consumer, messages, the broker's boot clock in ms
Confirmed = Callable[["Consumer", Ranges, int], None]  # consumer, ranges, the broker's boot clock in ms


class Consumer(Endpoint):
    """Receives messages; with `auto_ack` each batch is acknowledged as soon as `on_delivered` has returned."""

    def __init__(
        self,
        topic: str,
        subscription: str,
        name: str,
        lookup: Lookup,
        links: Links,
        *,
        kind: SubscriptionType = SubscriptionType.EXCLUSIVE,
        permits: int = 1000,
        latest: bool = False,
        auto_ack: bool = True,
        on_delivered: Delivered = lambda consumer, messages, at_ms: None,
        on_confirmed: Confirmed = lambda consumer, ranges, at_ms: None,
    ) -> None:
        super().__init__(topic, lookup, links)
        self.subscription = subscription
        self.name = name
        self.kind = kind
        self.delivered = 0
        self.redelivered = 0
        self.refused_acks = 0
        self.auto_ack = auto_ack
        self.seen = Cursor()  # the offsets delivered here at least once
        self._held: Ranges = []  # delivered while auto_ack was off
        self._permits = permits
        self._latest = latest
        self._on_delivered = on_delivered
        self._on_confirmed = on_confirmed
        self._unconfirmed: dict[int, Ranges] = {}
        self._repeated: set[int] = set()
        self._last_id = 0
        self._owed = 0  # permits to give back

    def ack(self, ranges: Ranges) -> None:
        """Acknowledge offset ranges [low, high)."""
        self._last_id += 1
        self._unconfirmed[self._last_id] = ranges
        if self._link is not None:
            self._link.send({"op": "ack", "ref": self._ref, "id": self._last_id, "ranges": ranges})

    def ack_below(self, offset: int) -> None:
        """Acknowledge everything below an offset; not for shared subscriptions."""
        self._last_id += 1
        self._unconfirmed[self._last_id] = [(0, offset)] if offset > 0 else []
        if self._link is not None and offset > 0:
            self._link.send({"op": "ack", "ref": self._ref, "id": self._last_id, "below": offset})

    def ack_held(self) -> None:
        """Acknowledge the messages delivered while `auto_ack` was off."""
        held, self._held = self._held, []
        if held:
            self.ack(held)

    @property
    def held(self) -> bool:
        """Whether delivered messages wait for `ack_held`."""
        return bool(self._held)

    @property
    def unconfirmed(self) -> int:
        """The number of acknowledgements without confirmation."""
        return len(self._unconfirmed)

    def opening_request(self) -> Header:
        """See Endpoint."""
        self._repeated = set(self._unconfirmed)
        return {
            "op": "subscribe",
            "topic": self.topic,
            "subscription": self.subscription,
            "type": self.kind.value,
            "name": self.name,
            "permits": self._permits,
            "latest": self._latest,
            "unconfirmed": [pair for ranges in self._unconfirmed.values() for pair in ranges],
        }

    def handle_opened(self, answer: Header) -> None:
        """See Endpoint. The unconfirmed acknowledgements went with the subscribe and are confirmed as id 0."""
        again = [pair for number in self._repeated for pair in self._unconfirmed.pop(number, [])]
        newer, self._unconfirmed = self._unconfirmed, {0: again} if again else {}
        for ranges in newer.values():  # acknowledged while the subscribe was in flight
            self.ack(ranges)
        self._held = []  # it will be delivered again
        self._owed = 0

    def on_frame(self, header: Header, body: bytes) -> None:
        """See Endpoint."""
        if header["op"] == "deliver":
            self._on_deliver(header["offsets"], body, int(header["at"]))
        elif header["op"] == "acked":
            self._on_acked(int(header["id"]), header["refused"], int(header["at"]))

    def _on_deliver(self, offsets: list[int], body: bytes, at_ms: int) -> None:
        messages: list[Numbered] = list(zip(offsets, unpack_messages(body), strict=True))
        self._on_delivered(self, messages, at_ms)
        for offset in offsets:
            self.redelivered += self.seen.contains(offset)
            self.seen.add(offset, offset + 1)
        self.delivered += len(offsets)
        ranges = as_ranges(offsets)
        if self.auto_ack:
            self.ack(ranges)
        else:
            self._held += ranges
        self._owed += len(offsets)
        if self._link is not None and self._owed >= self._permits // 2:
            self._link.send({"op": "flow", "ref": self._ref, "permits": self._owed})
            self._owed = 0

    def _on_acked(self, number: int, refused: Ranges, at_ms: int) -> None:
        ranges = self._unconfirmed.pop(number, [])
        if refused:
            self.refused_acks += len(refused)
            ranges = subtract_ranges(ranges, refused)
        if ranges:
            self._on_confirmed(self, ranges, at_ms)


def as_ranges(offsets: list[int]) -> Ranges:
    """Offsets in delivery order, as ranges of consecutive ones."""
    ranges: Ranges = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges


def subtract_ranges(ranges: Ranges, taken: Ranges) -> Ranges:
    """The ranges without the taken ones."""
    left = [(low, high) for low, high in ranges]
    for low, high in taken:
        left = [part for a, b in left for part in ((a, min(b, low)), (max(a, high), b)) if part[0] < part[1]]
    return left
