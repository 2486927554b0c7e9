"""Which of Spark's checkpoint managers a query gets, by where its checkpoint is, whatever settings the job has."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controller.process.paths import CONF
from jobs.spark_context import CHECKPOINT_MANAGER, MANAGER_OF_DISK, MANAGER_OF_S3, checkpoint_settings

pytestmark = pytest.mark.spark


def manager(spark: SparkSession) -> str | None:
    return spark.conf.get(CHECKPOINT_MANAGER, None)


def test_no_processes_are_started_for_a_checkpoint_on_disk(spark: SparkSession, tmp_path: Path) -> None:
    assert manager(spark) is None
    with checkpoint_settings(spark, str(tmp_path), {}):
        assert manager(spark) == MANAGER_OF_DISK
    with checkpoint_settings(spark, tmp_path.as_uri(), {}):
        assert manager(spark) == MANAGER_OF_DISK
    assert manager(spark) is None


def test_a_manager_that_was_chosen_stays(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(CHECKPOINT_MANAGER, "mine")
    try:
        with checkpoint_settings(spark, str(tmp_path), {}):
            assert manager(spark) == "mine"
        assert manager(spark) == "mine"
    finally:
        spark.conf.unset(CHECKPOINT_MANAGER)


def test_in_s3_files_appear_when_they_are_complete(spark: SparkSession) -> None:
    with checkpoint_settings(spark, "s3a://lake/checkpoints", {"aws_region": "eu-central-1"}):
        assert manager(spark) == MANAGER_OF_S3
        assert spark.conf.get("fs.s3a.endpoint.region") == "eu-central-1"
    assert manager(spark) is None


def test_the_settings_of_the_job_choose_none_for_all_places() -> None:
    for name in ("local.conf", "cluster.conf"):
        assert CHECKPOINT_MANAGER not in (CONF / "spark" / name).read_text()
