"""What became of every message, as clients and the store saw it.

One producer at a time writes to a topic, and one consumer of one subscription reads it, so what must hold is simple:

- A message is acknowledged to its producer once it is stored, at one offset, and stays there.
- First deliveries come in the order of offsets, without a gap: a gap is a message that is lost, or out of order.
- What is delivered at an offset is what was acknowledged there, also when it comes again.
- Nothing is delivered again after its acknowledgement was confirmed, that is, stored.
- In the end, everything acknowledged to producers was delivered, and the acknowledgement of every delivery is stored.

Every message has a payload of its own, so none of this trusts the sequences by which brokers and store tell messages
apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from controller.brokers.reference.store.cursor import Cursor
from controller.brokers.reference.wire import Numbered
from controller.testbed.simulated.message_store import SimMessageStore

Ranges = list[tuple[int, int]]
PUBLISHED, ACKNOWLEDGED, READ, READ_AGAIN, CONFIRMED = "published", "acknowledged", "read", "read again", "confirmed"
HAND_OVER = "hand-over: "  # and why: moved, dropped, lost with its connection, opened again


@dataclass
class TopicRecord:
    """One topic. Offsets are dense from 0, as nothing ever expires here."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)  # offset -> payload, to producers
    delivered: list[bytes] = field(default_factory=list)  # payloads by offset
    confirmed: Cursor = field(default_factory=Cursor)
    newest: int = -1  # the last offset delivered since the consumer was opened

    def at(self, offset: int) -> bytes | None:
        """The message at an offset, as far as any client knows."""
        return self.delivered[offset] if offset < len(self.delivered) else self.acknowledged.get(offset)


class Messages:
    """The record of one run. `breach` is told of what must not be; `store`: what is stored, at any moment."""

    def __init__(self, breach: Callable[[str], None], store: SimMessageStore) -> None:
        self.counts: Counter[str] = Counter()
        self.breach, self._store = breach, store
        self._topics: dict[str, TopicRecord] = {}

    # ------------------------------------------------------------ told by clients

    def publish(self) -> None:
        """A producer was given a message."""
        self.counts[PUBLISHED] += 1

    def acknowledge(self, topic: str, payloads: Sequence[bytes], offsets: Sequence[int]) -> None:
        """Messages are acknowledged to their producer, at these offsets."""
        record = self._of(topic)
        for payload, offset in zip(payloads, offsets, strict=True):
            self.counts[ACKNOWLEDGED] += 1
            if not self._store.holds(topic, offset):
                self.breach(f"{topic}: {payload!r} is acknowledged at offset {offset}, where nothing is stored")
            if record.at(offset) not in (payload, None):
                self.breach(f"{topic}: {payload!r} is acknowledged at offset {offset}, where {record.at(offset)!r} is")
            record.acknowledged[offset] = payload

    def meet(self, cause: str) -> None:
        """A producer's next acknowledgement came from another broker, or another process of it."""
        self.counts[HAND_OVER + cause] += 1

    def open_consumer(self, topic: str, mark: int) -> None:
        """A consumer was opened. All offsets below `mark` are acknowledged, maybe by one that was killed before it was
        told."""
        record = self._of(topic)
        if mark < record.confirmed.mark:
            self.breach(f"{topic}: is read from {mark} on, all below {record.confirmed.mark} was acknowledged")
        if mark > len(record.delivered):
            self.breach(f"{topic}: is read from {mark} on, and {len(record.delivered)} was never delivered")
        record.newest = -1

    def deliver(self, topic: str, messages: Sequence[Numbered]) -> None:
        """Messages are delivered."""
        record = self._of(topic)
        for offset, message in messages:
            self._judge(topic, record, offset, message.payload)
            record.newest = offset

    def confirm(self, topic: str, ranges: Ranges) -> None:
        """A broker says that the store has these acknowledgements of the consumer."""
        record = self._of(topic)
        for low, high in ranges:
            if self._store.acknowledged(topic).next_open(low) < high:
                self.breach(f"{topic}: the acknowledgement of {low} to {high} is confirmed, and not stored")
            before = record.confirmed.size
            record.confirmed.add(low, high)
            self.counts[CONFIRMED] += record.confirmed.size - before

    # ------------------------------------------------------------ questions

    def backlog(self) -> str:
        """What is still to come, in words; empty when everything acknowledged was read, and every reading stored."""
        for topic, record in self._topics.items():
            unread = [offset for offset in record.acknowledged if offset >= len(record.delivered)]
            if unread:
                return f"{topic}: the acknowledged message at offset {min(unread)} was never delivered"
            acknowledged = self._store.acknowledged(topic)  # maybe by a process that was killed before it was told
            if acknowledged.mark < len(record.delivered):
                return f"{topic}: offset {acknowledged.mark} was delivered, and its acknowledgement is not stored"
        return ""

    # ------------------------------------------------------------ inside

    def _of(self, topic: str) -> TopicRecord:
        return self._topics.setdefault(topic, TopicRecord())

    def _judge(self, topic: str, record: TopicRecord, offset: int, payload: bytes) -> None:
        due = len(record.delivered)
        if record.confirmed.contains(offset):
            self.breach(f"{topic}: offset {offset} is delivered after its acknowledgement was confirmed")
        if offset <= record.newest:
            self.breach(f"{topic}: offset {offset} is delivered after {record.newest}")
        if offset > due:
            self.breach(f"{topic}: offset {offset} is delivered before {due}, which is lost or out of order")
            return
        if record.at(offset) not in (payload, None):
            self.breach(f"{topic}: {payload!r} is delivered at offset {offset}, where {record.at(offset)!r} is")
        if offset < due:
            self.counts[READ_AGAIN] += 1
            return
        record.delivered.append(payload)
        self.counts[READ] += 1
