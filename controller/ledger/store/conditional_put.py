"""Whether an object store refuses the second of two commits of one version: what keeps two controllers apart.

A store that ignores `If-None-Match` accepts both, and each of two controllers would take the journal for its own. So
every start races a few pairs of commits against each other on a table of its own, in the same way as the journal
commits, before it touches any other. delta-rs looks for newer versions before it writes, so only commits at the same
moment show what the store does; one pair of which both succeed is enough.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from concurrent.futures import Executor, ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from controller.domain.errors import ConfigError, without_login
from controller.ledger.delta_log import DeltaLog, name_table
from controller.ledger.tables import TableRoot

PROBE = "_probe"
RACERS, RACES = 2, 5
_ROW = pa.table({"writer": pa.array(["one"], pa.string())})
_ONE_ATTEMPT = CommitProperties(max_commit_retries=0)


def check_conditional_put(root: TableRoot) -> None:
    """Raise ConfigError if the store takes two commits of one version, and DeltaError or OSError if it cannot be
    written. Folders of this machine are not asked: a commit's file is linked into place, which fails where one is."""
    if not root.is_object_store:
        return
    place, options = f"{root.root}/{PROBE}/{uuid.uuid4().hex}", root.storage_options or None
    try:
        with name_table(place), ThreadPoolExecutor(RACERS) as racers:
            write_deltalake(place, _ROW, storage_options=options)
            for _ in range(RACES):
                if _both_win(place, options, racers):
                    raise ConfigError(
                        f"tables.root = {without_login(root.root)} is not allowed: this object store takes two writes"
                        " of the same new object (it ignores If-None-Match), so two controllers could write one"
                        " journal; give a store with conditional writes"
                    )
    finally:
        with contextlib.suppress(DeltaError, OSError):  # what stays is a few hundred bytes that nobody reads
            files = DeltaLog(place, options).files
            for found in files.get_file_info(pafs.FileSelector("", recursive=True)):
                if found.is_file:
                    files.delete_file(found.path)


def _both_win(place: str, options: dict[str, str] | None, racers: Executor) -> bool:
    """Whether both of two commits of one version succeed."""
    start = threading.Barrier(RACERS)

    def commit(table: DeltaTable) -> bool:
        start.wait()
        try:
            write_deltalake(table, _ROW, mode="append", commit_properties=_ONE_ATTEMPT)
        except CommitFailedError:
            return False
        return True

    return all(racers.map(commit, [DeltaTable(place, storage_options=options) for _ in range(RACERS)]))
