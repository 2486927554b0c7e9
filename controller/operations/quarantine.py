"""Records from outside that broke a rule, as the table `quarantine` keeps them.

A record's name is its place in Kafka, `TOPIC-PARTITION@OFFSET`. A batch that ran twice may have stored it twice; it is
shown once.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.domain.errors import BadRecord
from controller.operations.explain import NothingNamed
from controller.operations.reading import Reader
from schemas.load_tables import QUARANTINE

_RAW = ("raw", "raw_base64")
_LISTED = [name for name in QUARANTINE.names if name not in _RAW]
_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)@(?P<offset>\d+)")
Row = dict[str, Any]


def quarantined(
    reader: Reader, since_ms: int, rule: str | None = None, topic: str | None = None, source: str | None = None
) -> list[Row]:
    """The records found since then, newest first, without their content; only those of a rule, topic or source."""
    given = {"rule": rule, "topic": topic, "source": source}
    wanted = {column: value for column, value in given.items() if value is not None}
    found = reader.rows("quarantine", "detected_ms", above=since_ms - 1, columns=_LISTED, equal=wanted)
    rows = _once(found)
    return sorted(rows, key=lambda row: (-row["detected_ms"], row["record"]))


def count_rules(rows: list[Row], column: str = "rule") -> dict[str, int]:
    """How many of the records broke each rule, most frequent first; or have each value of another column."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[column]] = counts.get(row[column], 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def quarantined_record(reader: Reader, name: str) -> Row:
    """A record with its content. Raises BadRecord for what is no name of a record, NothingNamed."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise BadRecord("name", f"{name!r} names no record: give TOPIC-PARTITION@OFFSET, as `ballast quarantine list`")
    found = reader.rows("quarantine", "detected_ms", columns=QUARANTINE.names, equal={"topic": parts["topic"]})
    at = pc.and_(
        pc.equal(found["partition"], int(parts["partition"])), pc.equal(found["kafka_offset"], int(parts["offset"]))
    )
    rows = _once(found.filter(at)) if found.num_rows else []
    if not rows:
        raise NothingNamed(
            f"no record {name} is in quarantine: `ballast quarantine list --since 7d` lists those that are kept"
        )
    return rows[0]


def _once(found: pa.Table) -> list[Row]:
    """Each record once, with its name as `record`."""
    rows = {f"{row['topic']}-{row['partition']}@{row['kafka_offset']}": row for row in found.to_pylist()}
    return [{"record": name, **row} for name, row in rows.items()]
