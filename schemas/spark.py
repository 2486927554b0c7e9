"""The Spark forms, as text and as data: DDL for `from_json`, and the JSON of a StructType. Does not import pyspark.

`StructType.fromJson(spark_struct(record))` equals what Spark parses from `spark_ddl(record)`, and in addition has
comments, and lists and maps without nulls.
"""

from __future__ import annotations

from typing import Any

from schemas.record import Field, ListOf, MapOf, Record, Scalar, Struct, Type

_DDL = {"string": "STRING", "long": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "object": "STRING"}
_JSON = {"string": "string", "long": "long", "double": "double", "boolean": "boolean", "object": "string"}


def spark_ddl(record: Record) -> str:
    """`name TYPE NOT NULL, …` for `from_json` and `createDataFrame`, one field per line."""
    return ",\n".join(f"`{f.name}` {ddl_type(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in record)


def spark_struct(record: Record, all_nullable: bool = False) -> dict[str, Any]:
    """The StructType's JSON. `all_nullable`: the form for parsing foreign input, where any field may be missing."""
    return _struct(record.fields, all_nullable)


def ddl_type(type_: Type) -> str:
    """One type as Spark SQL writes it."""
    if isinstance(type_, Scalar):
        return _DDL[type_.name]
    if isinstance(type_, ListOf):
        return f"ARRAY<{ddl_type(type_.item)}>"
    if isinstance(type_, MapOf):
        return f"MAP<STRING, {ddl_type(type_.value)}>"
    assert isinstance(type_, Struct)
    inner = ", ".join(f"{f.name}: {ddl_type(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in type_.fields)
    return f"STRUCT<{inner}>"


def _struct(fields: tuple[Field, ...], all_nullable: bool) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field(f, all_nullable) for f in fields]}


def _field(f: Field, all_nullable: bool) -> dict[str, Any]:
    return {
        "name": f.name,
        "type": _type(f.type, all_nullable),
        "nullable": f.nullable or all_nullable,
        "metadata": {"comment": f.full_comment},
    }


def _type(type_: Type, all_nullable: bool) -> Any:
    if isinstance(type_, Scalar):
        return _JSON[type_.name]
    if isinstance(type_, ListOf):
        return {"type": "array", "elementType": _type(type_.item, all_nullable), "containsNull": all_nullable}
    if isinstance(type_, MapOf):
        value = _type(type_.value, all_nullable)
        return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": all_nullable}
    assert isinstance(type_, Struct)
    return _struct(type_.fields, all_nullable)
