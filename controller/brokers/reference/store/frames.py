"""Frames on disk: `length u32, crc32 u32, body`; how they are read, and how a torn end is told from damage.

Invariant: a frame is complete before its write is acknowledged, so only the last one of a file may be torn. A length
that is damaged looks the same: it ends the file, and takes all that follows with it. So a frame is torn only
- if its body says the same length, or
- if no intact frame follows, one whose place in the file fits; bytes in a payload do not count.
Anything else is damage: reading stops with StoreError, and never skips it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from controller.domain.errors import StoreError

if TYPE_CHECKING:  # who finds no damage does without, such as a command that sends a message
    import numpy as np
    from numpy.typing import NDArray

HEAD = struct.Struct(">II")
SEARCHED_BYTES = 1 << 20  # at a time
CHECKED_MOST = 8  # times the file's size in checksums; only bytes made for it need more, and are taken for damage
CHECK_BYTES = 1 << 10  # what a checksum costs beside its bytes
Positions: TypeAlias = "NDArray[np.int64]"


class Bodies:
    """What the bodies of a file look like. These are JSON, which has no zero byte: a short frame's length begins so."""

    def said_length(self, data: bytes, begin: int, index: int) -> int | None:
        """The length that the body at `begin`, of the file's frame `index`, has by its own content; None: unknown."""
        end = data.find(b"\0", begin)
        return (end if end >= 0 else len(data)) - begin or None

    def pick(self, data: bytes, begins: Positions, lengths: Positions, index: int) -> Positions:
        """Those of `begins` where a body of that length may be, of a frame after `index`."""
        import numpy as np

        first = np.frombuffer(data, np.uint8)[begins]
        picked: Positions = begins[(first == ord("[")) | (first == ord("{"))]
        return picked


def frame(body: bytes) -> bytes:
    """The body as a frame."""
    return HEAD.pack(len(body), zlib.crc32(body)) + body


def scan(data: bytes, where: Path, bodies: Bodies) -> Iterator[tuple[int, bytes]]:
    """Yield (position, body) of every complete frame up to a torn last one. Raises StoreError for a damaged frame."""
    at = index = 0
    while at + HEAD.size <= len(data):
        length, crc = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        body = data[at + HEAD.size : end]
        if not length or end > len(data) or zlib.crc32(body) != crc:
            _check_torn(data, at, index, where, bodies)
            return
        yield at, body
        at, index = end, index + 1


def _check_torn(data: bytes, at: int, index: int, where: Path, bodies: Bodies) -> None:
    """Raise StoreError unless the bytes from `at` on are what a crash has left of one frame."""
    length, crc = HEAD.unpack_from(data, at)
    begin = at + HEAD.size
    if 0 < length < len(data) - begin:
        raise _damaged(where, at, "the checksum of a frame is wrong, and more follows")
    said = bodies.said_length(data, begin, index)
    if said == length:
        return
    if said is not None and said <= len(data) - begin and zlib.crc32(data[begin : begin + said]) == crc:
        raise _damaged(where, at, f"the length of a frame is {length}, but {said} bytes are intact")
    found = _find_intact(data, at + 1, index, bodies)
    if found is not None:
        raise _damaged(where, at, f"the length of a frame is {length}, but another one follows at byte {found}")


def _find_intact(data: bytes, first: int, index: int, bodies: Bodies) -> int | None:
    """Where a frame after frame `index` begins, from byte `first` on. Looks at every byte, but computes a checksum only
    where lengths and content fit."""
    import numpy as np

    size, checked = len(data), 0
    last = size - HEAD.size  # a frame has a body
    for start in range(first, last, SEARCHED_BYTES):
        count = min(SEARCHED_BYTES, last - start)
        lengths = np.ndarray(count, ">u4", data, start, (1,)).astype(np.int64)  # read at every byte
        begins = np.arange(start, start + count) + HEAD.size
        fitting = (lengths > 0) & (begins + lengths <= size)
        for begin in bodies.pick(data, begins[fitting], lengths[fitting], index).tolist():
            length, crc = HEAD.unpack_from(data, begin - HEAD.size)
            checked += length + CHECK_BYTES
            if checked > CHECKED_MOST * size + SEARCHED_BYTES or zlib.crc32(data[begin : begin + length]) == crc:
                return int(begin) - HEAD.size
    return None


def _damaged(where: Path, at: int, what: str) -> StoreError:
    return StoreError(
        f"{where} is damaged at byte {at}: {what}; restore the file, or remove the folder of its topic if it has one"
    )
