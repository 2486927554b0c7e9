"""Data files that a task of Spark stores in an object store, for the driver to commit.

Such a file is named by its content. So whoever has its bytes knows its name, and a task that runs again stores the same
object again. Without the commit that names it, it is no part of the table, and maintenance removes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa

from controller.domain.errors import BallastError, first_line

if TYPE_CHECKING:
    from pyarrow import fs as pafs

PART_BYTES = 2**20
PROBE = b"stored by a task, to see whether it may"
NEEDED = (
    "with loads.tasks_store_files Spark's workers need credentials for the object store"
    " (docs/operations.md#a-cluster-of-your-own)"
)


class NotStored(BallastError):
    """Raised when the store does not take a file from here."""


@dataclass(frozen=True)
class FileSink:
    """Where a table's data files are; credentials are those of whoever stores."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def store(self, content: bytes) -> None:
        """Store a file. Raises NotStored."""
        try:
            files = self._files()
            raw = files.open_output_stream(name_by_content(content))
            with pa.BufferedOutputStream(raw, 2 * PART_BYTES) as stream:  # raw takes only what a buffer held
                for begin in range(0, len(content), PART_BYTES):
                    stream.write(content[begin : begin + PART_BYTES])
        except Exception as error:  # of Arrow, of delta-rs or of the store's client, which name no common one
            raise NotStored(f"{self.uri} takes no file from a task: {first_line(error)}; {NEEDED}") from error

    def find_refusal(self) -> str:
        """Why the store takes no file from here; empty if it does. Stores one, and removes it again."""
        try:
            self.store(PROBE)
        except NotStored as error:
            return str(error)
        with suppress(Exception):  # another task was first, or none may delete: maintenance removes it
            self._files().delete_file(name_by_content(PROBE))
        return ""

    def _files(self) -> pafs.FileSystem:
        from controller.ledger.delta_log import DeltaLog  # most tasks store nothing, and with it comes TLS

        return DeltaLog(self.uri, self.storage_options).data_files


def name_by_content(content: bytes) -> str:
    """The file's name, as delta-rs names files."""
    return file_name(UUID(bytes=hashlib.sha256(content).digest()[:16]))


def file_name(unique: UUID) -> str:
    """A name as delta-rs gives."""
    return f"part-00000-{unique}-c000.snappy.parquet"
