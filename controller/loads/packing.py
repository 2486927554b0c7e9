"""Tables as bytes, on their way from a task to the driver: half the size of plain Arrow streams, and as cheap to make.

Spark copies these bytes about ten times between a Python worker and the driver, so their number counts. Two things
repeat in panes: names and times, which become dictionaries, and a pane's largest values, which are its sums while it
has one report. Lossless: the table that comes out equals the one that went in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

REPEATED = ("pane_end_ms", "broker", "namespace", "reports")  # columns of few distinct values
SUM, MAX = "_sum", "_max"
_LAYOUT = b"ballast.columns"  # all columns in order; those that are not in the stream equal their sums
_INDEX_TYPES = (pa.int8(), pa.int16())


def pack(table: pa.Table) -> bytes:
    """The table as an Arrow stream."""
    kept = {name: table[name] for name in table.column_names if not _is_its_sum(table, name)}
    for name in REPEATED:
        if name in kept:
            kept[name] = _encode(kept[name].combine_chunks())
    packed = pa.table(kept).replace_schema_metadata({_LAYOUT: json.dumps(table.column_names)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, packed.schema) as stream:
        stream.write_table(packed)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack(content: bytes) -> pa.Table:
    """The table that was packed."""
    packed = pa.ipc.open_stream(content).read_all()
    names: Iterable[str] = json.loads(packed.schema.metadata[_LAYOUT])
    stored = {name: _decode(packed[name]) for name in packed.column_names}
    return pa.table({name: stored[name if name in stored else _sum_of(name)] for name in names})


def _sum_of(name: str) -> str:
    return name.removesuffix(MAX) + SUM


def _is_its_sum(table: pa.Table, name: str) -> bool:
    summed = _sum_of(name)
    return name.endswith(MAX) and summed in table.column_names and bool(table[name].equals(table[summed]))


def _encode(column: pa.Array) -> pa.Array:
    coded = column.dictionary_encode()
    for narrow in _INDEX_TYPES:
        if len(coded.dictionary) < 2 ** (narrow.bit_width - 1):
            return pa.DictionaryArray.from_arrays(coded.indices.cast(narrow), coded.dictionary)
    return column


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
