"""What one side of one topic saw: sequences received or acknowledged, in which order, and how long it waited. Pure.

A gap is the time between two arrivals beyond the time between their sends. So a slow topic, a sender that pauses, or a
burst after a wait is no gap; a bundle that is served by nobody for a while is one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from controller.brokers.reference.store.cursor import Cursor
from controller.testbed.pulsar.traffic.message import Stamp

# Redeliveries after a reconnect reach back at most as far as a consumer's queue.
REMEMBERED_IDS = 20_000


@dataclass
class GapMeter:
    """The longest gap since it was last taken, and when it ended."""

    longest_ms: int = 0
    ended_ms: int = 0
    _last: tuple[int, int] | None = None  # (arrived_ms, sent_ms) of the newest arrival

    def note(self, arrived_ms: int, sent_ms: int) -> None:
        """Note an arrival of something that was sent at `sent_ms`."""
        if self._last is not None:
            gap_ms = (arrived_ms - self._last[0]) - max(0, sent_ms - self._last[1])
            if gap_ms > self.longest_ms:
                self.longest_ms, self.ended_ms = gap_ms, arrived_ms
        self._last = (arrived_ms, sent_ms)

    def take(self) -> tuple[int, int]:
        """(longest_ms, ended_ms) since the last call."""
        taken = (self.longest_ms, self.ended_ms)
        self.longest_ms, self.ended_ms = 0, 0
        return taken


@dataclass
class TopicReceipts:
    """What a consumer received of one topic, first deliveries and repetitions told apart.

    `redelivered`: the same stored message again, as after a reconnect. `duplicated`: another stored message with the
    same sequence, so it was stored twice. `reordered`: a first delivery after a higher sequence.
    """

    seen: Cursor = field(default_factory=Cursor)
    gap: GapMeter = field(default_factory=GapMeter)
    received: int = 0
    redelivered: int = 0
    duplicated: int = 0
    reordered: int = 0
    _newest: int = -1
    _ids: OrderedDict[int, str] = field(default_factory=OrderedDict)

    def note(self, stamp: Stamp, message_id: str, arrived_ms: int) -> None:
        """Note one delivery."""
        self.received += 1
        if self.seen.contains(stamp.sequence):
            if self._ids.get(stamp.sequence, message_id) == message_id:
                self.redelivered += 1
            else:
                self.duplicated += 1
            return
        self.seen.add(stamp.sequence, stamp.sequence + 1)
        self._ids[stamp.sequence] = message_id
        if len(self._ids) > REMEMBERED_IDS:
            self._ids.popitem(last=False)
        if stamp.sequence < self._newest:
            self.reordered += 1
            return
        self._newest = stamp.sequence
        self.gap.note(arrived_ms, stamp.sent_ms)


@dataclass
class TopicSends:
    """What a producer sent to one topic, and what of it was acknowledged."""

    next_sequence: int = 0
    failed: int = 0
    acked: Cursor = field(default_factory=Cursor)
    gap: GapMeter = field(default_factory=GapMeter)

    @property
    def waiting(self) -> int:
        """Messages that are neither acknowledged nor failed."""
        return self.next_sequence - self.acked.size - self.failed

    def note_acked(self, stamp: Stamp, arrived_ms: int) -> None:
        """Note the acknowledgement of one message."""
        self.acked.add(stamp.sequence, stamp.sequence + 1)
        self.gap.note(arrived_ms, stamp.sent_ms)
