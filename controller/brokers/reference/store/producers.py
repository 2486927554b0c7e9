"""De-duplication by (producer, sequence) in one topic.

Sequences of a producer name are dense from 0, so the last one says everything: at or below it is a duplicate, one
above is next, more is a gap and refused. Offsets of recent sequences are kept to answer a repeated send with them.
"""

from __future__ import annotations

from array import array

from controller.domain.errors import StoreError

REMEMBERED = 4096  # a producer's window of unacknowledged sends is far smaller
UNKNOWN_OFFSET = -1


class OutOfSequence(StoreError):
    """Raised when a producer skips a sequence: an earlier send must arrive first."""


class ProducerTail:
    """The last sequence of one producer, and where its recent ones are stored."""

    __slots__ = ("_offsets", "last")

    def __init__(self) -> None:
        self.last = -1
        self._offsets = array("q")

    def note(self, sequence: int, offset: int) -> None:
        """The sequence is stored at the offset."""
        self.last = sequence
        self._offsets.append(offset)
        if len(self._offsets) >= 2 * REMEMBERED:
            del self._offsets[:REMEMBERED]

    def offset_of(self, sequence: int) -> int:
        """Where a stored sequence lies; UNKNOWN_OFFSET when it is too long ago."""
        behind = self.last - sequence
        return self._offsets[-1 - behind] if behind < len(self._offsets) else UNKNOWN_OFFSET
