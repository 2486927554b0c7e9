"""Ballast's own client on real clusters with TLS and authorization, by token and certificate: what each role gets."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controller.brokers.pulsar.admin import PulsarAdmin
from controller.brokers.pulsar.changes import PulsarChanges
from controller.config.sections.pulsar_cluster import PulsarCluster as Connection
from controller.domain.facts import MUST_BE_OFF
from controller.domain.ids import Bundle
from controller.operations.pulsar_requirements import ROLE
from controller.testbed.pulsar.ballast import connection_of
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.credentials import ADMIN
from controller.testbed.pulsar.spec import CLUSTER_NAME
from tests.pulsar.conftest import new_cluster
from tests.pulsar.own_client import Orders, check, make_topics, move_one
from tests.pulsar.roles import ANY, REQUESTS, SUPER, Request
from tests.pulsar.waiting import wait_until

pytestmark = [
    pytest.mark.pulsar,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

NAMESPACE, TENANT = "tests/secured", "tests"
OWNER, VIEWER, NOBODY = "owner", "viewer", None  # a tenant's admin, a role without rights, no credentials
REFUSED = (401, 403, 0)  # 0: the handshake fails, as without a certificate where one is asked for


@pytest.fixture(scope="module", params=["token", "tls"])
def secured(
    request: pytest.FixtureRequest,
    pulsar_archive: None,
    short_lived_jvms: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PulsarCluster]:
    """Two brokers with TLS that ask for a token or a certificate; a few topics, so that bundles have owners."""
    folder = tmp_path_factory.mktemp(request.param)
    with new_cluster(folder, brokers=(1, 2), auth=request.param, tls=True) as running:
        running.up()
        running.admin.create_namespace("broker1", NAMESPACE, 4)
        body = {"adminRoles": [OWNER], "allowedClusters": [CLUSTER_NAME]}
        answer = running.admin.request("POST", "broker1", f"/admin/v2/tenants/{TENANT}", body)
        assert answer.status_code == 204, answer.text
        make_topics(running, NAMESPACE, 16)
        yield running


def test_a_super_user_checks_and_moves_and_reads_topics(
    secured: PulsarCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, rows = check(secured, tmp_path, capsys)
    missed = {name for name, row in rows.items() if row["state"] == "not met"}
    assert (code, missed) == (1, {f"{setting}=false" for setting in MUST_BE_OFF.values()}), rows
    assert rows[ROLE]["state"] == "ok"
    move_one(secured, NAMESPACE)


@pytest.mark.parametrize("role", [OWNER, VIEWER])
def test_any_other_role_is_told_what_is_missing(
    secured: PulsarCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    code, rows = check(secured, tmp_path, capsys, role)
    assert (code, list(rows), rows[ROLE]["state"]) == (1, [ROLE], "not met")
    assert "HTTP 401: Unauthorized to " in rows[ROLE]["found"]
    assert "superUserRoles" in rows[ROLE]["remedy"]


def test_each_request_takes_the_role_that_the_documentation_names(secured: PulsarCluster) -> None:
    """Whoever may do the least asks first: the super-user's requests change the cluster."""
    orders = Orders(secured, NAMESPACE)
    name, owner = min(wait_until(orders.owners, bool, "a bundle to be owned").items())
    words = {
        "CLUSTER": CLUSTER_NAME, "BROKER": owner, "NAMESPACE": NAMESPACE, "RANGE": name.rpartition("/")[2],
        "TOPIC": "t0", "SETTING": next(iter(MUST_BE_OFF.values())), "VALUE": "false",
    }  # fmt: skip
    found = {
        role: asyncio.run(ask_all(secured, role, owner, words, Bundle.parse(name).lower + 12_345))
        for role in (NOBODY, VIEWER, OWNER, ADMIN)
    }
    print({request.path: [found[role][request] for role in found] for request in REQUESTS})
    for request in REQUESTS:
        allowed = {role for role, statuses in found.items() if statuses[request] not in REFUSED}
        least = {ANY: {VIEWER, OWNER, ADMIN}, SUPER: {ADMIN}}.get(request.role, {OWNER, ADMIN})
        assert allowed == least, (request, {role: statuses[request] for role, statuses in found.items()})


async def ask_all(
    cluster: PulsarCluster, role: str | None, owner: str, words: Mapping[str, str], boundary: int
) -> dict[Request, int]:
    """The status that the role gets for each request, from the broker that owns the bundle."""
    given = connection_of(cluster, role or VIEWER)
    if role is NOBODY:
        given = {name: value for name, value in given.items() if name in ("service_urls", "tls_ca_file")}
    at = next(cluster.spec.web_url(n) for n in cluster.spec.broker_names if cluster.spec.broker_id(n) == owner)
    async with PulsarAdmin(Connection(**given)) as admin:
        changes, found = PulsarChanges(admin), dict[Request, int]()
        for request in REQUESTS:
            path, _, query = request.path.partition("?")
            for word, value in words.items():
                path, query = path.replace(word, value), query.replace(word, value)
            params = dict([query.split("=")]) if query else {}
            if request.method == "GET":
                answer = await admin.get(path, at, params=params)
                assert answer.status or role is NOBODY, answer
                found[request] = answer.status
                continue
            split = {"unload": "false", "splitAlgorithmName": "specified_positions_divide"}
            params, body = (split, [boundary]) if path.endswith("/split") else (None, None)
            sent = await changes.send(request.method, path, at, timeout_s=70.0, params=params, body=body)
            assert sent.status or role is NOBODY, sent
            found[request] = sent.status
    return found
