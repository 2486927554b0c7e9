"""The size of a table as its newest version has it. Dead files that still lie in the store are not counted."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from controller.ledger.tables import TableRoot

LOG_FOLDER = "_delta_log"


@dataclass(frozen=True, slots=True)
class TableSize:
    """`files`: data files, `size_bytes` of them together. `log_files`: commits and checkpoints in the log."""

    files: int
    size_bytes: int
    log_files: int


def measure_table(tables: TableRoot, name: str) -> TableSize:
    """Measure one table: its newest version and a listing of its log. Raises DeltaError, OSError, LogGone."""
    sizes = pa.table(tables.open(name).get_add_actions()).column("size_bytes")
    listed = tables.log(name).files.get_file_info(pafs.FileSelector(LOG_FOLDER, recursive=False))
    log_files = sum(info.type == pafs.FileType.File for info in listed)
    return TableSize(len(sizes), pc.sum(sizes).as_py() or 0, log_files)
