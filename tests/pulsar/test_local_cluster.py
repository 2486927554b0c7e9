"""The local Pulsar cluster: what starts, what happens to its servers, and that data outlive a stop."""

from __future__ import annotations

import uuid
from typing import Any

import psutil
import pytest

from controller.process.detached import ENDED, PAUSED, RUNNING, STOPPED
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import CLUSTER_NAME, PulsarFailed
from controller.testbed.pulsar.status import ServerStatus, read_status
from tests.pulsar.waiting import wait_until

pytestmark = [pytest.mark.pulsar, pytest.mark.testbed]

BUNDLES = 8


@pytest.fixture
def namespace(cluster: PulsarCluster) -> str:
    """A namespace of the test's own."""
    name = f"tests/n{uuid.uuid4().hex[:8]}"
    assert cluster.admin.create_namespace("broker1", name, BUNDLES)
    return name


def rows(cluster: PulsarCluster) -> dict[str, ServerStatus]:
    return {row.server: row for row in read_status(cluster)}


def look_up(cluster: PulsarCluster, asked: str, namespace: str, topics: int = 12) -> set[str]:
    """Which brokers serve the topics of a namespace, by lookups at one broker; unowned bundles get an owner."""
    owners = set()
    for number in range(topics):
        answer = cluster.admin.request(
            "GET", asked, f"/lookup/v2/topic/persistent/{namespace}/topic-{number}", timeout_s=30
        )
        assert answer.status_code == 200, answer.text
        owners.add(answer.json()["httpUrl"].removeprefix("http://"))
    return owners


def owned_in(cluster: PulsarCluster, namespace: str) -> dict[str, list[str]]:
    """The bundles of a namespace by the broker that owns them, for brokers that run."""
    owned = {name: cluster.admin.owned_bundles(name) for name in cluster.servers.running() if name.startswith("broker")}
    return {name: [b for b in bundles or [] if b.startswith(f"{namespace}/")] for name, bundles in owned.items()}


def test_every_server_serves_on_loopback_alone(cluster: PulsarCluster) -> None:
    for row in read_status(cluster):
        assert (row.state, row.serving) == (RUNNING, True), row
        assert row.pid is not None
        listening = {c.laddr for c in psutil.Process(row.pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN}
        assert {address.ip.removeprefix("::ffff:") for address in listening} == {cluster.spec.host(row.server)}, row
        assert {address.port for address in listening} == {row.client_port, row.web_port} - {None}, row


def test_settings_are_those_asked_for_and_balancing_is_as_shipped(cluster: PulsarCluster) -> None:
    runtime = cluster.admin.request("GET", "broker2", "/admin/v2/brokers/configuration/runtime").json()
    assert runtime["loadManagerClassName"] == cluster.spec.load_manager
    assert runtime["metadataStoreSessionTimeoutMillis"] == "10000"
    assert runtime["statsUpdateFrequencyInSecs"] == "5"
    for key in ("loadBalancerEnabled", "loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled"):
        assert runtime[key] == "true", key


def test_up_again_starts_nothing_and_another_cluster_on_its_ports_is_refused(
    cluster: PulsarCluster, tmp_path: Any
) -> None:
    pids = {name: row.pid for name, row in rows(cluster).items()}
    assert PulsarCluster.open(cluster.folder).up() == []
    with pytest.raises(PulsarFailed, match=r"in use by another program: .*zookeeper.*broker3.*--base-port"):
        PulsarCluster(tmp_path, cluster.spec).up()
    assert list(tmp_path.glob("*.json")) == []
    assert {name: row.pid for name, row in rows(cluster).items()} == pids


def test_a_killed_broker_leaves_the_list_and_its_bundles_are_served_elsewhere(
    cluster: PulsarCluster, namespace: str
) -> None:
    look_up(cluster, "broker1", namespace)
    assert cluster.kill("broker2")
    assert rows(cluster)["broker2"].state == STOPPED
    gone = cluster.spec.broker_id("broker2")
    wait_until(lambda: cluster.admin.listed_brokers("broker1"), lambda listed: gone not in listed, "leaving the list")
    owners = wait_until(
        lambda: look_up(cluster, "broker1", namespace), lambda owners: gone not in owners, "owners that live"
    )
    assert owners <= cluster.admin.listed_brokers("broker1")
    cluster.start("broker2")
    assert rows(cluster)["broker2"].serving


def test_a_paused_broker_delays_no_other_and_goes_on(cluster: PulsarCluster) -> None:
    assert cluster.pause("broker3")
    try:
        seen = rows(cluster)
        assert (seen["broker3"].state, seen["broker3"].serving) == (PAUSED, False)
        assert seen["broker1"].serving
        assert seen["broker2"].serving
        with pytest.raises(PulsarFailed, match=r"broker3 runs already, with pid \d+ \(paused\)"):
            cluster.start("broker3")
    finally:
        assert cluster.resume("broker3")
    wait_until(lambda: rows(cluster)["broker3"], lambda row: bool(row.serving and row.listed), "broker3 serves again")


def test_a_stopped_broker_hands_its_bundles_over_first(cluster: PulsarCluster, namespace: str) -> None:
    look_up(cluster, "broker2", namespace)
    assert cluster.stop("broker1")
    assert cluster.spec.broker_id("broker1") not in look_up(cluster, "broker2", namespace)
    assert not cluster.stop("broker1")
    cluster.restart("broker1")
    assert rows(cluster)["broker1"].serving


def test_a_broker_that_dies_by_itself_is_reported_and_started_by_up(cluster: PulsarCluster) -> None:
    pid = cluster.servers.process("broker3").pid
    assert pid is not None
    psutil.Process(pid).kill()
    wait_until(lambda: rows(cluster)["broker3"].state, lambda state: state == ENDED, "the end of broker3")
    assert cluster.up() == ["broker3"]


def test_a_broker_is_added_and_removed(cluster: PulsarCluster) -> None:
    name = cluster.add_broker()
    try:
        assert name == "broker4"
        assert PulsarCluster.open(cluster.folder).spec.brokers == (1, 2, 3, 4)
        assert cluster.spec.broker_id(name) in cluster.admin.listed_brokers("broker1")
    finally:
        cluster.remove_broker(name)
    assert PulsarCluster.open(cluster.folder).spec.brokers == (1, 2, 3)
    assert sorted(rows(cluster)) == ["bookie", "broker1", "broker2", "broker3", "zookeeper"]


def test_data_outlive_a_full_stop(cluster: PulsarCluster, namespace: str) -> None:
    pulsar = pytest.importorskip("pulsar", reason="pulsar-client is not installed")
    topic, texts = f"persistent://{namespace}/kept", [f"message {number}".encode() for number in range(100)]
    client = pulsar.Client(cluster.client_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        client.subscribe(topic, "reader").close()
        producer = client.create_producer(topic)
        for text in texts:
            producer.send(text)
    finally:
        client.close()
    pids = [row.pid for row in read_status(cluster) if row.pid is not None]
    assert cluster.down() == cluster.spec.server_names
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
    assert {row.state for row in read_status(cluster)} == {STOPPED}
    assert cluster.down() == []
    assert cluster.up() == cluster.spec.server_names
    client = pulsar.Client(cluster.client_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        consumer = client.subscribe(topic, "reader")
        assert [consumer.receive(30_000).data() for _ in texts] == texts
    finally:
        client.close()
    assert CLUSTER_NAME in cluster.admin.request("GET", "broker1", "/admin/v2/clusters").json()
    assert owned_in(cluster, namespace)
