"""Reads a Delta table's commits one by one from `_delta_log`: the files and the metadata of each.

A follower then needs one existence check per poll and one small file per commit instead of a table snapshot, which
keeps 1,000 agents cheap; and a compaction (dataChange=false) can be distinguished from another writer's data. A version
whose file has been cleaned up raises `LogGone`: the caller reads the table instead. One whose file is damaged raises
`DamagedTable`, also where delta-rs would take it for an empty commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from controller.domain.errors import BallastError
from controller.ledger.damage import Action, DamagedTable, find_data_fault, find_fault, info_of, one_line, parse_actions

LOG = "_delta_log"
HINT = f"{LOG}/_last_checkpoint"
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
    """Reads `_delta_log` and data files of one table, on any store that delta-rs supports. Not thread-safe.

    While delta-rs waits for an object store, other threads go on only if it was asked what a path is: opening a file, a
    listing and a deletion stop them all. So a file is opened only of a store that has just answered: it is asked what
    the path is, unless the caller says `just_answered`.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.uri = uri
        self._options = dict(storage_options or {})
        self._files: pafs.FileSystem | None = None

    @property
    def files(self) -> pafs.FileSystem:
        """The table's directory as a file system. Raises LogGone when it does not exist yet."""
        if self._files is None:
            try:
                handler = DeltaStorageHandler(self.uri, self._options or None)
            except TableNotFoundError as error:
                raise LogGone(f"{self.uri} does not exist yet") from error
            self._files = pafs.PyFileSystem(handler)
        return self._files

    @property
    def data_files(self) -> pafs.FileSystem:
        """The same, for reading Parquet files. Raises LogGone.

        Arrow's threads let go of a file after the read has returned. With a file of Python they need the interpreter,
        which a command that ends has no more, and the process aborts; so local files are Arrow's own.
        """
        if "://" in self.uri:
            return self.files
        if not Path(self.uri).is_dir():
            raise LogGone(f"{self.uri} does not exist yet")
        return pafs.SubTreeFileSystem(self.uri, pafs.LocalFileSystem())

    def exists(self, version: int) -> bool:
        """Whether this version was committed and its file not cleaned up. Costs a store two requests, as it looks for a
        folder as well."""
        try:
            return self.has_file(commit_path(version))
        except LogGone:
            return False

    def has_file(self, path: str) -> bool:
        """Whether there is such a file. Raises LogGone if there is no table."""
        return bool(self._kind_of(path) == pafs.FileType.File)

    def has_log(self) -> bool:
        """Whether there is anything in the log's folder."""
        return bool(self._kind_of(LOG) == pafs.FileType.Directory)

    def _kind_of(self, path: str) -> pafs.FileType:
        with name_table(self.uri):
            return self.files.get_file_info(path).type

    def _wait_for(self, path: str) -> None:
        """Return once the store has told that the file is there. Raises FileNotFoundError."""
        if "://" in self.uri and not self.has_file(path):
            raise FileNotFoundError(f"{self.uri}/{path}")

    def read(self, version: int) -> Commit:
        """The commit of a version. Raises LogGone when its file does not exist, DamagedTable when it is not whole."""
        path = commit_path(version)
        try:
            actions = self.read_actions(version)
            commit, fault = _commit_of(version, actions), find_fault(actions)
        except FileNotFoundError as error:
            raise LogGone(f"version {version} of {self.uri} is not there: not committed, or cleaned up") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedTable(self.uri, path, f"cannot be read ({one_line(error)})") from error
        if fault:
            raise DamagedTable(self.uri, path, fault)
        return commit

    def read_actions(self, version: int) -> list[Action]:
        """The actions of a commit. Raises FileNotFoundError, and ValueError when the file is not JSON lines."""
        return parse_actions(self.read_file(commit_path(version)))

    def check_end(self, version: int) -> None:
        """Raise DamagedTable unless the commits at the end of the log, up to this version, are whole: those back to the
        newest that changes data. An earlier one shows by what is missing between others, the last ones by nothing."""
        for each in range(version, -1, -1):
            try:
                if self.read(each).changes_data:
                    return
            except LogGone:
                return
            except DamagedTable:
                if self.last_checkpoint() >= each:
                    return  # nobody needs it any more
                raise

    def last_checkpoint(self, just_answered: bool = False) -> int:
        """The version of the newest checkpoint, -1 without one. Log files are cleaned up only below a checkpoint."""
        try:
            return int(json.loads(self.read_file(HINT, just_answered).decode())["version"])
        except (LogGone, FileNotFoundError):
            return -1
        except (ValueError, KeyError, TypeError):  # a damaged hint costs a listing, here as in delta-rs
            return max(self.list_versions()[1], default=-1)

    def list_versions(self) -> tuple[list[int], list[int]]:
        """The versions of which there is a commit's file, and those of checkpoints, both ascending."""
        commits, checkpoints = [], []
        for name in self.list_names():
            if found := _COMMIT.fullmatch(name):
                commits.append(int(found[1]))
            elif found := _CHECKPOINT.fullmatch(name):
                checkpoints.append(int(found[1]))
        return sorted(commits), sorted(checkpoints)

    def list_names(self) -> list[str]:
        """The names of the log's files."""
        with name_table(self.uri):
            found = self.files.get_file_info(pafs.FileSelector(LOG, allow_not_found=True))
        return [info.base_name for info in found if info.type == pafs.FileType.File]

    def list_data_files(self) -> dict[str, int]:
        """Every Parquet file of the table's folder and its size in bytes, whether a commit names it or not."""
        with name_table(self.uri):
            found = self.files.get_file_info(pafs.FileSelector("", recursive=True))
        data = (info for info in found if info.is_file and not info.path.startswith(f"{LOG}/"))
        return {info.path: info.size for info in data if info.path.endswith(".parquet")}

    def find_damage(self) -> DamagedTable | None:
        """The first damage among the files that the newest version is read from; None if they are whole.

        Reads them all: call it when delta-rs fails. Raises DeltaError or OSError when the store does not answer.
        """
        commits, checkpoints = self.list_versions()
        base = checkpoints[-1] if checkpoints else -1
        if checkpoints and (fault := find_data_fault(self.read_file(checkpoint_path(base)))):
            return DamagedTable(self.uri, checkpoint_path(base), fault)
        if self.last_checkpoint() > base:
            return DamagedTable(self.uri, checkpoint_path(self.last_checkpoint()), "is missing")
        for version in range(base + 1, (commits[-1] if commits else base) + 1):
            try:
                self.read(version)
            except LogGone:
                return DamagedTable(self.uri, commit_path(version), "is missing")
            except DamagedTable as damage:
                return damage
        return None

    def count_files(self) -> int:
        """The number of files of the log, checkpoints among them. Costs a listing."""
        return len(self.list_names())

    def read_file(self, path: str, just_answered: bool = False) -> bytes:
        """The content of a file of the table. Raises FileNotFoundError; LogGone if there is no table."""
        if not just_answered:
            self._wait_for(path)
        with name_table(self.uri), self.files.open_input_stream(path) as stream:
            content: bytes = stream.read()
        return content

    def open_file(self, path: str) -> pa.NativeFile:
        """Open a data file for reading. Raises FileNotFoundError when VACUUM has removed it."""
        self._wait_for(path)
        with name_table(self.uri):
            return self.data_files.open_input_file(path)


def commit_path(version: int) -> str:
    """The file of a commit, below the table's folder."""
    return f"{LOG}/{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """The file of a checkpoint, below the table's folder."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def _commit_of(version: int, actions: Sequence[Action]) -> Commit:
    transactions = (action["txn"] for action in actions if "txn" in action)
    return Commit(
        version=version,
        info=info_of(actions),
        added=tuple(_parse_added(action["add"]) for action in actions if "add" in action),
        removed_data=any(a["remove"].get("dataChange", True) for a in actions if "remove" in a),
        transactions={txn["appId"]: int(txn["version"]) for txn in transactions},
    )


def _parse_added(action: Mapping[str, Any]) -> AddedFile:
    stats = json.loads(action["stats"]) if action.get("stats") else {}
    return AddedFile(
        path=unquote(action["path"]),
        data_change=bool(action.get("dataChange", True)),
        least=stats.get("minValues") or {},
        largest=stats.get("maxValues") or {},
    )


_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
