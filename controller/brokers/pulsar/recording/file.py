"""The file of a recording: JSON lines, flushed after every poll, rotated by size, continued after a restart.

A file that has reached its size is renamed to `NAME-0001`, `-0002` and so on before the suffix, and a new one is begun:
the newest lines are always in the file that was named. A torn last line, left by a killed process or a full disk, is
ended with a line break, so that readers refuse that line alone. One process records to a file.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.domain.errors import BallastError, ConfigError

ROTATE_BYTES = 256 * 1024 * 1024


class RecordingFile:
    """A recording being written; a context manager."""

    def __init__(self, path: Path, rotate_bytes: int = ROTATE_BYTES) -> None:
        """Raises ConfigError if the file cannot be written, or another process records to it."""
        if path.suffix == ".gz":
            raise ConfigError(f"{path} would be read as an archive, and is none: name a file such as {path.stem}")
        self.path, self._rotate_bytes = path, rotate_bytes
        self.lines = self.bytes = 0  # written by this process
        self.resumed = False
        self.rotated: list[Path] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
            self.resumed = self._size > 0
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror}): name another --out") from None

    def __enter__(self) -> RecordingFile:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._size:
            self.path.unlink(missing_ok=True)  # nothing was recorded: leave no empty file behind
        os.close(self._descriptor)

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line whole. Raises BallastError, for instance for a full disk; what was torn is ended then."""
        data = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        if self._size and self._size + len(data) > self._rotate_bytes:
            self._rotate()
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)  # no torn line stays
            raise BallastError(
                f"{self.path}: {error.strerror}; make room, then start again: it continues the file"
            ) from None
        self._size += len(data)
        self.lines, self.bytes = self.lines + 1, self.bytes + len(data)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise ConfigError(f"another process records to {self.path}: name another --out") from None
        except OSError:
            pass  # a file system without locks
        self._size = os.fstat(self._descriptor).st_size
        if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
            self._size += os.write(self._descriptor, b"\n")

    def _rotate(self) -> None:
        target = self.path.with_name(f"{self.path.stem}-{self._next_number():04d}{self.path.suffix}")
        try:
            os.rename(self.path, target)
            self.rotated.append(target)
            os.close(self._descriptor)
            self._open()
        except OSError as error:
            raise BallastError(f"{self.path} cannot be rotated to {target}: {error.strerror}") from None

    def _next_number(self) -> int:
        pattern = re.compile(re.escape(self.path.stem) + r"-(\d{4,})" + re.escape(self.path.suffix))
        found = (pattern.fullmatch(other.name) for other in self.path.parent.iterdir())
        return 1 + max((int(match[1]) for match in found if match), default=0)
