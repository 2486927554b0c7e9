"""The rows of docs/coverage.md, read from docs/coverage_rows.yaml and checked.

A row is one feature, knob or behaviour that the source documents describe. Whether it is shown follows from the tests
with the row's id. Only rows that are out of scope say so here, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from controller.process.paths import ROOT

ROWS = ROOT / "docs" / "coverage_rows.yaml"
KINDS = ("feature", "knob", "behaviour")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class BadRows(ValueError):
    """The rows file is invalid; the message names the row and what would be valid."""


@dataclass(frozen=True, slots=True)
class Row:
    """`says`: what the documents describe. `default`: what Ballast does by default. `other`: how to get the other
    behaviour that the documents describe. `conflict`: who says what, if documents or measurements disagree. `missing`:
    what a row without tests lacks. `out_of_scope`: why Ballast leaves it to others.
    """

    id: str
    documents: tuple[str, ...]
    kind: str
    says: str
    default: str = ""
    other: str = ""
    conflict: str = ""
    missing: str = ""
    out_of_scope: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The content of the rows file. `documents`: key -> (name in the page, what it is)."""

    documents: Mapping[str, tuple[str, str]]
    sections: tuple[tuple[str, tuple[Row, ...]], ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all sections, in order."""
        return tuple(row for _, rows in self.sections for row in rows)


def load(path: Path = ROWS) -> Coverage:
    """Load the rows. Raises BadRows if they are invalid, yaml.YAMLError if the file is no YAML."""
    return parse(yaml.safe_load(path.read_text(encoding="utf-8")))


def parse(raw: Any) -> Coverage:
    """Parse the rows from the parsed YAML. Raises BadRows."""
    documents = {key: (text["name"], text["what"]) for key, text in raw["documents"].items()}
    sections = tuple(
        (section["title"], tuple(_row(row, documents) for row in section["rows"])) for section in raw["sections"]
    )
    seen: set[str] = set()
    for row in (row for _, rows in sections for row in rows):
        if row.id in seen:
            raise BadRows(f"row {row.id!r} is there twice: give one of them another id")
        seen.add(row.id)
    return Coverage(documents, sections)


def _row(raw: Mapping[str, Any], documents: Mapping[str, Any]) -> Row:
    given: dict[str, Any] = {**raw, "documents": tuple(raw.get("documents", ()))}
    known = {field.name for field in fields(Row)}
    name = given.get("id")
    if unknown := sorted(given.keys() - known):
        raise BadRows(f"row {name!r} has {', '.join(unknown)}; a row has {', '.join(sorted(known))}, no other field")
    values: dict[str, Any] = {k: value.strip() if isinstance(value, str) else value for k, value in given.items()}
    row = Row(**values)
    complaint = _complaint(row, documents)
    if complaint:
        raise BadRows(f"row {row.id!r}: {complaint}")
    return row


def _complaint(row: Row, documents: Mapping[str, Any]) -> str | None:
    checks = (
        (bool(_ID.fullmatch(row.id)), "an id is lower-case words joined by hyphens"),
        (bool(row.documents), "no document describes it"),
        (set(row.documents) <= documents.keys(), f"documents are {', '.join(documents)}, not {row.documents}"),
        (row.kind in KINDS, f"kind {row.kind!r} is none of {', '.join(KINDS)}"),
        (bool(row.says), "it does not say what is described"),
        (bool(row.default) != bool(row.out_of_scope), "either `default` or `out_of_scope`, and not both"),
        (not (row.out_of_scope and (row.missing or row.other)), "what is out of scope has no other way"),
    )
    return next((wrong for good, wrong in checks if not good), None)
