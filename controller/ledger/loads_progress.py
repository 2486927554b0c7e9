"""The loads query's progress in event time, taken from its commits without reading any rows.

Every commit to broker_panes states it: in its metadata (`ballast.max_event_ms`, by delta-rs beside the commit info, by
Spark as JSON in userMetadata), else in the statistics of its files. A batch writes broker_panes last, so that all of it
is in bundle_panes as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from controller.ledger.damage import DamagedTable
from controller.ledger.delta_log import Commit, LogGone
from controller.ledger.tables import REOPEN_AFTER_VERSIONS, TableRoot, as_root
from schemas.load_tables import BROKER_PANES

MAX_EVENT_KEYS = ("ballast.max_event_ms", "max_event_ms")


class LoadsProgress(NamedTuple):
    """Event times of the oldest kept and the newest committed report, ms since the epoch."""

    first_event_ms: int
    newest_event_ms: int


def loads_progress(root: TableRoot | str | Path) -> LoadsProgress | None:
    """The current progress; None before the first report. To poll repeatedly, keep a `LoadsProgressWatch`."""
    return LoadsProgressWatch(root).poll()


class LoadsProgressWatch:
    """Polls the progress: without new commits this costs one existence check, for each new commit one small file."""

    def __init__(self, root: TableRoot | str | Path) -> None:
        self._root = as_root(root)
        self._log = self._root.log(BROKER_PANES.name)
        self._version: int | None = None
        self._read_whole_at = 0
        self._progress: LoadsProgress | None = None

    def poll(self) -> LoadsProgress | None:
        """The current progress; None before the first report."""
        if self._version is None or self._version - self._read_whole_at >= REOPEN_AFTER_VERSIONS:
            self._read_whole()
            return self._progress
        try:
            while self._log.exists(self._version + 1):
                self._advance(self._log.read(self._version + 1))
                self._version += 1
        except (LogGone, DamagedTable):
            self._read_whole()
        return self._progress

    def _read_whole(self) -> None:
        if not self._root.exists(BROKER_PANES.name):
            return
        table = self._root.open(BROKER_PANES.name)
        self._version = self._read_whole_at = table.version()
        actions = pa.table(table.get_add_actions(flatten=True))
        if actions.num_rows and "max.last_event_ms" in actions.column_names:
            newest, first = pc.max(actions["max.last_event_ms"]).as_py(), pc.min(actions["min.first_event_ms"]).as_py()
            if newest is not None and first is not None:
                self._note(first, newest)

    def _advance(self, commit: Commit) -> None:
        first = [f.least["first_event_ms"] for f in commit.added if "first_event_ms" in f.least]
        newest = [
            *_read_event_times(commit.info),
            *(f.largest["last_event_ms"] for f in commit.added if "last_event_ms" in f.largest),
        ]
        if newest:
            self._note(min(first, default=min(newest)), max(newest))

    def _note(self, first: int, newest: int) -> None:
        before = self._progress or LoadsProgress(first, newest)
        self._progress = LoadsProgress(min(first, before.first_event_ms), max(newest, before.newest_event_ms))


def _read_event_times(info: Mapping[str, Any]) -> Iterator[int]:
    """The event times in the commit's metadata, in the form of either writer."""
    metadata = dict(info)
    if isinstance(info.get("userMetadata"), str):
        try:
            spark = json.loads(info["userMetadata"])
        except ValueError:
            spark = None  # not ours
        metadata |= spark if isinstance(spark, dict) else {}
    for key in MAX_EVENT_KEYS:
        if str(metadata.get(key, "")).isdigit():
            yield int(metadata[key])
