"""Frames on disk: `length u32, crc32 u32, body`; appended, scanned, and truncated where a crash tore the last one.

Invariants: a frame is complete before its write is acknowledged; only the last frame of a file may be torn, and it is
truncated at start; a damaged frame followed by intact ones is corruption: the store does not start, and never skips it.
With a `Sync`, a frame, its file and the file's name are on the disk before its write is acknowledged.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from controller.domain.errors import StoreError

HEAD = struct.Struct(">II")
Sync = Callable[[int], None]  # flushes an open file or folder to the disk, as os.fsync does; raises OSError


def frame(body: bytes) -> bytes:
    """The body as a frame."""
    return HEAD.pack(len(body), zlib.crc32(body)) + body


def scan(data: bytes, where: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (position, body) of every complete frame up to a torn last one. Raises StoreError for a damaged frame."""
    at, size = 0, len(data)
    while at + HEAD.size <= size:
        length, crc = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        if end > size or length == 0:
            break
        body = data[at + HEAD.size : end]
        if zlib.crc32(body) != crc:
            if end < size:
                raise StoreError(f"{where} is damaged at byte {at}: restore the file or remove its topic")
            return
        yield at, body
        at = end
    if at + HEAD.size <= size and HEAD.unpack_from(data, at)[0] == 0 and any(data[at:]):
        raise StoreError(f"{where} is damaged at byte {at}: an empty frame with data after it")


def write_whole(fd: int, data: bytes, size: int, where: Path) -> None:
    """Append `data` to a file of `size` bytes; on an error, truncate it back to that size and raise StoreError."""
    view, done = memoryview(data), 0
    try:
        while done < len(data):
            done += os.write(fd, view[done:])
    except OSError as error:
        os.ftruncate(fd, size)
        raise StoreError(f"cannot write {len(data)} bytes to {where}: {error}; free some space and retry") from error


def sync_folder(folder: Path, sync: Sync) -> None:
    """Flush the names in a folder: the file of a new name is lost with the power before that, whatever was flushed."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(fd)
    finally:
        os.close(fd)


class FramedLog:
    """A small append-only file of frames, rewritten as a whole when it is compacted."""

    def __init__(self, path: Path, *, sync: Sync | None = None) -> None:
        """`sync`: flush every frame with it; None: leave that to the operating system."""
        self._path = path
        self._sync = sync
        self._fd = -1
        self.size_bytes = 0

    def recover(self) -> list[bytes]:
        """Read every frame's body, truncate a torn tail, and open the file for appending."""
        data = self._path.read_bytes() if self._path.exists() else b""
        bodies, good = [], 0
        for at, body in scan(data, self._path):
            bodies.append(body)
            good = at + HEAD.size + len(body)
        self._open()
        if good != len(data):
            os.ftruncate(self._fd, good)
        self.size_bytes = good
        if self._sync is not None:
            self._flush(self._sync)  # the process before may have been killed before it flushed the last frame
        return bodies

    def append(self, body: bytes) -> None:
        """Store one frame; once this returns, it survives the end of the process."""
        if self._fd < 0:
            self._open()
        data = frame(body)
        write_whole(self._fd, data, self.size_bytes, self._path)
        if self._sync is not None:
            self._flush(self._sync)
        self.size_bytes += len(data)

    def rewrite(self, bodies: Iterable[bytes]) -> None:
        """Replace the content atomically: write a new file, sync, rename."""
        self.close()
        beside = self._path.with_suffix(".new")
        data = b"".join(frame(body) for body in bodies)
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            (self._sync or os.fsync)(file.fileno())
        beside.replace(self._path)
        self.size_bytes = len(data)  # also if what follows fails
        if self._sync is not None:
            sync_folder(self._path.parent, self._sync)
        self._open()

    def close(self) -> None:
        """Close the file; the next append opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _flush(self, sync: Sync) -> None:
        """Flush the file; on an error take back what was written behind `size_bytes`, and raise StoreError."""
        try:
            sync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, self.size_bytes)
            raise StoreError(f"cannot flush {self._path} to the disk: {error}; check the disk") from error

    def _open(self) -> None:
        is_new = not self._path.exists()
        self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        if is_new and self._sync is not None:
            sync_folder(self._path.parent, self._sync)
