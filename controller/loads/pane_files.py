"""Panes of bundles as bytes, from a task to the driver: of many rows, the Parquet file that it has only to store.

So executors encode what they have summed, side by side, and wait for no more than the driver's commit. Such a file has
half the bytes of the packed table, too, and Spark copies them about ten times. Of few rows the packed table travels
(`controller.loads.packing`), and the driver makes one file of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from controller.ledger.store.data_files import FileSink
from controller.loads.layout import BUNDLE, MARKER
from controller.loads.packing import pack, unpack
from schemas.arrow import fill_columns
from schemas.catalog import TABLES
from schemas.record import DOUBLE

PANES = TABLES[BUNDLE.panes]
_PARQUET = b"PAR1"  # what a file begins with; an Arrow stream does not


def make_file(panes: pa.Table, marker: Mapping[str, str | int]) -> bytes:
    """A Parquet file of the table, with settings like `driver_writer.parquet_of`. `marker`: the columns that identify
    the batch."""
    from pyarrow.parquet import write_table  # most tasks make no file, and with it comes TLS

    sink = pa.BufferOutputStream()
    write_table(
        fill_columns(PANES, panes, marker),
        sink,
        compression="SNAPPY",
        use_dictionary=[f.name for f in PANES if f.type != DOUBLE],
        write_statistics=list(PANES.table.statistics if PANES.table else ()),
        store_schema=False,
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def pack_panes(
    panes: pa.Table, marker: Mapping[str, str | int], file_from_rows: int | None, sink: FileSink | None = None
) -> bytes:
    """The panes for the driver, from so many rows on as a file; None: never. `sink`: where the file is stored as well,
    so that the driver has only to commit it."""
    if file_from_rows is None or panes.num_rows < file_from_rows:
        return pack(panes)
    content = make_file(panes, marker)
    if sink is not None:
        sink.store(content)
    return content


def unpack_panes(part: bytes) -> pa.Table:
    """The panes that were packed either way, without the marker's columns."""
    if not part.startswith(_PARQUET):
        return unpack(part)
    from pyarrow.parquet import ParquetFile

    rows = ParquetFile(pa.BufferReader(part)).read()
    return pa.table({name: rows[name] for name in rows.column_names if name not in MARKER})


def files_of(parts: Sequence[bytes], marker: Mapping[str, str | int]) -> tuple[list[bytes], list[bytes]]:
    """The files among what tasks packed, and one of all the rest, if any; none of both if no task has made any."""
    files = [part for part in parts if part.startswith(_PARQUET)]
    others = [unpack(part) for part in parts if not part.startswith(_PARQUET)]
    return files, [make_file(pa.concat_tables(others), marker)] if files and others else []
