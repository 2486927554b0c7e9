"""A disk that tells what it was made to flush, and what is left of a folder when the power goes."""

from __future__ import annotations

import os
from pathlib import Path


class Disk:
    """`sync` takes the place of os.fsync: files have the content, and folders the names, of their last flush.

    Set `failing` to have flushes fail. `flushed` lists the names of what was flushed, in order.
    """

    def __init__(self) -> None:
        self.failing = False
        self.flushed: list[str] = []
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._kept: list[int] = []  # open, so that no other file gets the inode of one that was replaced

    def sync(self, fd: int) -> None:
        """Flush an open file or folder."""
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if self.failing:
            raise OSError(5, "Input/output error", str(path))
        inode = os.fstat(fd).st_ino
        self._kept.append(os.dup(fd))
        self.flushed.append(path.name)
        if path.is_dir():
            self._names[inode] = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._contents[inode] = path.read_bytes()

    def after_power_loss(self, folder: Path, copy: Path) -> Path:
        """Write to `copy` what is on the disk of a folder, with all folders below it; returns `copy`."""
        self._restore(folder.stat().st_ino, copy)
        return copy

    def close(self) -> None:
        """Close what was kept open."""
        while self._kept:
            os.close(self._kept.pop())

    def _restore(self, inode: int, to: Path) -> None:
        to.mkdir()
        for name, child in self._names.get(inode, {}).items():
            if child in self._names:
                self._restore(child, to / name)
            else:
                (to / name).write_bytes(self._contents.get(child, b""))
