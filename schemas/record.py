"""The language in which every record is defined once: types, fields, records, table options.

A `Record` has ordered fields, each with a type, a unit and a comment. Other modules of this package convert it to JSON
Schema (`json_schema`), Arrow (`arrow`), Spark (`spark`) and Delta DDL (`delta`). This one imports none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class Scalar:
    """string, long (64 bits), double or boolean; `object` is any JSON object (JSON text in tables)."""

    name: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list without nulls."""

    item: Type


@dataclass(frozen=True, slots=True)
class MapOf:
    """String keys to values, without nulls."""

    value: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """A nested record."""

    fields: tuple[Field, ...]


Type = Scalar | ListOf | MapOf | Struct

STRING = Scalar("string")
LONG = Scalar("long")
DOUBLE = Scalar("double")
BOOLEAN = Scalar("boolean")
OBJECT = Scalar("object")


@dataclass(frozen=True, slots=True)
class Field:
    """One field or column. `unit` is part of the column's comment; "" where there is none.

    `nullable`: the value may be null, and on the wire the key may be absent. `rules` are JSON Schema keywords
    (minimum, pattern, enum, …) for wire records only; tables are written by our own code.
    """

    name: str
    type: Type
    unit: str
    comment: str
    nullable: bool = False
    rules: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"field name {self.name!r} is not lower_snake_case; rename it")
        if not self.comment or "'" in self.comment or '"' in self.comment or "\n" in self.comment:
            raise ValueError(f"comment of {self.name} is empty or has quotes or line breaks: {self.comment!r}")

    @property
    def full_comment(self) -> str:
        """The comment with its unit, as columns carry it."""
        return f"{self.comment} [{self.unit}]" if self.unit else self.comment


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of a Delta table. Retention is in minutes, because a table with a commit a second fills a disk in days.

    `append_only` forbids deletes and updates of rows, but not compaction; only the clean-up of expired rows lifts it,
    for one commit. `key` are the columns that identify a row, for readers. `statistics` are the columns by which
    readers skip files; Delta's default would be the first 32, including long JSON text. `expires_by` is the column (ms
    since epoch, with statistics) that gives a row's age, `kept_as` the key in the configuration's section `retention`
    with the number of days to keep it; without these, rows stay. `tended_by_writer`: the controller cleans up the log
    (`controller.ledger.cleanup`), not whichever commit writes a checkpoint.
    """

    append_only: bool = False
    checkpoint_interval: int = 50  # commits between checkpoints; readers replay at most this many small files
    log_retention_minutes: int = 6 * 60
    deleted_file_retention_minutes: int = 6 * 60
    key: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    expires_by: str = ""
    kept_as: str = ""
    tended_by_writer: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A wire record (`table` is None) or a Delta table."""

    name: str
    comment: str
    fields: tuple[Field, ...]
    table: TableOptions | None = None

    def __post_init__(self) -> None:
        names = self.names
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"record {self.name} has {sorted(twice)} twice; rename one")
        for columns in (self.table.key, self.table.statistics) if self.table else ():
            if not set(columns) <= set(names):
                raise ValueError(f"record {self.name}: {columns} names what is no column; columns are {names}")
        if self.table and self.table.expires_by and self.table.expires_by not in self.table.statistics:
            raise ValueError(f"record {self.name} expires by {self.table.expires_by}, which has no statistics; add it")

    @property
    def names(self) -> tuple[str, ...]:
        """Field names in order."""
        return tuple(f.name for f in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __getitem__(self, name: str) -> Field:
        """The field of that name. Raises KeyError naming the record."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise KeyError(f"{self.name} has no field {name!r}; fields are {', '.join(self.names)}")
