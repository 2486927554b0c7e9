"""Where a repair works: copies what it is about to touch, writes files into tables, sets whole tables aside.

The copies lie in `_damaged/<time>` beside the tables and are never removed: look at them, or restore them, at leisure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable
from datetime import datetime, timezone
from pathlib import Path

import pyarrow.fs as pafs

from controller.domain.errors import BallastError
from controller.ledger.delta_log import HINT, LOG, DeltaLog, name_table
from controller.ledger.tables import TableRoot
from schemas.catalog import TABLES

DAMAGED = "_damaged"


class Workshop:
    """One repair of the tables at `root`. `now_ms`: wall-clock time, which names its copies."""

    def __init__(self, root: TableRoot, now_ms: int) -> None:
        self.root, self.now_ms = root, now_ms
        stamp = datetime.fromtimestamp(now_ms / 1000, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        self.folder = f"{DAMAGED}/{stamp}"
        self._files = DeltaLog(root.root, root.storage_options).files

    @property
    def place(self) -> str:
        """The address of the copies."""
        return f"{self.root.root}/{self.folder}"

    def copy(self, name: str, only: Collection[str] | None = None) -> None:
        """Copy a table's folder. `only`: in an object store, of its data files just these; its log in any case.

        Raises BallastError, before it copies anything, where a disk has no room.
        """
        found = self._list(name)
        if self.root.is_object_store and only is not None:
            found = [info for info in found if info.path.startswith(f"{name}/{LOG}/") or info.path in only]
        if not self.root.is_object_store:
            needed, free = sum(info.size for info in found), shutil.disk_usage(_local(self.root.root)).free
            if needed > free:
                raise BallastError(
                    f"no room for a copy of table {self.root.uri(name)}: it needs {needed} bytes, {free} are free; "
                    "nothing was changed"
                )
        for info in found:
            with self._files.open_input_stream(info.path) as stream:
                self._write(f"{self.folder}/{info.path}", stream.read())
        self._flush(f"{self.folder}/{name}")

    def set_aside(self, name: str) -> None:
        """Move a table's folder to the copies. Nobody finds a part of the table meanwhile: a reader finds all or none,
        in an object store also an error."""
        if not self.root.is_object_store:
            there = Path(_local(self.place)) / name
            there.parent.mkdir(parents=True, exist_ok=True)
            os.rename(_local(self.root.uri(name)), there)
            return
        self.copy(name)
        for path in sorted((info.path for info in self._list(name)), key=lambda path: _first_gone(name, path)):
            self._files.delete_file(path)

    def put(self, name: str, path: str, content: bytes) -> None:
        """Write a file of a table, in place of one that is there."""
        self._write(f"{TABLES[name].name}/{path}", content)

    def delete(self, name: str, paths: Iterable[str]) -> None:
        """Delete these files of a table, if they are there."""
        there = {info.path for info in self._list(name)}
        for path in paths:
            if f"{name}/{path}" in there:
                self._files.delete_file(f"{name}/{path}")

    def flush(self, name: str) -> None:
        """Have the disk keep what was written into a table, whatever happens to the machine."""
        self._flush(TABLES[name].name)

    def _flush(self, folder: str) -> None:
        if self.root.is_object_store:
            return
        top = Path(_local(self.root.root)) / folder
        for path in [top, *top.rglob("*")] if top.is_dir() else []:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _list(self, name: str) -> list[pafs.FileInfo]:
        with name_table(self.root.uri(name)):
            found = self._files.get_file_info(pafs.FileSelector(TABLES[name].name, recursive=True))
        return [info for info in found if info.is_file]

    def _write(self, path: str, content: bytes) -> None:
        # The handler takes bytes alone, and only the buffer hands them over as such.
        with self._files.open_output_stream(path, buffer_size=len(content) + 1) as stream:
            stream.write(content)


def _first_gone(name: str, path: str) -> tuple[int, str]:
    """The order in which a table is deleted: no part of it must pass for the table at an older version."""
    if path == f"{name}/{HINT}" or path.endswith(".checkpoint.parquet"):
        return 0, path
    return (1 if path.startswith(f"{name}/{LOG}/") else 2), path


def _local(address: str) -> str:
    return address.removeprefix("file://")
