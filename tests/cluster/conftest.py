"""One Spark standalone cluster for all tests of this folder, and the job that is submitted to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.bus.topics import TopicNames
from controller.process.paths import CONF
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.spark_cluster import SparkCluster
from tests.cluster.workers import apart, closed_to_others, install_apart, running_cluster
from tests.component.object_store.conftest import root, server, store  # fixtures
from tests.installed import Installed

__all__ = ["cluster", "far", "folder", "root", "server", "spark_conf", "store"]

# The driver's own addresses: Spark would listen on the machine's, and executors are on the same machine here.
LOOPBACK = "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
SMALL = "spark.executor.memory 700m\nspark.driver.memory 900m\nspark.ui.enabled false\n"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need the cluster; some tests of others do not belong here."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def far(short_lived_jvms: None) -> Iterator[Installed]:
    """The workers' environment."""
    with apart() as folder:
        yield install_apart(folder)


@pytest.fixture(scope="session")
def cluster(far: Installed) -> Iterator[SparkCluster]:
    """Two workers of a core each, who cannot enter the checkout."""
    with closed_to_others(), running_cluster(far.environment.parent, far.environment) as cluster:
        yield cluster


@pytest.fixture
def spark_conf(cluster: SparkCluster, tmp_path: Path) -> Path:
    """What `--spark-conf` gets: the shipped settings for a cluster, with this one's master."""
    file = tmp_path / "spark.conf"
    shipped = (CONF / "spark" / "cluster.conf").read_text()
    file.write_text(f"{shipped}\nspark.master {cluster.url}\n{LOOPBACK}{SMALL}")
    return file


@pytest.fixture
def folder(kafka: EmbeddedKafka, topics: TopicNames, tmp_path: Path) -> Path:
    """A folder with the configuration of one cluster, on topics of its own."""
    (tmp_path / "ballast.yaml").write_text(
        f"kafka: {{bootstrap_servers: '{kafka.bootstrap}', topic_prefix: {topics.prefix}}}\n"
        "tables: {root: tables, checkpoints: checkpoints}\n"
        "loads: {trigger_ms: 500, max_offsets_per_trigger: 40}\n"
        "http: {job_port: 0}\n"
    )
    return tmp_path
