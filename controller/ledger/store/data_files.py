"""Data files that a task of Spark stores in an object store, for the driver to commit.

Such a file is named by its content. So whoever has its bytes knows its name, and a task that runs again stores the same
object again. Without the commit that names it, it is no part of the table, and maintenance removes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import pyarrow as pa

PART_BYTES = 2**20


@dataclass(frozen=True)
class FileSink:
    """Where a table's data files are; credentials are those of whoever stores."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def store(self, content: bytes) -> None:
        """Store a file. Raises OSError or DeltaError if the store does not take it."""
        from controller.ledger.delta_log import DeltaLog  # most tasks store nothing, and with it comes TLS

        files = DeltaLog(self.uri, self.storage_options).data_files
        raw = files.open_output_stream(name_by_content(content))
        with pa.BufferedOutputStream(raw, 2 * PART_BYTES) as stream:  # raw takes only what a buffer held
            for begin in range(0, len(content), PART_BYTES):
                stream.write(content[begin : begin + PART_BYTES])


def name_by_content(content: bytes) -> str:
    """The file's name, as delta-rs names files."""
    return file_name(UUID(bytes=hashlib.sha256(content).digest()[:16]))


def file_name(unique: UUID) -> str:
    """A name as delta-rs gives."""
    return f"part-00000-{unique}-c000.snappy.parquet"
