"""The Arrow form, which delta-rs reads and writes. Comments and units are field metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from schemas.record import Field, ListOf, MapOf, Record, Scalar, Struct, Type

_SCALARS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "object": pa.string(),
}


def arrow_schema(record: Record, comments: bool = False) -> pa.Schema:
    """The record's schema; with `comments`, each field's metadata holds its comment under the key `comment`."""
    return pa.schema([_field(f, comments) for f in record])


def arrow_table(record: Record, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table with exactly the record's columns; unknown keys of a row are dropped, missing ones are null.

    Raises pyarrow.ArrowInvalid, naming the column, for a value that does not fit, and ValueError for a null in a column
    that is not nullable.
    """
    columns = list(rows)
    schema = arrow_schema(record)
    arrays = [_array(f, [row.get(f.name) for row in columns]) for f in schema]
    for f, array in zip(schema, arrays, strict=True):
        if not f.nullable and array.null_count:
            raise ValueError(f"{record.name}.{f.name} is null in row {columns[array.is_null().index(True).as_py()]!r}")
    return pa.Table.from_arrays(arrays, schema=schema)


def fill_columns(record: Record, rows: pa.Table, constants: Mapping[str, Any]) -> pa.Table:
    """The rows with exactly the record's columns and types, of which those in `constants` have one value. Raises
    KeyError if a column is missing."""
    schema = arrow_schema(record)
    arrays = []
    for f in schema:
        if f.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[f.name], f.type), rows.num_rows))
        else:
            arrays.append(rows[f.name].cast(f.type))
    return pa.table(arrays, schema=schema)


def _array(f: pa.Field, values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, type=f.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise pa.ArrowInvalid(f"column {f.name}: {error}") from error


def _field(f: Field, comments: bool) -> pa.Field:
    return pa.field(f.name, _type(f.type), f.nullable, {"comment": f.full_comment} if comments else None)


def _type(type_: Type) -> pa.DataType:
    if isinstance(type_, Scalar):
        return _SCALARS[type_.name]
    if isinstance(type_, ListOf):
        return pa.list_(pa.field("element", _type(type_.item), nullable=False))
    if isinstance(type_, MapOf):
        return pa.map_(pa.string(), pa.field("value", _type(type_.value), nullable=False))
    assert isinstance(type_, Struct)
    return pa.struct([_field(f, comments=False) for f in type_.fields])
