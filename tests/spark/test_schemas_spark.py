"""The Spark and Delta forms, judged by Spark itself; and tables shared by Spark and delta-rs."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType, _parse_datatype_string

from controller.domain.entries import Entry, Kind
from controller.ledger.append import append_rows
from controller.ledger.journal_commit import Journal
from controller.ledger.loads import loads_progress
from controller.ledger.tables import TableRoot
from schemas.arrow import arrow_table
from schemas.catalog import TABLES
from schemas.delta import delta_ddl, delta_properties
from schemas.spark import spark_ddl, spark_struct
from schemas.wire import RECORDS

pytestmark = pytest.mark.spark


def plain(struct: StructType) -> StructType:
    """What DDL text can say: no comments in nested fields, and lists and maps may always hold nulls."""
    document = struct.jsonValue()

    def strip(node: object) -> object:
        if isinstance(node, dict):
            untold = {"metadata": {}, "containsNull": True, "valueContainsNull": True}
            return {k: untold.get(k, strip(v)) for k, v in node.items()}
        return [strip(item) for item in node] if isinstance(node, list) else node

    stripped = strip(document)
    assert isinstance(stripped, dict)
    return StructType.fromJson(stripped)


def test_ddl_and_struct_json_are_the_same_type(spark: SparkSession) -> None:
    for name, record in {**RECORDS, **TABLES}.items():
        struct = StructType.fromJson(spark_struct(record))
        assert struct.jsonValue() == spark_struct(record), name
        assert _parse_datatype_string(spark_ddl(record)) == plain(struct), name
        lenient = StructType.fromJson(spark_struct(record, all_nullable=True))
        assert all(f.nullable for f in lenient.fields)


def test_tables_made_by_spark_and_by_delta_rs_are_alike(spark: SparkSession, tmp_path: Path) -> None:
    by_spark, by_delta_rs = TableRoot(tmp_path / "spark"), TableRoot(tmp_path / "rs")
    by_delta_rs.create_all()
    for name in ("journal", "broker_panes"):  # the widest options and the most columns; the others differ in neither
        spark.sql(delta_ddl(TABLES[name], by_spark.uri(name)).replace(f" {name} (", f" delta.`{by_spark.uri(name)}` ("))
        made, expected = by_spark.open(name), by_delta_rs.open(name)
        assert made.protocol() == expected.protocol()
        assert made.metadata().configuration == delta_properties(TABLES[name])
        assert {f.name: (str(f.type), f.nullable, f.metadata) for f in made.schema().fields} == {
            f.name: (str(f.type), f.nullable, f.metadata) for f in expected.schema().fields
        }


def test_spark_reads_compacts_and_appends_what_delta_rs_follows(spark: SparkSession, tmp_path: Path) -> None:
    root = TableRoot(tmp_path / "tables")
    root.create_all()
    journal = Journal(root)
    for seq in (1, 2, 3):
        journal.commit([Entry(seq, Kind.CONTROLLER_STARTED, "i", seq, 0)], "i", seq)
    uri = root.uri("journal")
    assert [row.seq for row in spark.read.format("delta").load(uri).orderBy("seq").collect()] == [1, 2, 3]
    spark.sql(f"OPTIMIZE delta.`{uri}`")
    journal.commit([Entry(4, Kind.CONTROLLER_STOPPED, "i", 4, 0)], "i", 4)
    assert [e.seq for e in Journal(root).read_since(0)] == [1, 2, 3, 4]

    row = {"detected_ms": 5, "topic": "t", "partition": 0, "kafka_offset": 1, "rule": "r", "text": "x"}
    row |= {"raw": None, "raw_base64": False, "source": "loads", "batch_id": 1}
    rows = arrow_table(TABLES["quarantine"], [row])
    frame = spark.createDataFrame(rows.to_pylist(), StructType.fromJson(spark_struct(TABLES["quarantine"])))
    frame.write.format("delta").mode("append").save(root.uri("quarantine"))
    append_rows(root, "quarantine", [row])
    both = spark.createDataFrame([*rows.to_pylist(), *rows.to_pylist()], frame.schema)
    assert_df_equality(spark.read.format("delta").load(root.uri("quarantine")), both, ignore_nullable=True)


def test_progress_is_read_from_a_commit_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    root = TableRoot(tmp_path / "tables")
    root.create_all()
    record = TABLES["broker_panes"]
    row = {f.name: "w" if f.type.name == "string" else 7 for f in record}  # type: ignore[union-attr]
    rows = arrow_table(record, [row | {"first_event_ms": 1_000, "last_event_ms": 2_000}])
    frame = spark.createDataFrame(rows.to_pylist(), StructType.fromJson(spark_struct(record)))
    frame.write.format("delta").mode("append").option("userMetadata", '{"ballast.max_event_ms": "2000"}').save(
        root.uri(record.name)
    )
    assert loads_progress(root) == (1_000, 2_000), "from the statistics Spark wrote for these very columns"
