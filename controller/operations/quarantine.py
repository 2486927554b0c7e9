"""Records from outside that broke a rule, as the table `quarantine` keeps them.

A record's name is its place in Kafka, `TOPIC-PARTITION@OFFSET`. A batch that ran twice may have stored it twice; it is
shown once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller.config.settings import Settings
from controller.domain.errors import BadRecord, few_text, label, shown
from controller.loads.rules import RULES
from controller.operations.reading import NothingNamed, Reader
from schemas.load_tables import QUARANTINE

_RAW = ("raw", "raw_base64")
_LISTED = [name for name in QUARANTINE.names if name not in _RAW]
_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)@(?P<offset>\d+)")
_OF_FIELD = "field_"  # begins the rules about one field of a control record
CONTROL_RULES = (
    *("empty", "too_large", "not_json", "not_object", "too_deep", "not_unicode", "duplicate_key", "version"),
    *("broker_id", "nonce", "key_mismatch", "group_mismatch", "bundle_name", "split_boundary", "heartbeat_info"),
    *("event_kind", "event_bundle", "event_serving", "command_args", "parser_failed"),
)
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


def check_filters(reader: Reader, settings: Settings, rule: str | None, topic: str | None) -> None:
    """Raise BadRecord for an unknown rule or topic. What a kept record names is known: another version or configuration
    may have written it."""
    names = settings.kafka.topics
    if rule is not None and not rule.startswith(_OF_FIELD):
        _check_known(reader, "rule", rule, (*RULES, *CONTROL_RULES))
    if topic is not None:
        _check_known(reader, "topic", topic, (*names.all_load_reports, *names.control))


def _check_known(reader: Reader, column: str, value: str, known: Iterable[str]) -> None:
    """The error lists the names of kept records first: one of them was most likely meant."""
    kept = reader.rows("quarantine", "detected_ms", columns=[column])[column].unique().to_pylist()
    names = list(dict.fromkeys((*sorted(kept), *known)))
    if value not in names:
        raise BadRecord(column, f"--{column} {label(value)} is none of {few_text(names)}")


def quarantined_record(reader: Reader, name: str) -> Row:
    """A record with its content. Raises BadRecord for what is no name of a record, NothingNamed."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise BadRecord(
            "name",
            f"{shown(name)} names no record: give TOPIC-PARTITION@OFFSET, as `ballast quarantine list` prints it",
        )
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
