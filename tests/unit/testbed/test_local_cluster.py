"""How a local cluster starts its Spark job, and what its configuration file says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from controller.config.load import load_settings
from controller.process.paths import CODE
from controller.testbed import local_cluster
from controller.testbed.local_cluster import LocalCluster
from controller.testbed.written_settings import with_overrides


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


OVERRIDES = (
    "rounds.round_interval_s=15",
    "rounds.strategy=average",
    "pulsar.loadBalancerBrokerOverloadedThresholdPercentage=71",
    "steady.tolerance=0.11",
    "kafka.client.security_protocol=PLAINTEXT",
    "ui.port=4711",
    "ui.hosts=[a.example, b.example]",
)


def test_the_configuration_file_has_what_the_processes_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the page was served, which writes its port into the file."""
    monkeypatch.setattr(local_cluster, "Child", lambda *given, **options: None)
    monkeypatch.setattr(local_cluster, "_address_of", lambda page: "")
    cluster = LocalCluster(tmp_path, overrides=OVERRIDES)
    cluster.serve_page()
    check_same(cluster)
    cluster.serve_page()
    check_same(cluster)


def check_same(cluster: LocalCluster) -> None:
    given = load_settings(cluster.config_file, overrides=OVERRIDES, env={})
    alone = load_settings(cluster.config_file, env={})
    assert alone.version == given.version
    assert (alone.rounds.round_interval_s, alone.ui.port) == (15, 4711)


def test_an_override_adds_to_a_mapping_and_replaces_a_value() -> None:
    document = {"profile": "demo", "kafka": {"bootstrap_servers": "a:1", "client": {"client.id": "x"}}}
    given = ("kafka.bootstrap_servers=b:2", "kafka.client.socket.timeout.ms=12000")
    assert with_overrides(document, given) == {
        "profile": "demo",
        "kafka": {"bootstrap_servers": "b:2", "client": {"client.id": "x", "socket.timeout.ms": 12000}},
    }
    assert document["kafka"]["client"] == {"client.id": "x"}, "what was given stays"


def test_no_login_gets_into_the_file() -> None:
    assert with_overrides({}, ["tables.root=s3://me:hunter2@bucket/ballast"]) == {}
