"""A Delta table's commits, read one by one from `_delta_log`: what a commit added, removed and said about itself.

A watcher needs one existence test a poll and one small file a commit, not a table snapshot: this is what keeps 1,000
agents cheap, and what tells a compaction (dataChange=false) from somebody else's data. Versions whose file has been
cleaned up are `LogGone`: the caller reads the table instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from controller.domain.errors import BallastError

EXPIRED_UP_TO = "ballast.expired_up_to"  # in the commit that drops old journal entries: the newest seq it drops


class LogGone(BallastError):
    """Raised when a commit's file is not there (not yet, or cleaned up): read the table as a whole."""


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that a commit added. `least` and `largest` hold the file's column statistics, as far as written."""

    path: str
    data_change: bool
    least: Mapping[str, Any]
    largest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table. `info` is the commit's own description, `transactions` app id -> version."""

    version: int
    info: Mapping[str, Any]
    added: tuple[AddedFile, ...]
    removed_data: bool
    transactions: Mapping[str, int]

    @property
    def changes_data(self) -> bool:
        """False for compaction, for changes of properties, and for the clean-up that drops expired entries."""
        if EXPIRED_UP_TO in self.info:
            return False
        return self.removed_data or any(f.data_change for f in self.added)


class DeltaLog:
    """Reads `_delta_log` and data files of one table, on any store that delta-rs knows. Not thread-safe."""

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._uri = uri
        self._options = dict(storage_options or {})
        self._files: pafs.FileSystem | None = None

    @property
    def files(self) -> pafs.FileSystem:
        """The table's directory as a file system. Raises LogGone when there is no such directory yet."""
        if self._files is None:
            try:
                handler = DeltaStorageHandler(self._uri, self._options or None)
            except TableNotFoundError as error:
                raise LogGone(f"{self._uri} does not exist yet") from error
            self._files = pafs.PyFileSystem(handler)
        return self._files

    def exists(self, version: int) -> bool:
        """Whether this version has been committed (and not been cleaned up): one stat, or one HEAD."""
        try:
            info = self.files.get_file_info(_commit_path(version))
        except LogGone:
            return False
        return bool(info.type == pafs.FileType.File)

    def read(self, version: int) -> Commit:
        """The commit; raises LogGone when its file is not there."""
        try:
            with self.files.open_input_stream(_commit_path(version)) as stream:
                text = stream.read()
        except FileNotFoundError as error:
            raise LogGone(f"version {version} of {self._uri} is not there: not committed, or cleaned up") from error
        return parse_commit(version, text)

    def last_checkpoint(self) -> int:
        """Version of the newest checkpoint, -1 without one. Log files are only ever cleaned up below a checkpoint."""
        try:
            with self.files.open_input_stream("_delta_log/_last_checkpoint") as stream:
                return int(json.loads(stream.read())["version"])
        except (LogGone, FileNotFoundError):
            return -1

    def open_file(self, path: str) -> pa.NativeFile:
        """A data file for reading; raises FileNotFoundError when VACUUM has removed it."""
        return self.files.open_input_file(path)


def parse_commit(version: int, text: bytes) -> Commit:
    """The commit that a `_delta_log` file describes. Raises ValueError when it is not JSON lines."""
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
        added=tuple(_added(action["add"]) for action in actions if "add" in action),
        removed_data=any(a["remove"].get("dataChange", True) for a in actions if "remove" in a),
        transactions=transactions,
    )


def _added(action: Mapping[str, Any]) -> AddedFile:
    stats = json.loads(action["stats"]) if action.get("stats") else {}
    return AddedFile(
        path=unquote(action["path"]),
        data_change=bool(action.get("dataChange", True)),
        least=stats.get("minValues") or {},
        largest=stats.get("maxValues") or {},
    )


def _commit_path(version: int) -> str:
    return f"_delta_log/{version:020d}.json"
