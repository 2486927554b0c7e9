"""How a local cluster starts its Spark job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from controller.process.paths import CODE
from controller.testbed import local_cluster
from controller.testbed.local_cluster import LocalCluster


def test_what_spark_creates_where_it_works_is_in_the_clusters_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the folder `artifacts`; and the job runs this very code all the same."""
    started: dict[str, Any] = {}
    monkeypatch.setattr(local_cluster, "Child", lambda name, argv, log, **options: started.update(options))
    monkeypatch.setenv("PYTHONPATH", f"plugins{os.pathsep}/opt/more")
    monkeypatch.chdir(tmp_path)
    LocalCluster(Path("demo")).start_job()
    assert started["folder"] == tmp_path / "demo"
    assert started["env"]["PYTHONPATH"].split(os.pathsep) == [str(CODE), str(tmp_path / "plugins"), "/opt/more"]
