"""Fixtures of the whole run: one Kafka, one Spark session, and topic names of its own for every test.

`make test` runs two processes side by side. What shares something dear (the Spark session, the running cluster, a
file's Kafka) stays in one of them, and the longest work begins first (`LONGEST_FIRST`).
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from controller.bus.topics import TopicNames, ensure_topics, live_topics
from controller.process.paths import CONF, jars_of
from controller.process.setup_java import find_java
from controller.testbed.kafka import EmbeddedKafka
from tests.examples import load_profile
from tests.installed import Installed, build, copy_source, install

# What shares a Spark session or a cluster.
TOGETHER = ("spark", "e2e/running", "faults/agents")
# By the time they take alone.
LONGEST_FIRST = ("spark", "e2e/running", "e2e/test_controller_crash", "e2e/test_demo_run", "e2e/test_replay_run", "e2e")

# Marks of tests that simulate for minutes: a limit is there for what hangs, not for a machine that is busy.
LONG_RUNS = ("slow", "faults", "soak", "cluster", "pulsar")
HUNG_AFTER_S = 1_800


load_profile()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How `make test` parts the tests between its processes: folder by folder, or file by file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            place = nodeid.partition("::")[0].removeprefix("tests/")
            if place.startswith("pulsar/") and nodeid.endswith("]"):
                return nodeid.rpartition("[")[2]  # one cluster for all tests of a load manager
            return next((folder for folder in TOGETHER if place.startswith(f"{folder}/")), place)

    return ByPlace(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long runs get time on a slow machine, too. In a process of `make test` the longest begin first."""
    for item in items:
        if any(map(item.get_closest_marker, LONG_RUNS)) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(HUNG_AFTER_S))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: next((i for i, p in enumerate(LONGEST_FIRST) if f"tests/{p}" in item.nodeid), 99))


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A command that runs in a test's own process sends the logs to the error stream of that test, which closes."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if root.handlers != handlers or root.level != level:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def short_lived_jvms() -> Iterator[None]:
    """JVMs of tests live for a minute or two: the second compiler costs them more than it gives.

    Measured on a replay of the recording: 33 s of CPU time instead of 49 s, with the same decisions.
    """
    name = "JAVA_TOOL_OPTIONS"
    before = os.environ.get(name)
    os.environ[name] = f"{before or ''} -XX:TieredStopAtLevel=1".strip()
    yield
    if before is None:
        del os.environ[name]
    else:
        os.environ[name] = before


@pytest.fixture(scope="session")
def kafka(short_lived_jvms: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A real Kafka on free ports for the whole run. Tests that stop or kill one start their own."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture
def topics(kafka: EmbeddedKafka) -> TopicNames:
    """The seven topics under a prefix that no other test has."""
    names = TopicNames(f"t{uuid.uuid4().hex[:8]}.")
    ensure_topics(kafka.bootstrap, live_topics(names))
    return names


@pytest.fixture(scope="session")
def spark(short_lived_jvms: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for the whole run, with the settings of conf/spark/local.conf and the JARs of the cache."""
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    folder = tmp_path_factory.mktemp("spark")
    jars = jars_of("spark")
    assert jars, "the JARs of Spark's connectors are not in the cache: run `make setup`"
    builder = SparkSession.builder.appName("ballast-tests")
    for key, value in properties(CONF / "spark" / "local.conf").items():
        builder = builder.config(key, value)
    builder = (
        builder.config("spark.jars", ",".join(map(str, jars)))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-XX:+UseSerialGC -Dderby.system.home={folder}")
    )
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Ballast from its wheel, far from the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    return install(build("build_wheel", copy_source(folder / "source"), folder / "dist"), folder)


def properties(file: Path) -> dict[str, str]:
    """Key and value of every line of a Spark properties file."""
    lines = (line.strip() for line in file.read_text().splitlines())
    pairs = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return dict(pairs)
