"""De-duplication by (producer, sequence) in one topic.

Sequences of a producer name are dense from 0, so the last one is enough: a sequence at or below it is a duplicate, the
one above is next, anything higher is a gap and refused. Offsets of recent sequences are kept to answer repeated sends.
"""

from __future__ import annotations

from array import array

from controller.domain.errors import StoreError

REMEMBERED = 4096  # far more than a producer's window of unacknowledged sends
UNKNOWN_OFFSET = -1


class OutOfSequence(StoreError):
    """Raised when a producer skips a sequence, because an earlier send must arrive first."""


class ProducerTail:
    """The last sequence of one producer, and the offsets of its recent ones."""

    __slots__ = ("_offsets", "last")

    def __init__(self) -> None:
        self.last = -1
        self._offsets = array("q")

    def note(self, sequence: int, offset: int) -> None:
        """Note the offset at which a sequence was stored."""
        self.last = sequence
        self._offsets.append(offset)
        if len(self._offsets) >= 2 * REMEMBERED:
            del self._offsets[:REMEMBERED]

    def offset_of(self, sequence: int) -> int:
        """The offset of a stored sequence; UNKNOWN_OFFSET when it is too old."""
        behind = self.last - sequence
        return self._offsets[-1 - behind] if behind < len(self._offsets) else UNKNOWN_OFFSET
