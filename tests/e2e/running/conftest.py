"""One cluster for all tests of this folder: Kafka, store, the whole Spark job and three agents.

It runs in shadow mode: nothing moves but what a test asks for. Every test takes a namespace of its own and starts the
brokers that it ends; `broker-1` to `broker-3` live to the end. Brokers are small: little traffic makes them hot.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import PATIENCE_S, check_journal, settled
from tests.e2e.clients import Clients
from tests.e2e.lookups import look_up, topics_in

BROKERS = ("broker-1", "broker-2", "broker-3")
OVERRIDES = (
    "rounds.mode=shadow",
    "rounds.round_interval_s=5",
    "loads.pane_s=5",
    "loads.short_horizon_s=10",
    "agent.report_interval_ms=1000",
    "control.trigger_ms=400",  # half the batches, half their CPU time
    "reference.cpu_us_per_message=5000",
    "logging.json_lines=true",
)


@pytest.fixture(scope="package")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Up once; its logs are in the run's temporary folder."""
    with LocalCluster(tmp_path_factory.mktemp("running"), overrides=OVERRIDES) as cluster:
        cluster.up(BROKERS)
        yield cluster


@pytest.fixture
def cluster(running_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The running cluster; afterwards its journal must hold I2 to I4."""
    yield running_cluster
    if running_cluster.state.mode != "shadow":
        running_cluster.command("mode", mode="shadow")
    check_journal(running_cluster)


_numbers = itertools.count(1)


@pytest.fixture
def clients(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Clients]:
    """Client processes named after the test."""
    with Clients(cluster, request.node.name.removeprefix("test_")[:24]) as started:
        yield started


@pytest.fixture
def namespace(cluster: LocalCluster) -> Callable[[int], str]:
    """Creates a namespace with that many bundles; returns its name."""

    def create(bundles: int) -> str:
        name = f"e2e/n{next(_numbers)}"
        assert cluster.command("create_namespace", namespace=name, bundles=bundles).accepted
        return name

    return create


@pytest.fixture
def served(cluster: LocalCluster, namespace: Callable[[int], str]) -> Callable[[int, int], list[str]]:
    """Creates a namespace and topics that fall into every bundle of it, and waits until all are owned."""

    def create(bundles: int, topics_each: int = 1) -> list[str]:
        name = namespace(bundles)
        topics = topics_in(cluster.state, name, topics_each)
        look_up(cluster, topics)
        cluster.wait_until(lambda state: settled(state, name), PATIENCE_S, f"ownership of {name}", needs="job")
        return topics

    return create
