"""The one definition of each record and the forms generated from it."""

from __future__ import annotations

import json

import jsonschema
import pyarrow as pa
import pytest

from controller.agent import records as wire
from controller.domain.entries import FIELDS, Entry, Kind
from controller.domain.errors import BadRecord
from controller.domain.events import parse_assign_request, parse_broker_event, parse_command, parse_heartbeat
from controller.domain.ids import Bundle, Session
from controller.domain.load import BUNDLE_FIELDS, RESOURCES
from schemas.arrow import arrow_schema, arrow_table
from schemas.catalog import TABLES
from schemas.delta import delta_ddl, delta_properties
from schemas.generate import generate_files, stale, write
from schemas.json_schema import json_schema
from schemas.record import LONG, STRING, Field, ListOf, MapOf, Record, Struct
from schemas.spark import ddl_type
from schemas.units import FIELD_UNITS, RESOURCE_UNITS
from schemas.wire import RECORDS

SESSION = Session("127.0.0.1:8080", 3, "abc123", 2)
BUNDLE = "public/default/0x00000000_0x40000000"


def test_golden_files_are_what_is_generated() -> None:
    assert stale() == [], "run `python -m schemas.generate --write` and look at the difference"


def test_write_brings_a_stale_tree_up_to_date(tmp_path) -> None:
    left_over = tmp_path / "tests/golden/schemas/gone.json"
    left_over.parent.mkdir(parents=True)
    left_over.write_text("{}")
    changed = write(tmp_path)
    assert set(changed) == {*generate_files(), "tests/golden/schemas/gone.json"}
    assert stale(tmp_path) == []
    assert not left_over.exists()
    (tmp_path / "docs/tables.md").write_text("edited by hand")
    assert stale(tmp_path) == ["docs/tables.md"]


@pytest.mark.parametrize("name", [*RECORDS, *TABLES])
def test_json_schemas_are_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema({**RECORDS, **TABLES}[name]))


def test_journal_columns_are_the_fields_of_an_entry_in_order() -> None:
    assert TABLES["journal"].names == FIELDS
    assert RECORDS["journal_entry"].names == FIELDS
    required = {f.name for f in TABLES["journal"] if not f.nullable}
    assert required == {"seq", "kind", "instance", "batch", "at_ms"}


def test_every_resource_and_bundle_field_has_a_unit_and_its_columns() -> None:
    assert tuple(RESOURCE_UNITS) == RESOURCES
    assert tuple(FIELD_UNITS) == BUNDLE_FIELDS
    panes = TABLES["broker_panes"].names
    for name in RESOURCES:
        assert {f"{name}_usage_sum", f"{name}_usage_max", f"{name}_limit_sum", f"{name}_known"} <= set(panes)
        assert f"{name}_utilisation" in TABLES["broker_scores"].names
        assert f"{name}_utilisation_long" in TABLES["broker_load"].names
    for name in BUNDLE_FIELDS:
        assert f"{name}_sum" in panes
        assert {f"{name}_sum", f"{name}_max"} <= set(TABLES["bundle_panes"].names)
        assert name in TABLES["broker_load"].names
        assert name in TABLES["bundle_load"].names


def _accepts(name: str, document: object) -> bool:
    return jsonschema.Draft202012Validator(json_schema(RECORDS[name])).is_valid(document)


_PARSERS = {
    "heartbeat": parse_heartbeat,
    "tick": parse_heartbeat,
    "broker_event": parse_broker_event,
    "assign_request": parse_assign_request,
    "command": parse_command,
}
_GOOD = {
    "heartbeat": wire.heartbeat(SESSION, 7, 1_000, {"runtime": "reference"}),
    "tick": {"v": 1, "kind": "tick", "instance": "i1", "seq": 7, "sent_ms": 1_000, "boot_ms": 5},
    "broker_event": wire.event(SESSION, "released", 7, 1_000, bundle=BUNDLE, epoch=3),
    "assign_request": wire.assign_request(SESSION.broker, Bundle.parse(BUNDLE), 1_000),
    "command": {"v": 1, "id": "c1", "kind": "drain", "args": {"broker": "b"}, "who": "me", "why": "test", "sent_ms": 1},
}
_BROKEN = [
    (record, field, value)
    for record, fields in {
        "heartbeat": ("v", "broker", "incarnation", "nonce", "session", "applied_seq"),
        "tick": ("v", "instance", "seq", "boot_ms"),
        "broker_event": ("v", "kind", "broker", "incarnation", "nonce", "session", "applied_seq", "bundle", "epoch"),
        "assign_request": ("v", "broker", "bundle"),
        "command": ("v", "id", "kind", "args"),
    }.items()
    for field in fields
    for value in (-1, 2**60, [], "\x00 ü/", True, 0.5)
]


@pytest.mark.parametrize("name", _GOOD)
def test_what_agents_send_fits_schema_and_parser(name: str) -> None:
    document = _GOOD[name]
    assert _accepts(name, document)
    _PARSERS[name](json.dumps(document).encode())


@pytest.mark.parametrize(("name", "field", "value"), _BROKEN)
def test_what_the_schema_accepts_the_parser_accepts(name: str, field: str, value: object) -> None:
    document = {**_GOOD[name], field: value}
    try:
        _PARSERS[name](json.dumps(document).encode())
        parsed = True
    except BadRecord:
        parsed = False
    printable_is_not_a_pattern = field in ("instance", "id") or (name, field) == ("command", "kind")
    if printable_is_not_a_pattern and isinstance(value, str):
        assert not parsed
    elif (name, field) == ("command", "args") and value == []:
        assert parsed  # an empty list counts as no arguments
    else:
        assert parsed == _accepts(name, document)


def test_missing_required_fields_are_refused_by_schema_and_parser() -> None:
    for name, document in _GOOD.items():
        required = json_schema(RECORDS[name])["required"]
        for field in required:
            if (name, field) == ("tick", "kind"):
                continue  # without it the record is a heartbeat
            less = {k: v for k, v in document.items() if k != field}
            assert not _accepts(name, less)
            with pytest.raises(BadRecord):
                _PARSERS[name](json.dumps(less).encode())


def test_a_journal_entry_on_the_feed_fits() -> None:
    entry = Entry(1, Kind.MODE, "i1", 0, 5, data={"mode": "live"})
    assert _accepts("journal_entry", entry.to_row())
    assert _accepts("journal_feed", {"v": 1, "instance": "i1", "entries": [entry.to_row()]})
    assert _accepts("journal_feed", {"v": 1, "instance": "i1", "seq": 9})
    assert not _accepts("journal_feed", {"v": 1, "instance": "i1", "entries": [{**entry.to_row(), "kind": "other"}]})


def _load_report() -> dict[str, object]:
    stats = dict.fromkeys(BUNDLE_FIELDS, 1.5)
    return {
        **wire.heartbeat(SESSION, 7, 1_000, {}),
        "sequence": 4,
        "resources": {name: {"usage": 5.0, "limit": -1.0} for name in RESOURCES},
        "rpc_queue_ms": 0.2,
        "metadata_latency_ms": 1.0,
        "totals": {**stats, "bundles": 2},
        "bundles": [{"bundle": BUNDLE, **stats, "partitioned_topics": ["persistent://public/default/t"]}],
        "tail": None,
    }


def test_load_report_with_and_without_tail() -> None:
    report = _load_report()
    assert _accepts("load_report", report)
    assert _accepts("load_report", {k: v for k, v in report.items() if k != "tail"})
    assert not _accepts("load_report", {**report, "tail": {"bundles": 3}})
    assert not _accepts("load_report", {**report, "resources": {}})
    assert not _accepts("load_report", {**report, "totals": {**report["totals"], "backlog_bytes": "12"}})  # type: ignore[dict-item]


def test_arrow_table_has_exactly_the_columns_and_names_what_does_not_fit() -> None:
    record = Record("r", "a record", (Field("a", LONG, "ms", "one"), Field("b", STRING, "", "two", nullable=True)))
    table = arrow_table(record, [{"a": 1, "unknown": 3}])
    assert table.schema == pa.schema([pa.field("a", pa.int64(), False), pa.field("b", pa.string())])
    assert table.to_pylist() == [{"a": 1, "b": None}]
    assert arrow_table(record, []).num_rows == 0
    with pytest.raises(ValueError, match=r"r\.a is null in row"):
        arrow_table(record, [{"a": 1}, {"b": "x"}])
    with pytest.raises(pa.ArrowInvalid, match="column a"):
        arrow_table(record, [{"a": "one"}])
    assert arrow_schema(record, comments=True).field("a").metadata == {b"comment": b"one [ms]"}


def test_the_arrow_form_has_the_types_of_the_ddl() -> None:
    types = {"STRING": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
    for record in TABLES.values():
        fields = {f.name: (types[ddl_type(f.type)], f.nullable) for f in record}
        assert {f.name: (f.type, f.nullable) for f in arrow_schema(record)} == fields, record.name
    nested = Struct((Field("a", ListOf(LONG), "", "one"), Field("b", MapOf(STRING), "", "two", nullable=True)))
    (found,) = arrow_schema(Record("r", "a record", (Field("s", nested, "", "three"),)))
    no_nulls = pa.field("element", pa.int64(), False), pa.field("value", pa.string(), False)
    inner = [pa.field("a", pa.list_(no_nulls[0]), False), pa.field("b", pa.map_(pa.string(), no_nulls[1]))]
    assert found.type == pa.struct(inner)


def test_tables_are_readable_by_agents_and_kept_small() -> None:
    for record in TABLES.values():
        properties = delta_properties(record)
        assert properties["delta.enableDeletionVectors"] == "false"
        assert properties["delta.columnMapping.mode"] == "none"
        assert properties["delta.checkpointPolicy"] == "classic"
        assert "COMMENT '" in delta_ddl(record)
    assert {name for name in TABLES if "delta.appendOnly" in delta_properties(TABLES[name])} == {
        "journal",
        "config_history",
    }
    with pytest.raises(ValueError, match="wire record"):
        delta_properties(RECORDS["command"])


def test_definitions_refuse_mistakes() -> None:
    with pytest.raises(ValueError, match="twice"):
        Record("r", "x", (Field("a", LONG, "", "one"), Field("a", LONG, "", "two")))
    with pytest.raises(ValueError, match="snake"):
        Field("Bad", LONG, "", "one")
    with pytest.raises(ValueError, match="comment"):
        Field("a", LONG, "", "it's")
    with pytest.raises(KeyError, match="has no field"):
        TABLES["journal"]["nope"]
