"""What of a cluster runs and answers: one row a server, asked all at once so that a hung broker delays nobody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from controller.process.detached import RUNNING
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.ports import answers

ASK_TIMEOUT_S = 3.0


@dataclass(frozen=True)
class ServerStatus:
    """One server. `bundles` counts those of users, None where it is unknown; `serving`: it answers what it is for."""

    server: str
    state: str
    pid: int | None
    client_port: int
    web_port: int | None
    serving: bool
    listed: bool | None
    bundles: int | None
    memory_bytes: int | None
    log: str


def read_status(cluster: PulsarCluster) -> list[ServerStatus]:
    """The servers in the order in which they start."""
    names = cluster.spec.server_names
    cluster.admin  # noqa: B018  made once, before the threads share it
    with ThreadPoolExecutor(len(names)) as threads:
        return list(threads.map(lambda name: _status_of(cluster, name), names))


def status_document(cluster: PulsarCluster, rows: list[ServerStatus]) -> dict[str, Any]:
    """The status as one JSON document."""
    spec = cluster.spec
    return {
        "dir": str(cluster.folder),
        "pulsar": spec.pulsar,
        "manager": spec.manager,
        "auth": spec.auth,
        "tls": spec.tls,
        "broker_cores": spec.broker_cores,
        "settings": sorted(spec.settings),  # values may be secret
        "web_urls": cluster.web_urls,
        "client_url": cluster.client_url,
        "up": all(row.serving for row in rows),
        "servers": [asdict(row) for row in rows],
    }


def _status_of(cluster: PulsarCluster, name: str) -> ServerStatus:
    process, ports = cluster.servers.process(name), cluster.spec.ports(name)
    state = process.state
    serving, listed, bundles = False, None, None
    if state == RUNNING and ports.web is None:
        serving = answers(cluster.spec.host(name), ports.client)
    elif state == RUNNING:
        serving = cluster.admin.is_ready(name, ASK_TIMEOUT_S)
        if serving:
            listed = cluster.spec.broker_id(name) in cluster.admin.listed_brokers(name, ASK_TIMEOUT_S)
            owned = cluster.admin.owned_bundles(name, ASK_TIMEOUT_S)
            bundles = None if owned is None else len(owned)
    return ServerStatus(
        server=name,
        state=state,
        pid=process.pid,
        client_port=ports.client,
        web_port=ports.web,
        serving=serving,
        listed=listed,
        bundles=bundles,
        memory_bytes=process.memory_bytes(),
        log=str(process.log),
    )
