"""The version of a table's newest checkpoint, as the file `_last_checkpoint` has it, mostly without reading that file.

Every commit of the journal asks for it. While the file's time and size are those of the last look, one request answers
instead of two. Stores tell times in seconds, and a file may be replaced twice in one: so what was read counts as known
only if the same time and size had been seen `SETTLED_S` before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow.fs as pafs

SETTLED_S = 5.0  # longer than the granularity of any store's times
_Seen = tuple[int, int]


@dataclass(slots=True)
class _Look:
    """`seen`: time in ns and size of the file; `since_s`: the first look at which they were these."""

    seen: _Seen
    since_s: float
    version: int | None = None  # what the file says, once it cannot be another file of the same second


class CheckpointHint:
    """`parse` makes the version of the file's content. Not thread-safe."""

    def __init__(self, parse: Callable[[bytes], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._parse, self._clock = parse, clock
        self._look: _Look | None = None

    def version(self, stat: Callable[[], pafs.FileInfo], read: Callable[[], bytes]) -> int:
        """The version; -1 without a file. What `stat`, `read` and `parse` raise is raised."""
        info = stat()
        if info.type != pafs.FileType.File:
            self._look = None
            return -1
        now_s, seen = self._clock(), (int(info.mtime_ns or 0), int(info.size or 0))
        if self._look is None or self._look.seen != seen:
            self._look = _Look(seen, now_s)
        look = self._look
        if look.version is not None:
            return look.version
        version = self._parse(read())  # of the file that was looked at, or of a later one
        if seen[0] and now_s - look.since_s >= SETTLED_S:
            look.version = version
        return version
