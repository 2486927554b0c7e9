"""The JSON Schema form (draft 2020-12) of wire records, for other languages and for a foreign validator in tests.

Unknown keys are allowed everywhere: newer senders add fields, and receivers ignore unknown ones.
"""

from __future__ import annotations

from typing import Any

from schemas.record import Field, ListOf, MapOf, Record, Scalar, Struct, Type

_SCALARS = {"string": "string", "long": "integer", "double": "number", "boolean": "boolean", "object": "object"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(record: Record) -> dict[str, Any]:
    """The record as a JSON Schema document."""
    return {"$schema": DIALECT, "title": record.name, "description": record.comment, **_object(record.fields)}


def _object(fields: tuple[Field, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f.name: _property(f) for f in fields},
        "required": [f.name for f in fields if not f.nullable],
    }


def _property(f: Field) -> dict[str, Any]:
    document = _type(f.type)
    if f.nullable:
        document["type"] = [document["type"], "null"]
    rules = dict(f.rules)
    if f.nullable and "enum" in rules:
        rules["enum"] = [*rules["enum"], None]
    return {"description": f.full_comment, **document, **rules}


def _type(type_: Type) -> dict[str, Any]:
    if isinstance(type_, Scalar):
        return {"type": _SCALARS[type_.name]}
    if isinstance(type_, ListOf):
        return {"type": "array", "items": _type(type_.item)}
    if isinstance(type_, MapOf):
        return {"type": "object", "additionalProperties": _type(type_.value)}
    assert isinstance(type_, Struct)
    return _object(type_.fields)
