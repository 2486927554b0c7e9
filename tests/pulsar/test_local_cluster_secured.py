"""Local Pulsar clusters with authentication and TLS, and with a CPU quota: one broker each is enough."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import httpx
import pytest

from controller.testbed.pulsar.cgroups import CpuGroup
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import PulsarFailed
from tests.pulsar.conftest import new_cluster
from tests.pulsar.waiting import wait_until

pulsar = pytest.importorskip("pulsar", reason="pulsar-client is not installed")
pytestmark = [
    pytest.mark.pulsar,
    pytest.mark.testbed,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

NAMESPACE = "tests/secured"


@pytest.fixture(scope="module", params=["token", "tls"])
def secured(
    request: pytest.FixtureRequest,
    pulsar_archive: None,
    short_lived_jvms: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PulsarCluster]:
    """One broker with TLS, that asks for a token or for a certificate."""
    with new_cluster(tmp_path_factory.mktemp("secured"), brokers=(1,), auth=request.param, tls=True) as running:
        running.up()
        running.admin.create_namespace("broker1", NAMESPACE, 4)
        yield running


def ask(cluster: PulsarCluster, role: str | None, path: str) -> int:
    """The status that a role gets, or nobody in particular; 0 where the handshake fails."""
    import ssl

    credentials, headers = cluster.servers.credentials, {}
    context = ssl.create_default_context(cafile=str(credentials.authority))
    if role is not None and cluster.spec.auth == "tls":
        context.load_cert_chain(*credentials.certificate(role))
    elif role is not None:
        headers["Authorization"] = f"Bearer {credentials.token(role).read_text()}"
    try:
        return httpx.get(
            cluster.spec.web_url("broker1") + path, verify=context, headers=headers, trust_env=False, timeout=20
        ).status_code
    except httpx.HTTPError:
        return 0


def test_only_a_super_user_reads_the_load(secured: PulsarCluster) -> None:
    path = "/admin/v2/broker-stats/load-report"
    assert ask(secured, "admin", path) == 200
    assert ask(secured, "viewer", path) in (401, 403)
    assert ask(secured, None, path) == (0 if secured.spec.auth == "tls" else 401)


def test_a_client_with_its_role_produces_and_consumes_over_tls(secured: PulsarCluster) -> None:
    secured.admin.grant("broker1", NAMESPACE, "app")
    credentials = secured.servers.credentials
    if secured.spec.auth == "tls":
        certificate, key = credentials.certificate("app")
        authentication = pulsar.AuthenticationTLS(str(certificate), str(key))
    else:
        authentication = pulsar.AuthenticationToken(credentials.token("app").read_text())
    client = pulsar.Client(
        secured.client_url,
        authentication=authentication,
        tls_trust_certs_file_path=str(credentials.authority),
        tls_validate_hostname=True,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        topic = f"persistent://{NAMESPACE}/orders"
        consumer = client.subscribe(topic, "reader")
        client.create_producer(topic).send(b"over TLS")
        assert consumer.receive(30_000).data() == b"over TLS"
        with pytest.raises(pulsar.AuthorizationError):
            client.create_producer("persistent://public/default/forbidden")
    finally:
        client.close()


def test_no_secret_is_on_a_command_line_or_in_a_log(secured: PulsarCluster) -> None:
    credentials = secured.servers.credentials.folder
    secrets = [file.read_text() for file in (*credentials.glob("*.token"), *credentials.glob("*.key.pem"))]
    logs = "".join(file.read_text(errors="replace") for file in (secured.folder / "logs").iterdir())
    assert not [secret for secret in secrets if secret.strip() in logs]


def test_a_broker_reports_the_quota_of_its_cgroup(
    pulsar_archive: None, short_lived_jvms: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("quota")
    try:
        CpuGroup.of(folder, "broker1").make()
    except PulsarFailed as error:
        pytest.skip(str(error))
    with new_cluster(folder, brokers=(1,), broker_cores=0.6) as running:
        running.up()

        def cpu() -> dict[str, float]:
            report = running.admin.request("GET", "broker1", "/admin/v2/broker-stats/load-report", timeout_s=30)
            return dict(report.json()["cpu"])

        seen = wait_until(cpu, lambda cpu: cpu["limit"] == 60.0, "the quota as limit", timeout_s=200)
        assert 0 <= seen["usage"] <= 90, "its own usage, not that of the host"
        groups = CpuGroup.of(folder, "broker1").folders
        assert all(group.exists() for group in groups)
    assert not [group for group in groups if group.exists()]
