"""A real Pulsar cluster for the whole run, once with each load manager. Tests leave it with all its brokers serving."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.process.setup_ivy import SetupFailed
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.distribution import pulsar_home, pulsar_version
from controller.testbed.pulsar.ports import check_free
from controller.testbed.pulsar.spec import ClusterSpec, PulsarFailed, make_spec

MANAGERS = ("modular", "extensible")
PORTS_OF_WORKER = 4_500  # two workers look for free ports at the same time
FIRST_PORT = 21_000 + PORTS_OF_WORKER * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
BASE_PORTS = range(FIRST_PORT, FIRST_PORT + PORTS_OF_WORKER, 100)


@pytest.fixture(scope="session")
def pulsar_archive() -> None:
    """Pulsar itself, downloaded at the first run."""
    try:
        pulsar_home()
    except SetupFailed as error:
        pytest.skip(f"no Pulsar: {error}")


@pytest.fixture(scope="session", params=MANAGERS)
def cluster(
    request: pytest.FixtureRequest,
    pulsar_archive: None,
    short_lived_jvms: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PulsarCluster]:
    """Three brokers as `ballast pulsar dev up` starts them."""
    folder = tmp_path_factory.mktemp(request.param)
    with new_cluster(folder, manager=request.param, own_hosts=True) as running:
        running.up()
        yield running


def new_cluster(folder: Path, **choices: object) -> PulsarCluster:
    """A cluster on ports that are free now; its steps are in the test's output."""
    return PulsarCluster(folder, spec_on_free_ports(**choices), tell=print)


def spec_on_free_ports(**choices: object) -> ClusterSpec:
    for base_port in BASE_PORTS:
        spec = make_spec(pulsar=pulsar_version(), base_port=base_port, **choices)
        try:
            check_free(spec, spec.server_names, patience_s=0)
        except PulsarFailed:
            continue
        return spec
    raise PulsarFailed(f"no free ports between {BASE_PORTS.start} and {BASE_PORTS.stop}")
