"""The log of a table as it lies in the store, damaged files included, and what it says together.

delta-rs opens a log only as a whole. This reads it file by file, so that everything that can still be read counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from controller.ledger.damage import Action, find_data_fault, find_fault, info_of, one_line, parse_actions
from controller.ledger.delta_log import HINT, DeltaLog, checkpoint_path, commit_path

MAPS = ("partitionValues", "tags", "configuration", "options")  # pairs in a checkpoint, objects in a commit
KINDS = ("protocol", "metaData", "txn", "add", "remove")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A commit or checkpoint: the actions that can be read, what is wrong with the file (empty: nothing), its text."""

    path: str
    actions: tuple[Action, ...]
    fault: str = ""
    text: bytes = b""  # of a damaged commit

    @property
    def info(self) -> Mapping[str, Any]:
        """The commit's metadata, as far as it can be read."""
        return info_of(self.actions)

    @property
    def kept_actions(self) -> tuple[Action, ...]:
        """Of a damaged commit those that hold without the rest: of merging, deleting and overwriting all or nothing."""
        appends = self.info.get("operation") == "WRITE" and _mode(self.info) == "append"
        kinds = ("protocol", "metaData", "txn", "add") if appends else ("protocol", "metaData")
        return tuple(action for action in self.actions if any(kind in action for kind in kinds))


@dataclass(frozen=True, slots=True)
class TableLog:
    """All files of a log, by version. `hint_fault`: what is wrong with `_last_checkpoint`."""

    commits: Mapping[int, LogFile]
    checkpoints: Mapping[int, LogFile]
    hint_fault: str

    @property
    def newest(self) -> int:
        """The newest version that has left a file; -1 without any."""
        return max((*self.commits, *self.checkpoints), default=-1)


@dataclass(slots=True)
class Replay:
    """What the log says at its newest version, without the commits that are `lost`.

    `base`: the version that the first commit read follows. `headless`: what was there at `base` is not known, because
    the checkpoint cannot be read and the commits before it have been cleaned up. `strangers`: files that commits remove
    although nothing that can be read has added them.
    """

    base: int
    headless: bool
    lost: tuple[int, ...]
    protocol: Action | None = None
    metadata: Action | None = None
    transactions: dict[str, Action] = field(default_factory=dict)
    active: dict[str, Action] = field(default_factory=dict)  # data file -> its `add`
    named: dict[str, Action | None] = field(default_factory=dict)  # every data file of any commit -> its `add`, if read
    strangers: set[str] = field(default_factory=set)

    @property
    def tells_layout(self) -> bool:
        """Whether protocol and metadata are known."""
        return self.protocol is not None and self.metadata is not None

    def apply(self, actions: Iterable[Action]) -> None:
        """Take over the actions of a checkpoint or commit."""
        for action in actions:
            if "add" in action:
                self.active[action["add"]["path"]] = self.named[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                path = action["remove"]["path"]
                self.active.pop(path, None)
                if path not in self.named:
                    self.named[path] = None
                    self.strangers.add(path)
            elif "txn" in action:
                self.transactions[action["txn"]["appId"]] = action
            elif "protocol" in action:
                self.protocol = action
            elif "metaData" in action:
                self.metadata = action


def read_table_log(log: DeltaLog) -> TableLog:
    """Read every file of the log. Raises DeltaError or OSError when the store does not answer."""
    commits, checkpoints = log.list_versions()
    return TableLog(
        {version: _read_commit(log, commit_path(version)) for version in commits},
        {version: _read_checkpoint(log, checkpoint_path(version)) for version in checkpoints},
        _find_hint_fault(log, checkpoints),
    )


def replay(log: TableLog) -> Replay:
    """Fold the log from the base after which the fewest commits are lost, the newest of those."""
    bases = [version for version, file in log.checkpoints.items() if not file.fault]
    first = min(log.commits, default=0)
    headless = not bases and first > 0
    base = min([*bases, first - 1 if headless else -1], key=lambda version: (len(_lost_after(log, version)), -version))
    result = Replay(base, headless, tuple(_lost_after(log, base)))
    for file in [*log.checkpoints.values(), *log.commits.values()]:  # any metadata is better than none
        result.apply(a for a in file.actions if "protocol" in a or "metaData" in a)
        result.named.update({a["add"]["path"]: a["add"] for a in file.actions if "add" in a})
    if base in log.checkpoints and not log.checkpoints[base].fault:
        result.apply(log.checkpoints[base].actions)
        result.strangers.clear()  # those of a checkpoint were removed long ago
    for version in range(base + 1, log.newest + 1):
        commit = log.commits.get(version)
        if commit is not None:
            result.apply(commit.kept_actions if commit.fault else commit.actions)
    return result


def _lost_after(log: TableLog, base: int) -> list[int]:
    return [v for v in range(base + 1, log.newest + 1) if v not in log.commits or log.commits[v].fault]


def _read_commit(log: DeltaLog, path: str) -> LogFile:
    text = log.read_file(path)
    try:
        actions = parse_actions(text)
    except ValueError as error:
        return LogFile(path, tuple(_whole_lines(text)), f"cannot be read ({one_line(error)})", text)
    fault = find_fault(actions)
    return LogFile(path, tuple(actions), fault, text if fault else b"")


def _whole_lines(text: bytes) -> Iterator[Action]:
    """The actions before the first line that is none."""
    for line in text.split(b"\n"):
        try:
            yield from parse_actions(line)
        except ValueError:
            return


def _read_checkpoint(log: DeltaLog, path: str) -> LogFile:
    content = log.read_file(path)
    fault = find_data_fault(content)
    if fault:
        return LogFile(path, (), fault)
    rows = pq.read_table(pa.BufferReader(content)).to_pylist()
    return LogFile(path, tuple({kind: _plain(row[kind])} for row in rows for kind in KINDS if row.get(kind)))


def _plain(value: Any, name: str = "") -> Any:
    """A value of a checkpoint as a commit has it, without what is null."""
    if name in MAPS:
        return dict(value or [])
    if isinstance(value, dict):
        return {key: _plain(inner, key) for key, inner in value.items() if inner is not None}
    return value


def _mode(info: Mapping[str, Any]) -> str:
    return str((info.get("operationParameters") or {}).get("mode", "")).lower()


def _find_hint_fault(log: DeltaLog, checkpoints: Iterable[int]) -> str:
    if not log.has_file(HINT):
        return ""
    try:
        named = parse_actions(log.read_file(HINT))[0]["version"]
    except (ValueError, IndexError, KeyError):
        return "cannot be read"
    return "" if named in checkpoints else f"names checkpoint {named}, which is missing"
