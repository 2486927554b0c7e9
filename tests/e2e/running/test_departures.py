"""Brokers that go: killed, and leaving in good order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from controller.domain.entries import Kind
from controller.domain.state import SHADOW, ClusterState
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import check_projections, owner, record_of
from tests.e2e.clients import Clients, assert_nothing_lost

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

PATIENCE_S = 180.0  # only a hang takes so long


@pytest.fixture
def leaver(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fourth broker that the test may end as it likes."""
    name = f"leaver-{request.node.name.removeprefix('test_')[:16]}"
    child = cluster.start_agent(name)
    cluster.wait_until(lambda state: state.session_of(name) is not None, PATIENCE_S, f"registration of {name}")
    yield name
    if child.alive:
        child.kill()


@pytest.mark.covers("broker-dies", "clients-find-new-owner", "keeps-messages")
def test_a_killed_brokers_bundles_are_served_again_and_nothing_is_lost(
    cluster: LocalCluster, clients: Clients, served: Callable[[int, int], list[str]], leaver: str
) -> None:
    topics = _with_all_on(cluster, served(4, 1), leaver)
    clients.read("audit", "exclusive", topics)
    clients.send(dict.fromkeys(topics, 15.0))
    clients.wait_for_progress(topics)
    session = record_of(cluster.state, topics[0]).by

    cluster.children[leaver].kill()
    cluster.wait_until(lambda state: _served_by_others(state, topics, leaver), PATIENCE_S, "failover", needs="job")
    clients.wait_for_progress(topics)

    assert cluster.state.mode == SHADOW, "orphans are assigned in every mode"
    (ended,) = [e for e in cluster.entries if e.kind is Kind.SESSION_ENDED and e.broker == leaver]
    assert (ended.session, ended.reason) == (str(session), "lease")
    assert_nothing_lost(clients.finish())
    check_projections(cluster)


@pytest.mark.covers("broker-leaves", "namespace-unload")
def test_a_leaving_broker_hands_everything_over_before_it_goes(
    cluster: LocalCluster, clients: Clients, served: Callable[[int, int], list[str]], leaver: str
) -> None:
    topics = _with_all_on(cluster, served(4, 1), leaver)
    clients.read("audit", "exclusive", topics)
    clients.send(dict.fromkeys(topics, 15.0))
    clients.wait_for_progress(topics)
    leaving_seq = cluster.state.seq

    assert cluster.children[leaver].stop(60) == 0, cluster.children[leaver].last_words()
    cluster.wait_until(lambda state: state.session_of(leaver) is None, PATIENCE_S, "the end of its session")
    clients.wait_for_progress(topics)

    assert _served_by_others(cluster.state, topics, leaver)
    (ended,) = [e for e in cluster.entries if e.kind is Kind.SESSION_ENDED and e.broker == leaver]
    assert ended.reason == "goodbye"
    history = [e for e in cluster.entries if leaving_seq < e.seq and e.kind is Kind.OWNERSHIP]
    begun = [e for e in history if e.state == "transferring" and (e.by or "").startswith(f"{leaver}#")]
    assert {e.bundle for e in begun} >= {str(record_of(cluster.state, topic).bundle) for topic in topics}
    taken = {e.bundle: e.seq for e in history if e.state == "owned" and not (e.by or "").startswith(f"{leaver}#")}
    assert max(taken.values()) < ended.seq, "each bundle had its new owner before the session ended"
    assert "free" not in {e.state for e in history}
    report = clients.finish()
    assert_nothing_lost(report)
    assert report.handovers >= len(topics)
    assert report.failover_gap_max_ms is None, "no client lost its broker without being told the next one"


def _with_all_on(cluster: LocalCluster, topics: list[str], broker: str) -> list[str]:
    namespace = record_of(cluster.state, topics[0]).bundle.namespace
    outcome = cluster.command("unload_namespace", namespace=namespace, to=broker)
    assert outcome.accepted or "already" in outcome.reason
    cluster.wait_until(lambda state: all(owner(state, t) == broker for t in topics), PATIENCE_S, "the moves")
    return topics


def _served_by_others(state: ClusterState, topics: list[str], gone: str) -> bool:
    owners = {owner(state, topic) for topic in topics}
    return None not in owners and gone not in owners
