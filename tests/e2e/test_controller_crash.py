"""The controller is killed while bundles move: brokers serve on without it, the next one goes on where it was."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.domain.entries import Kind
from controller.process.clock import boot_ms
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import check_journal, check_projections, in_flight, owner, record_of, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.lookups import look_up, topics_in

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(900)]

NAMESPACE = "e2e/crash"
BUNDLES = 24
PATIENCE_S = 180.0  # only a hang takes so long


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Three brokers and the control query alone: what is tested needs no loads query."""
    with LocalCluster(tmp_path / "cluster", overrides=["rounds.mode=shadow", "control.trigger_ms=400"]) as started:
        started.up(["broker-1", "broker-2", "broker-3"], job_only="control")
        yield started


def test_a_killed_controller_goes_on_and_decides_nothing_twice(cluster: LocalCluster) -> None:
    assert cluster.command("create_namespace", namespace=NAMESPACE, bundles=BUNDLES).accepted
    topics = topics_in(cluster.state, NAMESPACE, 1)
    look_up(cluster, topics)
    cluster.wait_until(lambda state: settled(state, NAMESPACE), PATIENCE_S, "ownership", needs="job")
    with Clients(cluster, "crash") as clients:
        clients.read("audit", "exclusive", topics)
        clients.send(dict.fromkeys(topics, 5.0))
        clients.wait_for_progress(topics, more=2)
        target = kill_while_bundles_move(cluster, NAMESPACE)
        _brokers_serve_on(cluster, clients, topics)
        repeated = _start_again(cluster, topics, target)
        clients.wait_for_progress(topics, more=2)
        report = clients.finish()

    entries = check_journal(cluster)
    check_projections(cluster)
    assert_nothing_lost(report)
    assert [e.command_id for e in entries if e.kind is Kind.COMMAND_ACCEPTED].count(repeated) == 1
    assert sum(e.kind is Kind.CONTROLLER_STARTED for e in entries) == 2
    assert sum(e.kind is Kind.REGISTERED for e in entries) == 3, "no broker had to register anew"
    assert not any(e.kind is Kind.SESSION_ENDED for e in entries), "an outage of the controller ends no session"


def kill_while_bundles_move(cluster: LocalCluster, namespace: str) -> str:
    """SIGKILL to the job's whole process group while the journal says that hand-overs are under way; returns where to.

    Whether they are still under way is looked up while the controller stands still; where all were over already, it
    goes on and the bundles are sent back.
    """
    assert cluster.operator is not None
    group = cluster.children["job"].pid
    for target in ("broker-1", "broker-2") * 4:
        command = cluster.operator.send("unload_namespace", {"namespace": namespace, "to": target})
        cluster.wait_until(
            lambda state, sent=command: sent in state.commands,  # type: ignore[misc]
            PATIENCE_S,
            "the command's answer",
            needs="job",
        )
        os.killpg(group, signal.SIGSTOP)
        if in_flight(cluster.state):
            cluster.children["job"].kill()
            return target
        os.killpg(group, signal.SIGCONT)
        cluster.wait_until(lambda state: settled(state, namespace), PATIENCE_S, "the moves' end", needs="job")
    raise AssertionError("eight times all bundles had moved before anybody could look")


def _brokers_serve_on(cluster: LocalCluster, clients: Clients, topics: list[str]) -> None:
    """Longer than a lease, every topic's producer gets acknowledgements and the journal says nothing new."""
    lease_ms = cluster.settings.control.lease_ms + cluster.settings.control.margin_ms
    killed_ms, seq = boot_ms(), cluster.state.seq
    while boot_ms() < killed_ms + 1.5 * lease_ms:
        clients.wait_for_progress(topics, more=1)
        time.sleep(0.5)
    assert cluster.state.seq == seq
    assert all(cluster.children[f"broker-{number}"].alive for number in (1, 2, 3))


def _start_again(cluster: LocalCluster, topics: list[str], target: str) -> str:
    """Commands that came meanwhile are carried out; returns the id of one that was sent twice."""
    assert cluster.operator is not None
    dead = cluster.state.instance
    moved = str(record_of(cluster.state, topics[0]).bundle)
    repeated = [cluster.operator.send("drain", {"broker": "broker-3"}, command_id="drain-it-once") for _ in (1, 2)]
    cluster.start_job(only="control")
    cluster.wait_until(lambda state: state.instance != dead, PATIENCE_S, "a new controller", needs="job")
    cluster.wait_until(
        lambda s: settled(s, NAMESPACE) and {owner(s, topic) for topic in topics} == {target},
        PATIENCE_S,
        "the transfers that the dead one began",
        needs="job",
    )
    assert cluster.state.brokers["broker-3"].drained
    other = "broker-2" if target == "broker-1" else "broker-1"
    assert cluster.command("unload_bundle", bundle=moved, to=other).accepted
    cluster.wait_until(lambda s: owner(s, topics[0]) == other, PATIENCE_S, "a new move", needs="job")
    return repeated[0]
