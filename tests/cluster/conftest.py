"""One Spark standalone cluster for all tests of this folder, and the job that is submitted to it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.bus.topics import TopicNames
from controller.process.paths import CONF, EXTRA_JARS, jars_of
from controller.process.spark_submit import S3A
from controller.testbed.kafka import EmbeddedKafka
from controller.testbed.spark_cluster import SparkCluster
from tests.cluster.site import Reports, Site
from tests.cluster.workers import apart, closed_to_others, copy_without_ballast, install_apart, running_cluster
from tests.component.object_store.conftest import root, server, store  # fixtures
from tests.e2e.programs import ballast
from tests.installed import Installed

__all__ = ["root", "server", "store"]  # fixtures from elsewhere

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


def write_spark_conf(folder: Path, cluster: SparkCluster) -> Path:
    """What `--spark-conf` gets: the shipped settings for a cluster, with this one's master."""
    file = folder / "spark.conf"
    shipped = (CONF / "spark" / "cluster.conf").read_text()
    file.write_text(f"{shipped}\nspark.master {cluster.url}\n{LOOPBACK}{SMALL}")
    return file


@pytest.fixture
def spark_conf(cluster: SparkCluster, tmp_path: Path) -> Path:
    return write_spark_conf(tmp_path, cluster)


@pytest.fixture(scope="session")
def s3a() -> None:
    """The JARs of checkpoints in S3, fetched once."""
    if not jars_of(S3A, EXTRA_JARS):
        made = ballast("setup", "--s3a", timeout_s=600)
        if made.returncode:
            pytest.skip(f"the JARs of S3A cannot be had: {made.stderr.strip()}")


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


@pytest.fixture(scope="session")
def bare(far: Installed) -> Path:
    """The interpreter of an environment of the workers that has the libraries, but no Ballast."""
    return copy_without_ballast(far.environment, far.environment.with_name("bare")) / "bin" / "python"


@pytest.fixture
def mounted() -> Iterator[Path]:
    """A folder as one that driver and workers have mounted: whatever either makes there, the other may change."""
    folder, before = Path(tempfile.mkdtemp(prefix="ballast-mounted-")), os.umask(0)
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        os.umask(before)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def zipped_conf(spark_conf: Path, bare: Path, tmp_path: Path) -> Path:
    """Settings for workers without Ballast: the code comes as the zip of `ballast package`."""
    archive = tmp_path / "ballast.zip"
    made = ballast("package", str(archive))
    assert made.returncode == 0, made.stderr
    pythons = f"spark.pyspark.python {bare}\nspark.pyspark.driver.python {sys.executable}\n"
    spark_conf.write_text(f"{spark_conf.read_text()}{pythons}spark.submit.pyFiles {archive}\n")
    return spark_conf


@pytest.fixture
def reports(kafka: EmbeddedKafka, topics: TopicNames) -> Reports:
    return Reports(kafka, topics)


@pytest.fixture
def site(folder: Path, spark_conf: Path) -> Iterator[Site]:
    made = Site(folder, spark_conf)
    yield made
    for job in made.jobs:
        job.end()
