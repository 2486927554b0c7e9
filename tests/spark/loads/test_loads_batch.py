"""Batches of the loads query: both writers give the same rows, and a batch that is run again adds nothing twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from controller.ledger import append as ledger_writer
from controller.ledger.loads import loads_progress, read_panes
from controller.ledger.store.data_files import FileSink
from controller.ledger.tables import TableRoot
from controller.loads.driver_writer import Marker
from controller.loads.packing import unpack
from controller.loads.pane_files import unpack_panes
from controller.loads.settings import LoadsSettings
from jobs.loads_batch import LoadsBatch
from jobs.loads_parse import prepare_records
from tests.spark.loads.loads_lake import LOAD_TABLES, Lake, merged
from tests.spark.loads.loads_samples import START_MS, Row, frame, report, row
from tests.spark.loads.test_loads_panes import traffic

pytestmark = pytest.mark.spark


def batches(seed: int) -> list[list[Row]]:
    """Six batches over a minute and a half, with late reports, a silent broker, and two bad records."""
    rng = random.Random(seed)
    out, offset = [], 0
    for number in range(6):
        rows: list[Row] = []
        for _ in range(8):
            broker = f"b{rng.randrange(2 if number in (2, 3) else 4)}:8080"
            doc = report(broker, offset, rng.sample(range(10), 4), rng, tail=rng.random() < 0.5)
            if rng.random() < 0.3:
                doc["resources"]["cpu"] = {"usage": -1.0, "limit": -1.0}
            at = START_MS + number * 15_000 + rng.randrange(0, 15_000) - rng.choice([0, 0, 0, 12_000, 40_000])
            rows.append(row(doc, broker, offset, at))
            offset += 1
        if number % 3 == 1:
            rows.append(row("{broken", "b0:8080", offset, START_MS))
            offset += 1
        out.append(rows)
    return out


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {k: pytest.approx(v, rel=1e-9, abs=1e-12) if isinstance(v, float) else v for k, v in r.items()} for r in rows
    ]


def assert_same(left: Lake, right: Lake) -> None:
    for name in LOAD_TABLES:
        mine, other = left.rows(name), right.rows(name)
        assert len(mine) == len(other), name
        assert mine == comparable(other), name


@pytest.mark.parametrize("order", [pytest.param("spark", marks=pytest.mark.thorough), "mixed"])
def test_both_writers_give_the_same_rows(spark: SparkSession, tmp_path: Path, order: str) -> None:
    by_driver = Lake(spark, tmp_path / "driver", "delta_rs")
    other = Lake(spark, tmp_path / "other", "spark")
    small = other.fresh("delta_rs")
    for number, rows in enumerate(batches(1)):
        assert by_driver.run(rows, number).writer == "delta_rs"
        by_spark = order == "spark" or number in (1, 2, 4)
        result = other.run(rows, number, other.batch if by_spark else small)
        assert result.writer == ("spark" if by_spark else "delta_rs")
    assert_same(by_driver, other)
    assert len(by_driver.rows("broker_load")) > 15


@pytest.mark.parametrize(
    ("writer", "keyed", "stored"),
    [
        ("delta_rs", True, False),
        ("delta_rs", False, False),
        ("delta_rs", False, True),
        pytest.param("spark", True, False, marks=pytest.mark.thorough),
    ],
)
def test_panes_that_tasks_made_files_of_are_the_same(
    spark: SparkSession, tmp_path: Path, calm: Lake, monkeypatch: pytest.MonkeyPatch, writer: str, keyed: bool,
    stored: bool,
) -> None:  # fmt: skip
    """Of some batches and tasks; where records are spread over tasks (not `keyed`), some have few rows. `stored`: tasks
    store them themselves, as in an object store; the driver stores none."""
    more: dict[str, Any] = {"tasks_store_files": stored}
    other = Lake(spark, tmp_path, writer, keyed, file_from_rows=20 if keyed else 5, **more)
    if stored:
        monkeypatch.setattr(TableRoot, "is_object_store", True)
        monkeypatch.setattr("controller.ledger.append.file_name", None)
    for number, rows in enumerate(batches(3)[:3]):
        other.run(rows, number)
    if keyed:
        assert_same(calm, other)
    keys = ("pane_end_ms", "bundle", "broker")
    assert merged(other.rows("bundle_panes"), keys) == {
        key: pytest.approx(sums) for key, sums in merged(calm.rows("bundle_panes"), keys).items()
    }


@pytest.mark.parametrize(
    ("root", "stored", "makes", "stores"),
    [
        ("tables", False, True, False),
        ("tables", True, True, False),
        ("s3://bucket/t", False, False, False),
        ("s3://bucket/t", True, True, True),
    ],
)
def test_for_tables_in_an_object_store_tasks_make_no_files_unless_they_store_them(
    tmp_path: Path, root: str, stored: bool, makes: bool, stores: bool
) -> None:
    """Storing them there would stop the control query, which shares the driver's process."""
    place = root if "://" in root else tmp_path / root
    batch = LoadsBatch(LoadsSettings(tasks_store_files=stored), TableRoot(place), lambda: START_MS)
    order = batch._order(Marker("query", 0, {}))
    assert order.file_from_rows == (LoadsSettings.file_from_rows if makes else None)
    assert order.sink == (FileSink("s3://bucket/t/bundle_panes") if stores else None)


def test_the_writer_is_chosen_by_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark writes, tasks do not send this process their bundles, though each has few; where this process writes
    they do, even if one has more than its share."""
    lake = Lake(spark, tmp_path, "auto", keyed=False, writer_threshold_rows=40)
    rng = random.Random(2)

    def rows(first: int, *listed: int) -> list[Row]:
        at = range(first, first + len(listed))
        return [
            row(report(f"b{n}:1", n, list(range(many)), rng), f"b{n}:1", n) for n, many in zip(at, listed, strict=True)
        ]

    batches = {"small": rows(0, 3), "large": rows(1, *12 * [3]), "uneven": rows(20, 22, 3)}
    writers, received = {}, {}
    for number, (name, records) in enumerate(batches.items()):
        with monkeypatch.context() as patch:
            counts = count_rows_received(spark, patch)
            writers[name] = lake.run(records, number).writer
        received[name] = counts["bundles"]
    assert writers == {"small": "delta_rs", "large": "spark", "uneven": "delta_rs"}
    assert received == {"small": 4, "large": 0, "uneven": 27}
    assert len(lake.rows("bundle_panes")) == 4 + 48 + 27
    assert len(lake.rows("broker_panes")) == 15


def count_rows_received(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what tasks send this process from now on, by kind."""
    received: Counter[str] = Counter()
    frames = type(spark.range(0))
    real = frames.toArrow

    def counting(frame: DataFrame) -> pa.Table:
        found = real(frame)
        for kind, payload in zip(*(found[name].to_pylist() for name in ("kind", "payload")), strict=True):
            if payload is not None:
                received[kind] += (unpack_panes if kind == "bundles" else unpack)(payload).num_rows
        return found

    monkeypatch.setattr(frames, "toArrow", counting)
    return received


def fail_after(monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    """Let the process die after so many commits."""
    done: list[str] = []

    def dying(real: Callable[..., bool]) -> Callable[..., bool]:
        def append(*args: Any, **kwargs: Any) -> bool:
            if len(done) == commits:
                raise SystemError("killed")
            done.append(args[1])
            return real(*args, **kwargs)

        return append

    for name in ("append", "append_files"):
        monkeypatch.setattr(ledger_writer, name, dying(getattr(ledger_writer, name)))


@pytest.fixture(scope="module")
def calm(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Three batches of a process that never died; read only."""
    lake = Lake(spark, tmp_path_factory.mktemp("calm"))
    for number, rows in enumerate(batches(3)[:3]):
        lake.run(rows, number)
    return lake


@pytest.mark.parametrize(("commits", "file_from_rows"), [(1, 1), (2, 50_000), (3, 1), (4, 50_000), (5, 1)])
def test_a_batch_that_died_between_two_tables(
    spark: SparkSession, calm: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int, file_from_rows: int
) -> None:
    """The second run, in a new process, completes the batch; the outcome equals that of a run that never died."""
    crashed = Lake(spark, tmp_path, file_from_rows=file_from_rows)
    for number, rows in enumerate(batches(3)[:3]):
        if number == 1:  # this one has bad records: five tables
            with monkeypatch.context() as patch:
                fail_after(patch, commits)
                if commits < 5:
                    with pytest.raises(SystemError):
                        crashed.run(rows, number)
                else:
                    crashed.run(rows, number)
            crashed.batch = crashed.fresh()
        crashed.run(rows, number)
    assert_same(calm, crashed)


@pytest.mark.thorough
def test_a_batch_again_by_the_other_writer_adds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    given = batches(4)
    lake.run(given[0], 0)
    lake.run(given[1], 1)
    before = lake.all_rows()
    lake.run(given[1], 1, lake.fresh("spark"))
    assert lake.all_rows() == before
    lake.run(given[2], 2, lake.fresh("spark"))
    after = lake.all_rows()
    lake.run(given[2], 2, lake.fresh("delta_rs"))
    assert lake.all_rows() == after


def test_a_batch_of_bad_records_only(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path)
    result = lake.run([row("x", "b1:1", 0)], 0)
    assert (result.reports, result.quarantined, result.last_event_ms) == (0, {"not_json": 1}, None)
    assert lake.rows("broker_panes") == []
    assert lake.rows("quarantine")[0]["text"] == "the record is not one JSON object"


@pytest.mark.covers("reports-to-everybody")
@pytest.mark.parametrize("writer", ["delta_rs", "spark"])
def test_rounds_read_what_was_written(spark: SparkSession, tmp_path: Path, writer: str) -> None:
    """The reader of rounds sees the same averages as the load tables, and the progress of event time."""
    lake = Lake(spark, tmp_path, writer)
    reports = [(START_MS + 1_000 * n, doc) for n, (_, doc) in enumerate(traffic(6, 12))]
    lake.run([row(doc, doc["broker"], n, at) for n, (at, doc) in enumerate(reports)], 0)
    progress = loads_progress(lake.root)
    assert progress is not None
    assert (progress.first_event_ms, progress.newest_event_ms) == (START_MS, START_MS + 11_000)
    as_of = max(r["as_of_ms"] for r in lake.rows("broker_load"))
    panes = read_panes(lake.root, as_of, 60_000)
    newest = {r["broker"]: r for r in lake.rows("broker_load")}
    for n, broker in enumerate(panes.brokers["broker"]):
        for column in ("cpu_utilisation", "msg_rate_in", "backlog_bytes", "bundles", "rpc_queue_ms"):
            assert newest[broker][column] == pytest.approx(panes.brokers[column][n], rel=1e-9)


def test_large_records_reach_the_tasks_in_small_pieces(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever lies in Kafka, an Arrow batch stays small; a record too large for a report comes as its head."""
    lake = Lake(spark, tmp_path)
    rows = [row(b'{"pad":"' + b"x" * 900_000 + b'"}', "b1:8080", n) for n in range(12)]
    rows.append(row(b"y" * (11 * 2**20), "b1:8080", 12))
    assert lake.run(rows, 0).quarantined == {"version": 12, "too_large": 1}

    def sizes(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            found = [pa.array([batch.nbytes]), pa.array([max(map(len, batch.column("value").to_pylist()))])]
            yield pa.RecordBatch.from_arrays(found, names=["bytes", "longest"])

    records = prepare_records(frame(spark, rows), lake.settings)
    found = records.coalesce(1).mapInArrow(sizes, "bytes BIGINT, longest BIGINT").collect()
    assert len(found) >= 4
    assert max(r["bytes"] for r in found) < 4 * 2**20
    assert max(r["longest"] for r in found) < 2**20


def test_a_report_sent_again_after_a_restart_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    lake, rng = Lake(spark, tmp_path), random.Random(9)
    reports = [report("b1:1", n, [0, 1], rng) for n in range(5)]
    lake.run([row(reports[n], "b1:1", n) for n in (0, 1, 2)], 0)
    again = [row(reports[n], "b1:1", 10 + n) for n in (1, 3, 2, 4)]
    assert lake.run(again, 1, lake.fresh()).quarantined == {"duplicate": 2}
    assert sum(r["reports"] for r in lake.rows("broker_panes")) == 5
