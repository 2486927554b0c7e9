"""Reads the rows of a table in a range of one column, from only those files whose statistics may contain them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from controller.ledger.damage import DamagedTable, MissingFile, find_data_fault, find_size_fault
from controller.ledger.delta_log import AddedFile, DeltaLog
from schemas.arrow import arrow_schema
from schemas.record import Record

OPEN_ATTEMPTS = 5
_T = TypeVar("_T")


def retry_on_vacuum(read: Callable[[], _T]) -> _T:
    """Call `read`, which opens and reads a table, again when VACUUM removes a file in between; returns its result.

    Compaction and overwriting replace files and VACUUM removes the replaced ones; a new handle names the new files.
    """
    for _ in range(OPEN_ATTEMPTS - 1):
        try:
            return read()
        except FileNotFoundError:
            continue
    return read()


def read_range(
    table: DeltaTable,
    log: DeltaLog,
    record: Record,
    column: str,
    above: int,
    up_to: int | None = None,
    columns: Sequence[str] | None = None,
    equal: Mapping[str, str] | None = None,
    among: Sequence[int] | None = None,
    given: Sequence[str] = (),
) -> pa.Table:
    """The rows with above < column <= up_to at the handle's version, in no particular order.

    `equal`: text columns and the values that they must have. `among`: the few values that `column` may have. `given`:
    columns that must not be null. Columns that a file lacks are null, columns that the record lacks are left out, since
    writers of other versions may have other columns. Raises MissingFile when VACUUM has removed a file since the handle
    was opened, DamagedTable.
    """
    schema = arrow_schema(record)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    paths = paths_in_range(table, column, above, up_to)
    if not paths:
        return schema.empty_table()
    wanted = pc.field(column) > above
    if up_to is not None:
        wanted = wanted & (pc.field(column) <= up_to)
    for name, value in (equal or {}).items():
        wanted = wanted & (pc.field(name) == value)
    for name in given:
        wanted = wanted & pc.field(name).is_valid()
    if among is not None:  # not `isin`: only comparisons are held against the statistics of row groups
        wanted = wanted & reduce(or_, (pc.field(column) == value for value in among), pc.scalar(False))
    import pyarrow.dataset as pads  # with it comes pandas (controller/process/quick_start.py)

    known = _all_nullable(schema, record, column, *(equal or {}), *given)
    with name_damage(log, paths):
        files = pads.dataset(paths, schema=known, filesystem=log.data_files, format="parquet")
        return files.to_table(columns=schema.names, filter=wanted)


@contextmanager
def name_damage(log: DeltaLog, paths: Sequence[str]) -> Iterator[None]:
    """Raise DamagedTable in place of an error of Arrow if one of these data files is damaged, MissingFile for one that
    is not there. What the store itself says is raised as it is."""
    try:
        yield
    except FileNotFoundError:
        missing = [path for path in paths if not log.has_file(path)]
        if missing:
            raise MissingFile(log.uri, missing[0], "is missing") from None
        raise
    except (pa.ArrowException, OSError) as error:
        for path in paths:
            fault = find_data_fault(log.read_file(path))
            if fault:
                raise DamagedTable(log.uri, path, fault) from error
        raise


def find_damaged_file(table: DeltaTable, log: DeltaLog) -> DamagedTable | None:
    """The first data file of this version that is missing or has another size than was committed; None if none is.

    Costs a listing. Raises DeltaError or OSError when the store does not answer.
    """
    lying = log.list_data_files()
    for row in pa.table(table.get_add_actions()).select(["path", "size_bytes"]).to_pylist():
        if fault := find_size_fault(row["path"], row["size_bytes"], lying):
            return DamagedTable(log.uri, row["path"], fault)
    return None


def paths_in_range(table: DeltaTable, column: str, above: int, up_to: int | None = None) -> list[str]:
    """The paths of files that may have rows with above < column <= up_to, including files without statistics."""
    actions = pa.table(table.get_add_actions(flatten=True))
    if not actions.num_rows:
        return []
    keep = pa.chunked_array([pa.array([True] * actions.num_rows)])
    if f"max.{column}" in actions.column_names:
        keep = pc.and_(keep, pc.fill_null(pc.greater(actions[f"max.{column}"], above), True))
    if up_to is not None and f"min.{column}" in actions.column_names:
        keep = pc.and_(keep, pc.fill_null(pc.less_equal(actions[f"min.{column}"], up_to), True))
    paths: list[str] = actions.filter(keep)["path"].to_pylist()
    return paths


def read_added(log: DeltaLog, added: AddedFile, record: Record) -> pa.Table:
    """The rows of a file that a commit added; unknown columns are left out, missing ones are null.

    Raises MissingFile, DamagedTable.
    """
    with name_damage(log, [added.path]), log.open_file(added.path) as file:
        parquet = pq.ParquetFile(file)
        present = set(parquet.schema_arrow.names)
        found = parquet.read(columns=[name for name in record.names if name in present])
    schema = _all_nullable(arrow_schema(record), record)
    arrays = [found[f.name].cast(f.type) if f.name in present else pa.nulls(found.num_rows, f.type) for f in schema]
    return pa.table(arrays, schema=schema)


def _all_nullable(schema: pa.Schema, record: Record, *also: str) -> pa.Schema:
    whole = arrow_schema(record)
    added = [whole.field(name) for name in dict.fromkeys(also) if name not in schema.names]
    return pa.schema([pa.field(f.name, f.type) for f in (*schema, *added)])
