"""Creating and opening tables; evidence and quarantine rows."""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake import TableFeatures as Features

import controller.ledger.tables as tables_module
from controller.domain.decision import Decision, DecisionKind, Label, Reason, RoundResult
from controller.domain.entries import Entry, Kind
from controller.domain.errors import IncompatibleTable, OutcomeUnknown, describe_error
from controller.domain.load import RESOURCES
from controller.domain.overrides import Override
from controller.domain.state import ClusterState
from controller.domain.state_codec import decode
from controller.ledger.append import append, append_rows
from controller.ledger.evidence import read_joined, round_row, write_evidence
from controller.ledger.journal_commit import Journal
from controller.ledger.projections import Projections
from controller.ledger.raw_record import encode_raw
from controller.ledger.snapshots import Snapshots, load_state
from controller.ledger.tables import TableRoot
from controller.service.control_quarantine import quarantine_row
from schemas.arrow import arrow_schema, arrow_table
from schemas.catalog import TABLES
from schemas.delta import delta_properties


@pytest.fixture
def root(tmp_path: Path) -> TableRoot:
    return TableRoot(tmp_path / "tables")


def test_create_all_is_idempotent_and_sets_properties_and_comments(root: TableRoot) -> None:
    assert root.create_all() == list(TABLES)
    assert root.create_all() == []
    for name, record in TABLES.items():
        table = root.open(name)
        assert table.metadata().configuration == delta_properties(record)
        assert table.metadata().description == record.comment
        protocol = table.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
        found = {f.name: (f.nullable, f.metadata.get("comment")) for f in table.schema().fields}
        assert found == {f.name: (f.nullable, f.full_comment) for f in record}


def test_two_processes_may_create_at_once(root: TableRoot) -> None:
    created: list[list[str]] = []
    both = threading.Barrier(2)

    def create() -> None:
        both.wait()
        created.append(TableRoot(root.root).create_all())

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created[0] + created[1]) == sorted(TABLES)
    assert all(root.open(name).version() == 0 for name in TABLES)


def test_a_table_with_deletion_vectors_is_refused_with_the_remedy(root: TableRoot) -> None:
    root.create("brokers")
    root.open("brokers").alter.add_feature(Features.DeletionVectors, allow_protocol_versions_increase=True)
    with pytest.raises(IncompatibleTable, match=r"deletionVectors.*DROP FEATURE deletionVectors"):
        root.open("brokers")
    with pytest.raises(IncompatibleTable):
        root.create_all()


def test_allowed_features_are_opened(root: TableRoot) -> None:
    root.create("brokers")
    root.open("brokers").alter.add_feature(Features.ChangeDataFeed, allow_protocol_versions_increase=True)
    assert root.open("brokers").version() == 1


@pytest.mark.parametrize(
    ("reader", "writer", "feature"),
    [(2, 5, "columnMapping"), (1, 6, "identityColumns")],
)
def test_features_without_names_are_refused_too(root: TableRoot, reader: int, writer: int, feature: str) -> None:
    root.create("brokers")
    first = Path(root.uri("brokers")) / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": reader, "minWriterVersion": writer}
    first.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(IncompatibleTable, match=feature):
        root.open("brokers")


def without(root: TableRoot, name: str, *columns: str) -> None:
    """The table as a version created it that did not have these columns."""
    schema = arrow_schema(TABLES[name])
    DeltaTable.create(
        root.uri(name),
        pa.schema([f for f in schema if f.name not in columns]),
        configuration=delta_properties(TABLES[name]),
    )


def test_a_table_of_an_older_version_gains_the_columns_of_this_one(root: TableRoot) -> None:
    without(root, "overrides", "who", "until_ms")
    old = pa.table({"override_id": ["o"], "kind": ["pin"], "entry_seq": [1], "seq": [1]})
    write_deltalake(root.open("overrides"), old, mode="append", schema_mode="merge")
    assert root.create_all() == [name for name in TABLES if name != "overrides"]
    assert "who" not in [f.name for f in root.open("overrides").schema().fields], "an older writer may be at it"
    root.gain_columns(TABLES)
    append_rows(root, "overrides", [{"override_id": "n", "kind": "pin", "who": "anna", "entry_seq": 2, "seq": 2}])
    found = {f.name: (f.nullable, f.metadata.get("comment")) for f in root.open("overrides").schema().fields}
    record = TABLES["overrides"]
    assert {name: found[name] for name in ("who", "until_ms")} == {
        name: (True, record[name].full_comment) for name in ("who", "until_ms")
    }
    rows = root.open("overrides").to_pyarrow_table().to_pylist()
    assert {row["override_id"]: (row["who"], row["until_ms"]) for row in rows} == {
        "o": (None, None),
        "n": ("anna", None),
    }
    protocol = root.open("overrides").protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    version = root.open("overrides").version()
    assert root.create_all() == []
    root.gain_columns(TABLES)
    assert root.open("overrides").version() == version, "nothing is added twice"


def test_two_processes_may_add_columns_at_once(root: TableRoot) -> None:
    without(root, "rounds", "mean_score", "max_score", "duration_ms")
    failures: list[Exception] = []
    both = threading.Barrier(2)

    def start() -> None:
        both.wait()
        try:
            TableRoot(root.root).gain_columns(["rounds"])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(f.name for f in root.open("rounds").schema().fields) == sorted(TABLES["rounds"].names)


def test_a_table_without_a_column_that_must_be_there_is_refused(root: TableRoot) -> None:
    without(root, "brokers", "leaving", "runtime", "lookup_url")
    with pytest.raises(IncompatibleTable, match=r"lacks the columns leaving, runtime, which no row .* be without"):
        root.create_all()


def test_an_older_table_is_written_before_it_has_gained_anything(root: TableRoot) -> None:
    without(root, "journal", "attempt_id")
    root.create_all()
    journal = Journal(root)
    journal.commit([Entry(1, Kind.CONTROLLER_STARTED, "i", 0, 0)], "i", 0)
    with pytest.raises(OutcomeUnknown, match="no column attempt_id: start the job"):
        journal.commit([Entry(2, Kind.ROUND, "i", 1, 0, attempt_id="a", data={"at_ms": 1})], "i", 1)
    TableRoot(root.root).gain_columns(["journal"])
    journal.check_not_replaced("i")
    journal.commit([Entry(2, Kind.ROUND, "i", 1, 0, attempt_id="a", data={"at_ms": 1})], "i", 1)
    assert [e.attempt_id for e in Journal(root).read_since(0)] == [None, "a"]


def newer(root: TableRoot) -> None:
    """Every table as a version leaves it that has a column more, of a type of its own."""
    root.create_all()
    more = pa.schema(
        [pa.field("tide", pa.int64()), pa.field("moons", pa.list_(pa.field("element", pa.string(), False)))]
    )
    for name in TABLES:
        root.open(name).alter.add_columns(list(Schema.from_arrow(more).fields))


def test_tables_of_a_newer_version_are_written_all_the_same(root: TableRoot) -> None:
    newer(root)
    assert root.create_all() == []
    Journal(root).commit([Entry(1, Kind.ROUND, "i", 0, 0, attempt_id="kept", data={"at_ms": 1})], "i", 0)
    write_evidence(root, _evidence("kept"), wall_ms=2)
    state = load_state(root)
    assert Snapshots(root).save(state, at_ms=1)
    assert load_state(root) == state
    wish = Override("o", "avoid", namespace="t/n", broker="a:1")
    state.overrides[wish.id] = wish
    assert Projections(root).write(state) == ["overrides"]
    row = {"config_version": "c", "instance": "i", "at_ms": 1, "code_version": "1", "config_json": "{}"}
    append(root, "config_history", arrow_table(TABLES["config_history"], [row]), "app", 1)
    for name in ("journal", "rounds", "decisions", "overrides", "control_state", "config_history"):
        rows = root.open(name).to_pyarrow_table()
        assert rows.num_rows, name
        assert rows["tide"].null_count == rows["moons"].null_count == rows.num_rows
    assert [row["attempt_id"] for row in read_joined(root, "rounds").to_pylist()] == ["kept"]


def test_the_newest_snapshot_is_read_without_the_others(root: TableRoot) -> None:
    """Each is a row group, without statistics of a column whose values take megabytes."""
    root.create_all()
    saved = [ClusterState(seq=seq) for seq in (1, 2, 3)]
    snapshots = Snapshots(root)
    assert snapshots.newest() is None
    for state in saved:
        assert snapshots.save(state, at_ms=1)
    newest = snapshots.newest()
    assert newest is not None
    assert (newest[0], decode(bytes(newest[1]).decode())) == (3, saved[-1])
    (file,) = root.open("control_state").file_uris()
    groups = pq.ParquetFile(file).metadata
    column = groups.schema.names.index("state_json")
    assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [1, 1, 1]
    assert [groups.row_group(at).column(column).is_stats_set for at in range(3)] == [False] * 3


def test_evidence_of_a_version_without_a_column_is_read(root: TableRoot) -> None:
    without(root, "rounds", "mean_score")
    root.create("journal")
    Journal(root).commit([Entry(1, Kind.ROUND, "i", 0, 0, attempt_id="kept", data={"at_ms": 1})], "i", 0)
    row = round_row(_evidence("kept"), 2, None)
    rows = arrow_table(TABLES["rounds"], [row]).drop_columns("mean_score")
    write_deltalake(root.open("rounds"), rows, mode="append")
    (found,) = read_joined(root, "rounds").to_pylist()
    assert (found["mean_score"], found["max_score"]) == (None, row["max_score"])


def test_the_journal_forbids_deletes_and_allows_compaction(root: TableRoot) -> None:
    root.create_all()
    journal = Journal(root)
    for seq in (1, 2):
        journal.commit([Entry(seq, Kind.CONTROLLER_STARTED, "i", seq, 0)], "i", seq)
    with pytest.raises(Exception, match="append-only"):
        root.open("journal").delete("seq = 1")
    root.open("journal").optimize.compact()
    assert [e.seq for e in Journal(root).read_since(0)] == [1, 2]


def test_kept_handles_follow_and_are_opened_again(root: TableRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables_module, "REOPEN_AFTER_VERSIONS", 3)
    root.create("overrides")
    first = root.handle("overrides")
    row = {"override_id": "o", "kind": "pin", "entry_seq": 1, "seq": 1}
    append_rows(TableRoot(root.root), "overrides", [row])
    assert root.handle("overrides") is first
    assert first.version() == 1
    for _ in range(2):
        append_rows(TableRoot(root.root), "overrides", [row])
    assert root.handle("overrides") is not first
    assert root.handle("overrides").version() == 3


def test_uris_of_folders_and_object_stores(tmp_path: Path) -> None:
    assert TableRoot(tmp_path).uri("journal") == f"{tmp_path}/journal"
    assert TableRoot("s3://bucket/ballast/", {"region": "x"}).uri("journal") == "s3://bucket/ballast/journal"
    with pytest.raises(KeyError):
        TableRoot(tmp_path).uri("nope")


# -- evidence --


@dataclass
class Evidence:
    result: RoundResult
    attempt_id: str
    outcomes: dict[str, str] = field(default_factory=dict)
    mode: str = "live"


def _evidence(attempt_id: str) -> Evidence:
    move = Decision(
        "r1-0000", DecisionKind.TRANSFER, Label.SUCCESS, Reason.OVERLOADED, "t/n/0x00000000_0xffffffff",
        source="a:1", target="b:1", epoch=4, strategy="first", evidence={"cpu": 900}, before={"a:1": 0.9},
        after={"a:1": 0.5},
    )  # fmt: skip
    skip = Decision("r1-0001", DecisionKind.SKIP, Label.SKIP, Reason.BALANCED, source="b:1")
    scores = (
        {"broker": "a:1", "score": 0.9, "mean": 0.5, "hits": 2, "eligible": True, "source": True,
         "reason": "101_overloaded", "utilisations": {"cpu": 0.9, "memory": None}},
        {"broker": "b:1", "score": 0.1, "mean": 0.5, "hits": 0, "eligible": True, "source": False,
         "reason": "100_balanced", "utilisations": {}},
        {"broker": "c:1", "score": None, "mean": 0.5, "hits": 0, "eligible": False, "source": False,
         "reason": "400_no_load_data", "utilisations": {}},
    )  # fmt: skip
    result = RoundResult(
        "r1", 60_000, 9, "first", (move, skip), scores, {}, "hash",
        inputs={"config_version": "c1", "code_version": "0.1", "frame": [1]},
    )  # fmt: skip
    return Evidence(result, attempt_id, {"r1-0000": "executed"})


def test_only_evidence_that_the_journal_names_counts(root: TableRoot) -> None:
    assert read_joined(root, "rounds").num_rows == 0
    root.create_all()
    write_evidence(root, _evidence("lost"), wall_ms=1)
    write_evidence(root, _evidence("kept"), wall_ms=2, duration_ms=30)
    Journal(root).commit([Entry(1, Kind.ROUND, "i", 0, 0, attempt_id="kept", data={"round_id": "r1"})], "i", 0)
    (row,) = read_joined(root, "rounds").to_pylist()
    assert (row["attempt_id"], row["moves"], row["splits"], row["skips"], row["decisions"]) == ("kept", 1, 0, 1, 2)
    assert (row["mean_score"], row["max_score"], row["duration_ms"]) == (0.5, 0.9, 30)
    assert (row["config_version"], row["code_version"]) == ("c1", "0.1")
    assert json.loads(row["inputs_json"])["frame"] == [1]
    move, skip = sorted(read_joined(root, "decisions").to_pylist(), key=lambda r: r["decision_id"])
    assert (move["executed"], move["outcome"], move["band"], move["epoch"]) == (True, "executed", "normal", 4)
    assert json.loads(move["evidence_json"]) == {"cpu": 900}
    assert (skip["executed"], skip["outcome"], skip["strategy"]) == (False, None, "first")
    scores = {r["broker"]: r for r in read_joined(root, "broker_scores").to_pylist()}
    assert {b: r["is_source"] for b, r in scores.items()} == {"a:1": True, "b:1": False, "c:1": False}
    assert scores["a:1"]["cpu_utilisation"] == 0.9
    assert [scores["c:1"][f"{r}_utilisation"] for r in RESOURCES] == [None] * len(RESOURCES)


# -- quarantine --


class _Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None


class _Bad(NamedTuple):
    row: _Row
    rule_id: str
    text: str


def test_quarantine_keeps_raw_records_without_loss(root: TableRoot) -> None:
    root.create("quarantine")
    values = [b'{"v":2}', b"\xff\xfe\x00", None, b"", "grün\x00".encode()]
    rows = [
        quarantine_row(_Bad(_Row("heartbeats", 0, at, 5, value), "version", "schema version 2"), 7, 99)
        for at, value in enumerate(values)
    ]
    append_rows(root, "quarantine", rows)
    stored = sorted(root.open("quarantine").to_pyarrow_table().to_pylist(), key=lambda r: r["kafka_offset"])
    back = [base64.b64decode(r["raw"]) if r["raw_base64"] else r["raw"] and r["raw"].encode() for r in stored]
    assert [b if b != "" else b"" for b in back] == values
    assert {(r["source"], r["rule"], r["batch_id"], r["detected_ms"]) for r in stored} == {
        ("control", "version", 7, 99)
    }
    assert encode_raw(b"\xff") == ("/w==", True)


def test_an_error_of_an_object_store_names_the_table() -> None:
    nobody = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "max_retries": "0"}
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "z"}
    tables = TableRoot("s3a://bucket/ballast", nobody | keys)
    journal = tables.log("journal")
    for read in (lambda: tables.exists("journal"), lambda: tables.open("journal"), journal.last_checkpoint):
        with pytest.raises(OSError, match="Generic S3 error") as caught:
            read()
        told = describe_error(caught.value)
        assert told.startswith("table s3a://bucket/ballast/journal: ")
        assert "Connection refused" in told
        assert "\x1b" not in told


def test_no_thread_of_arrow_needs_python_to_let_go_of_a_local_file(tmp_path: Path) -> None:
    """It may do so after the interpreter's end, and then the process aborts (exit code 134)."""
    root = TableRoot(tmp_path / "tables")
    root.create_all()
    assert not isinstance(root.log("journal").data_files, pafs.PyFileSystem)
