"""A local Spark cluster whose port is taken: it says so at once and starts nothing."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.testbed.spark_cluster import SPEC_FILE, SparkCluster, SparkNotStarted


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of loopback that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_a_port_that_is_taken_settles_nothing(taken: int, tmp_path: Path) -> None:
    """Else the folder could only be used with that port."""
    with pytest.raises(SparkNotStarted, match=f"--port {taken}: .* cannot be listened on .*; give another --port"):
        SparkCluster(tmp_path).create(1, 1, 512, Path(sys.executable), port=taken)
    assert not (tmp_path / SPEC_FILE).exists()


def test_a_port_that_was_taken_since_starts_no_master(tmp_path: Path) -> None:
    cluster = SparkCluster(tmp_path)
    cluster.create(1, 1, 512, Path(sys.executable))
    with (
        socket.create_server(("127.0.0.1", cluster.spec.port)),
        pytest.raises(SparkNotStarted, match="end what listens there, or give another --dir"),
    ):
        cluster.up()
    assert not (tmp_path / "pids").exists()
