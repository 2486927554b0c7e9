"""Reads a Delta table's commits one by one from `_delta_log`: the files and the metadata of each.

A follower then needs one existence check per poll and one small file per commit instead of a table snapshot, which
keeps 1,000 agents cheap; and a compaction (dataChange=false) can be distinguished from another writer's data. A version
whose file has been cleaned up raises `LogGone`: the caller reads the table instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from controller.domain.errors import BallastError

EXPIRED_UP_TO = "ballast.expired_up_to"  # metadata of a commit that drops old journal entries: the newest seq dropped


class LogGone(BallastError):
    """Raised when a commit's file does not exist, yet or any more: read the table as a whole."""


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that a commit added. `least` and `largest` are its column statistics, as far as they were written."""

    path: str
    data_change: bool
    least: Mapping[str, Any]
    largest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table. `info` is the commit's metadata, `transactions` maps application ids to versions."""

    version: int
    info: Mapping[str, Any]
    added: tuple[AddedFile, ...]
    removed_data: bool
    transactions: Mapping[str, int]

    @property
    def changes_data(self) -> bool:
        """False for compaction, for property changes, and for the clean-up that drops expired entries."""
        if EXPIRED_UP_TO in self.info:
            return False
        return self.removed_data or any(f.data_change for f in self.added)


@contextmanager
def name_table(uri: str) -> Iterator[None]:
    """Note the table on errors of its store, which name a file at most; `describe_error` shows the note."""
    try:
        yield
    except (DeltaError, OSError) as error:
        if uri not in str(error):
            error.add_note(f"table {uri}")
        raise


class DeltaLog:
    """Reads `_delta_log` and data files of one table, on any store that delta-rs supports. Not thread-safe."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._uri = uri
        self._options = dict(storage_options or {})
        self._files: pafs.FileSystem | None = None

    @property
    def files(self) -> pafs.FileSystem:
        """The table's directory as a file system. Raises LogGone when it does not exist yet."""
        if self._files is None:
            try:
                handler = DeltaStorageHandler(self._uri, self._options or None)
            except TableNotFoundError as error:
                raise LogGone(f"{self._uri} does not exist yet") from error
            self._files = pafs.PyFileSystem(handler)
        return self._files

    def exists(self, version: int) -> bool:
        """Whether this version was committed and its file not cleaned up. Costs one stat or HEAD request."""
        try:
            with name_table(self._uri):
                info = self.files.get_file_info(_commit_path(version))
        except LogGone:
            return False
        return bool(info.type == pafs.FileType.File)

    def read(self, version: int) -> Commit:
        """The commit of a version. Raises LogGone when its file does not exist."""
        try:
            with name_table(self._uri), self.files.open_input_stream(_commit_path(version)) as stream:
                text = stream.read()
        except FileNotFoundError as error:
            raise LogGone(f"version {version} of {self._uri} is not there: not committed, or cleaned up") from error
        return parse_commit(version, text)

    def last_checkpoint(self) -> int:
        """The version of the newest checkpoint, -1 without one. Log files are cleaned up only below a checkpoint."""
        try:
            with name_table(self._uri), self.files.open_input_stream("_delta_log/_last_checkpoint") as stream:
                return int(json.loads(stream.read())["version"])
        except (LogGone, FileNotFoundError):
            return -1

    def count_files(self) -> int:
        """The number of files of the log, checkpoints among them. Costs a listing."""
        with name_table(self._uri):
            found = self.files.get_file_info(pafs.FileSelector("_delta_log", allow_not_found=True))
        return sum(info.type == pafs.FileType.File for info in found)

    def open_file(self, path: str) -> pa.NativeFile:
        """Open a data file for reading. Raises FileNotFoundError when VACUUM has removed it."""
        with name_table(self._uri):
            return self.files.open_input_file(path)


def parse_commit(version: int, text: bytes) -> Commit:
    """Parse a file of `_delta_log`. Raises ValueError when it is not JSON lines."""
    actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    info: dict[str, Any] = {}
    transactions: dict[str, int] = {}
    for action in actions:
        info.update(action.get("commitInfo") or {})
        if "txn" in action:
            transactions[action["txn"]["appId"]] = int(action["txn"]["version"])
    return Commit(
        version=version,
        info=info,
        added=tuple(_parse_added(action["add"]) for action in actions if "add" in action),
        removed_data=any(a["remove"].get("dataChange", True) for a in actions if "remove" in a),
        transactions=transactions,
    )


def _parse_added(action: Mapping[str, Any]) -> AddedFile:
    stats = json.loads(action["stats"]) if action.get("stats") else {}
    return AddedFile(
        path=unquote(action["path"]),
        data_change=bool(action.get("dataChange", True)),
        least=stats.get("minValues") or {},
        largest=stats.get("maxValues") or {},
    )


def _commit_path(version: int) -> str:
    return f"_delta_log/{version:020d}.json"
