"""The segment files of one topic: append, read from an offset, recover.

A segment is named after its first offset and rolled by size. Invariants: offsets in the files are dense from 0; only
the last message of the last segment may be torn; one process writes. A sparse index (an entry every 16 KiB) finds an
offset without keeping every position in memory.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from controller.brokers.reference.store.framed_log import keep_torn, write_whole
from controller.brokers.reference.store.frames import HEAD, scan
from controller.brokers.reference.store.messages import StoredBodies, StoredMessage, pack_stored, unpack_stored
from controller.domain.errors import StoreError

INDEX_EVERY_BYTES = 16 * 1024
READ_CHUNK_BYTES = 64 * 1024
SUFFIX = ".seg"
_OFFSET_BYTES = 8  # a message's body begins with its offset


class OpenFiles:
    """Open file descriptors by path; the least recently used are closed first, as topics outnumber descriptors."""

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._open: OrderedDict[Path, int] = OrderedDict()

    def descriptor(self, path: Path) -> int:
        """A descriptor of the file for reading and appending; creates the file if it is missing."""
        found = self._open.pop(path, None)
        if found is None:
            found = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            if len(self._open) >= self._limit:
                os.close(self._open.popitem(last=False)[1])
        self._open[path] = found
        return found

    def close(self) -> None:
        """Close all."""
        while self._open:
            os.close(self._open.popitem()[1])


@dataclass(slots=True)
class Segment:
    """One file with its size and sparse index."""

    path: Path
    base: int
    size_bytes: int = 0
    offsets: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    def note(self, offset: int, position: int) -> None:
        """Index the message if the last entry is far enough behind."""
        if not self.positions or position - self.positions[-1] >= INDEX_EVERY_BYTES:
            self.offsets.append(offset)
            self.positions.append(position)

    def position_before(self, offset: int) -> int:
        """The position from which to search for the offset."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else 0


class TopicLog:
    """The messages of one topic, in offset order."""

    def __init__(self, folder: Path, files: OpenFiles, *, segment_bytes: int) -> None:
        self._folder = folder
        self._files = files
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self.next_offset = 0
        self.bytes = 0

    def recover(self) -> Iterator[StoredMessage]:
        """Read all segments in order, yield every message, truncate a torn last one. Call this once, first of all."""
        paths = sorted(self._folder.glob(f"*{SUFFIX}"))
        for path in paths:
            segment = Segment(path, int(path.stem))
            if segment.base != self.next_offset:
                raise StoreError(f"{path} starts at {segment.base}, expected {self.next_offset}: a segment is missing")
            data = path.read_bytes()
            for position, body in scan(data, path, StoredBodies(segment.base)):
                record = unpack_stored(body)
                if record.offset != self.next_offset:
                    raise StoreError(f"{path} has offset {record.offset} where {self.next_offset} belongs")
                segment.note(record.offset, position)
                segment.size_bytes = position + HEAD.size + len(body)
                self.next_offset += 1
                yield record
            if segment.size_bytes != len(data):
                if path != paths[-1]:
                    raise StoreError(f"{path} is torn at byte {segment.size_bytes} but is not the last segment")
                keep_torn(path, data, segment.size_bytes)
                os.truncate(path, segment.size_bytes)
            self._segments.append(segment)
            self.bytes += segment.size_bytes

    @property
    def newest(self) -> Path | None:
        """The segment that is written to; None without messages."""
        return self._segments[-1].path if self._segments else None

    def append(self, records: list[StoredMessage]) -> list[Path]:
        """Append messages, dense from `next_offset`, with one write; returns what is to be flushed: the file, and its
        folder where the file is new."""
        segment = self._writable()
        is_new = segment.size_bytes == 0
        frames = [pack_stored(record) for record in records]
        data = b"".join(frames)
        write_whole(self._files.descriptor(segment.path), data, segment.size_bytes, segment.path)
        for record, packed in zip(records, frames, strict=True):
            segment.note(record.offset, segment.size_bytes)
            segment.size_bytes += len(packed)
        self.next_offset = records[-1].offset + 1
        self.bytes += len(data)
        return [segment.path, self._folder] if is_new else [segment.path]

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """Complete frames from `offset` on, at least one if there is any, and the offset after them."""
        if offset >= self.next_offset:
            return b"", offset
        segment = self._segments[bisect_right(self._segments, offset, key=lambda s: s.base) - 1]
        position = segment.position_before(offset)
        first = -1
        data = b""
        begin = position
        while position < segment.size_bytes:
            # Fetch until the frame at `position` is complete.
            if position - begin + HEAD.size + _OFFSET_BYTES > len(data):
                data += self._fetch(segment, begin + len(data))
            length = HEAD.unpack_from(data, position - begin)[0]
            end = position + HEAD.size + length
            while end - begin > len(data):
                data += self._fetch(segment, begin + len(data))
            at = int.from_bytes(
                data[position - begin + HEAD.size : position - begin + HEAD.size + _OFFSET_BYTES], "big"
            )
            if at >= offset and first < 0:
                first, offset = position, at
            if first >= 0:
                if position > first and end - first > max_bytes:
                    break
                offset = at + 1
            position = end
        return data[first - begin : position - begin], offset

    def _fetch(self, segment: Segment, position: int) -> bytes:
        data = os.pread(self._files.descriptor(segment.path), READ_CHUNK_BYTES, position)
        if not data:
            raise StoreError(
                f"{segment.path} is shorter than its {segment.size_bytes} bytes: was it truncated from outside?"
            )
        return data

    def _writable(self) -> Segment:
        if not self._segments or self._segments[-1].size_bytes >= self._segment_bytes:
            path = self._folder / f"{self.next_offset:020d}{SUFFIX}"
            self._segments.append(Segment(path, self.next_offset))
        return self._segments[-1]
