"""Puts bundles where a run is to begin, by Pulsar's own unloads: a new namespace may be on one broker as a whole."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from controller.process.interrupts import check_interrupt
from controller.testbed.pulsar.cluster import PulsarCluster
from controller.testbed.pulsar.spec import PulsarFailed
from controller.testbed.pulsar.traffic.owners import Served, locate_topics

UNLOAD_TIMEOUT_S = 90.0
LOOK_AGAIN_S = 1.0


def wait_for_owners(
    cluster: PulsarCluster, namespace: str, topics: Sequence[str], timeout_s: float
) -> dict[str, Served]:
    """Where each topic is, once all of them are somewhere. Raises PulsarFailed."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = locate_topics(cluster, namespace, topics)
        if all(place.broker for place in found.values()):
            return found
        if time.monotonic() > deadline:
            raise PulsarFailed(f"topics of {namespace} are served by nobody for {timeout_s:g} s")
        check_interrupt()
        time.sleep(LOOK_AGAIN_S)


def unload(cluster: PulsarCluster, bundle: str, owner: str, target: str | None) -> int:
    """Pulsar's unload of a bundle, to the broker of that name or where Pulsar likes; returns the status."""
    destination = "" if target is None else f"?destinationBroker={cluster.spec.broker_id(target)}"
    path = f"/admin/v2/namespaces/{bundle}/unload{destination}"
    return cluster.admin.request("PUT", owner, path, timeout_s=UNLOAD_TIMEOUT_S).status_code


def put_in_place(
    cluster: PulsarCluster, namespace: str, topics: Sequence[str], wanted: Mapping[str, str], timeout_s: float
) -> None:
    """Unload bundles until each is on its broker. `wanted`: bundle -> broker. Raises PulsarFailed."""
    deadline, answers = time.monotonic() + timeout_s, dict[str, int]()
    while True:
        found = wait_for_owners(cluster, namespace, topics, timeout_s)
        places = {place.bundle: str(place.broker) for place in found.values()}
        wrong = [bundle for bundle, broker in wanted.items() if places.get(bundle, broker) != broker]
        if not wrong:
            return
        if time.monotonic() > deadline:
            raise PulsarFailed(f"bundles do not get where the run begins; the last answers are {answers}")
        answers = {bundle: unload(cluster, bundle, places[bundle], wanted[bundle]) for bundle in wrong}
