"""Damaged tables: errors that name the file which is truncated, unreadable or missing, and tell the next step.

A commit is whole if all its lines are JSON and it holds as many actions as it says itself: a file that was cut between
two lines, or left empty by a crash of the machine, is valid to delta-rs, which would then read the table without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from controller.domain.errors import BallastError

NEXT = "`ballast repair` says what can be done (docs/recovery.md#a-table-is-damaged)"
INSTANCE, BATCH = "ballast.instance", "ballast.batch"  # metadata of a journal commit, with which a transaction goes
_TOLD = {  # action -> where delta-rs says how many of them a commit holds
    "add": ("num_added_files", "numFilesAdded"),
    "remove": ("num_removed_files", "numFilesRemoved"),
}
Action = Mapping[str, Any]


class DamagedTable(BallastError, DeltaError):
    """Raised when a file of a table is truncated, unreadable or missing.

    It is an error of delta-rs as well: whoever waits until a table can be read again waits for this one, too.
    """

    def __init__(self, uri: str, file: str, what: str) -> None:
        super().__init__(f"table {uri} is damaged: {file} {what}; {NEXT}")
        self.uri, self.file, self.what = uri, file, what


class MissingFile(DamagedTable, FileNotFoundError):
    """Raised when a data file is not there: damage, unless VACUUM has just removed it (`files.retry_on_vacuum`)."""


class JournalGap(DamagedTable):
    """Raised when the journal lacks entries between two others, or has one of them twice."""


def parse_actions(text: bytes) -> list[Action]:
    """The actions of a commit. Raises ValueError for text that is not JSON lines of objects."""
    actions = [json.loads(line) for line in text.decode().splitlines() if line.strip()]
    for action in actions:
        if not isinstance(action, dict):
            raise ValueError(f"{str(action)[:40]!r} is no action")
    return actions


def info_of(actions: Sequence[Action]) -> dict[str, Any]:
    """What a commit says about itself; empty if it says nothing."""
    return {name: value for action in actions for name, value in (action.get("commitInfo") or {}).items()}


def find_fault(actions: Sequence[Action]) -> str:
    """What a commit lacks, as the rest of a sentence about its file; empty for a commit that is whole."""
    if not actions:
        return "is empty"
    info = info_of(actions)
    metrics = info.get("operationMetrics") or {}
    for kind, names in _TOLD.items():
        told = next((metrics[name] for name in names if isinstance(metrics.get(name), int)), 0)
        found = sum(kind in action for action in actions)
        if found < told:
            return f"is cut off: it holds {found} of {told} actions `{kind}`"
    if INSTANCE in info and BATCH in info and not any("txn" in action for action in actions):
        return "is cut off: it lacks the action `txn`"
    return ""


def find_size_fault(path: str, size_bytes: int, lying: Mapping[str, int]) -> str:
    """What a data file lacks by its size; empty if nothing. `size_bytes`: as committed; `lying`: those in the store."""
    size = lying.get(path)
    if size is None:
        return "is missing"
    return "" if size == size_bytes else f"has {size} of {size_bytes} bytes"


def find_data_fault(content: bytes) -> str:
    """Why a Parquet file cannot be read, as the rest of a sentence; empty for one that can. Decodes all of it."""
    try:
        pq.ParquetFile(pa.BufferReader(content)).read()
    except (pa.ArrowException, OSError) as error:
        return f"is no readable Parquet file ({one_line(error)})"
    return ""


def one_line(error: BaseException) -> str:
    """The beginning of an error's text, without the stack that delta-rs appends to some."""
    return " ".join(str(error).partition("   0: <unknown>")[0].split())[:200]
