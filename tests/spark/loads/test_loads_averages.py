"""Averages of a large batch come beside the next one: the same rows, whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from controller.loads import averages
from controller.loads.averages import Averages
from tests.spark.loads.loads_lake import Lake
from tests.spark.loads.test_loads_batch import assert_same, batches

pytestmark = pytest.mark.spark
GIVEN = batches(3)[:4]


@pytest.fixture(scope="module")
def calm(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Batches whose averages were written within them; read only."""
    lake = Lake(spark, tmp_path_factory.mktemp("calm"))
    for number, rows in enumerate(GIVEN):
        lake.run(rows, number)
    return lake


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Every batch counts as a large one, and its tasks make files."""
    monkeypatch.setattr(averages, "ASIDE_FROM_ROWS", 0)
    return Lake(spark, tmp_path, file_from_rows=1)


def fail_at(monkeypatch: pytest.MonkeyPatch, batch_id: int) -> Callable[[], None]:
    """Let the averages of this batch fail, until the returned function is called."""
    write = Averages._write_bundles

    def fail(self: Averages, panes: Any, marker: Any, newest_ms: int) -> None:
        if marker.batch_id == batch_id:
            raise OSError("the disk is full")
        write(self, panes, marker, newest_ms)

    monkeypatch.setattr(Averages, "_write_bundles", fail)
    return lambda: monkeypatch.setattr(Averages, "_write_bundles", write)


def test_they_are_the_rows_that_a_small_batch_writes_at_once(calm: Lake, lake: Lake) -> None:
    for number, rows in enumerate(GIVEN):
        lake.run(rows, number)
    lake.batch.averages.finish()
    assert_same(calm, lake)


@pytest.mark.parametrize("died_at", [0, 2])
def test_what_a_crash_has_cut_off_is_made_up_for_from_the_panes(
    calm: Lake, lake: Lake, monkeypatch: pytest.MonkeyPatch, died_at: int
) -> None:
    mend = fail_at(monkeypatch, died_at)
    for number, rows in enumerate(GIVEN):
        if number == died_at + 1:
            assert not [row for row in lake.rows("bundle_load") if row["batch_id"] == died_at]
            mend()
            lake.batch = lake.fresh()
        lake.run(rows, number)
    lake.batch.averages.finish()
    assert_same(calm, lake)


def test_a_failure_ends_the_next_batch_and_nothing_is_lost(
    calm: Lake, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run(GIVEN[0], 0)
    mend = fail_at(monkeypatch, 1)
    lake.run(GIVEN[1], 1)
    with pytest.raises(OSError, match="the disk is full"):
        lake.run(GIVEN[2], 2)
    mend()
    lake.run(GIVEN[2], 2)
    lake.run(GIVEN[3], 3)
    lake.batch.averages.finish()
    assert_same(calm, lake)


@pytest.mark.thorough
def test_spark_goes_on_with_averages_that_were_still_under_way(calm: Lake, lake: Lake) -> None:
    for number, rows in enumerate(GIVEN):
        lake.batch.settings = replace(lake.settings, writer="spark" if number == 2 else "delta_rs")
        assert lake.run(rows, number).writer == lake.batch.settings.writer
    lake.batch.averages.finish()
    assert_same(calm, lake)
