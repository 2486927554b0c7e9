"""What a message carries: its sequence in the topic, and when it was sent by the boot clock. Padded to a size. Pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEADER = struct.Struct(">4sQQ")
_MAGIC = b"BLST"
SMALLEST_BYTES = _HEADER.size


class Stamp(NamedTuple):
    """`sequence` counts from 0 in each topic; `sent_ms` is comparable on one machine."""

    sequence: int
    sent_ms: int


def encode(stamp: Stamp, size_bytes: int) -> bytes:
    """The message, padded with zeros to the size."""
    return _HEADER.pack(_MAGIC, stamp.sequence, stamp.sent_ms).ljust(size_bytes, b"\0")


def decode(data: bytes) -> Stamp | None:
    """What `encode` wrote, or None for a message of somebody else."""
    if len(data) < _HEADER.size or data[:4] != _MAGIC:
        return None
    _, sequence, sent_ms = _HEADER.unpack_from(data)
    return Stamp(sequence, sent_ms)
