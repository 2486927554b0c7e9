"""Files of frames (`frames`): appended, recovered, and truncated where a crash tore the last frame.

Invariants: what is truncated is kept beside the file; where a file is damaged the store does not start. With a `Sync`,
a frame, its file and the file's name are on the disk before its write is acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from controller.brokers.reference.store.frames import HEAD, Bodies, frame, scan
from controller.domain.errors import StoreError

log = structlog.get_logger()
TORN_COPIES = 3  # of a file, the newest
Sync = Callable[[int], None]  # flushes an open file or folder to the disk, as os.fsync does; raises OSError


def write_whole(fd: int, data: bytes, size: int, where: Path) -> None:
    """Append `data` to a file of `size` bytes; on an error, truncate it back to that size and raise StoreError."""
    view, done = memoryview(data), 0
    try:
        while done < len(data):
            done += os.write(fd, view[done:])
    except OSError as error:
        os.ftruncate(fd, size)
        raise StoreError(f"cannot write {len(data)} bytes to {where}: {error}; free some space and retry") from error


def keep_torn(path: Path, data: bytes, at: int) -> None:
    """Keep what is to be cut from a file whose content is `data`, from `at` on, in a file beside it. Raises StoreError.

    Who has torn a frame has not confirmed it; but if that was another than a crash, somebody may want it back.
    """
    torn, kept = data[at:], None
    if torn.strip(b"\0"):
        older = sorted(int(found.suffixes[-2][1:]) for found in path.parent.glob(f"{path.name}.*.torn"))
        kept = path.with_name(f"{path.name}.{older[-1] + 1 if older else 1}.torn")
        try:
            with kept.open("wb") as file:
                file.write(torn)
                file.flush()
                os.fsync(file.fileno())
            for number in older[: len(older) + 1 - TORN_COPIES]:
                path.with_name(f"{path.name}.{number}.torn").unlink()
        except OSError as error:
            kept.unlink(missing_ok=True)
            raise StoreError(
                f"cannot keep the torn end of {path}, {len(torn)} bytes, as {kept}: {error}; free some space and retry"
            ) from error
    log.warning("torn_end_cut", file=str(path), at=at, bytes=len(torn), kept=str(kept) if kept else "only zeros")


def sync_folder(folder: Path, sync: Sync) -> None:
    """Flush the names in a folder: the file of a new name is lost with the power before that, whatever was flushed."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(fd)
    finally:
        os.close(fd)


class FramedLog:
    """A small append-only file of frames with JSON, rewritten as a whole when it is compacted."""

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
        for at, body in scan(data, self._path, Bodies()):
            bodies.append(body)
            good = at + HEAD.size + len(body)
        self._open()
        if good != len(data):
            keep_torn(self._path, data, good)
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
