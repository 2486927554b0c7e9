"""At a start tasks show whether they may store files, where they are to."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controller.domain.errors import ConfigError
from controller.ledger.store.data_files import FileSink
from jobs.loads_runner import check_workers

pytestmark = pytest.mark.spark


def test_a_start_is_refused_where_tasks_may_not_store_files(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "table").mkdir()
    check_workers(spark, FileSink(str(tmp_path / "table")))
    assert list((tmp_path / "table").iterdir()) == []
    with pytest.raises(ConfigError, match=r"missing takes no file from a task: .* need credentials"):
        check_workers(spark, FileSink(str(tmp_path / "missing")))
