"""A rolling upgrade: agents of 0.1.0 under this version's controller, and this version's agents under that of 0.1.0.

Clients write and read all the time; bundles move between the versions, an agent is replaced by the other version, one
is killed. Nothing is lost, and the journal holds for both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.domain.state import ClusterState
from tests.cluster.older_version import MixedCluster, unpack_older_code
from tests.e2e.checks import PATIENCE_S, check_journal, owner, record_of, settled
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.e2e.lookups import look_up, topics_in

pytestmark = pytest.mark.timeout(900)

NAMESPACE, BUNDLES = "rolling/n", 4


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_older_code(tmp_path_factory.mktemp("older"))


@pytest.fixture
def cluster(older: Path, tmp_path: Path, short_lived_jvms: None) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path / "cluster", older) as cluster:
        yield cluster


def test_agents_are_upgraded_one_by_one_under_the_new_controller(cluster: MixedCluster) -> None:
    cluster.begin(of_older_version=True)
    cluster.start_job()
    for broker in ("old-1", "old-2"):
        cluster.start_older_agent(broker)
    cluster.start_agent("new-1")
    with _clients(cluster, "old-1", "old-2", "new-1") as clients:
        topics = list(clients.topics)
        _move_all(cluster, topics, "old-1", clients)
        _move_all(cluster, topics, "new-1", clients)
        _move_all(cluster, topics, "old-2", clients)
        cluster.children["old-2"].kill()  # its bundles are fenced and served by others
        cluster.wait_until(lambda state: _serve(state, topics, "old-1", "new-1"), PATIENCE_S, "failover", needs="job")
        clients.wait_for_progress(topics)
        cluster.children["old-1"].stop(60)  # leaves in good order
        cluster.start_agent("old-1", name="old-1-upgraded")
        cluster.wait_until(lambda state: state.session_of("old-1") is not None, PATIENCE_S, "the upgraded agent")
        _move_all(cluster, topics, "old-1", clients)
        report = clients.finish()
    assert_nothing_lost(report)
    check_journal(cluster)


def test_the_controller_is_upgraded_last_while_agents_of_both_versions_run(cluster: MixedCluster) -> None:
    cluster.begin(of_older_version=True)
    cluster.start_older_job()
    cluster.start_older_agent("old-1")
    for broker in ("new-1", "new-2"):
        cluster.start_agent(broker)
    with _clients(cluster, "old-1", "new-1", "new-2") as clients:
        topics = list(clients.topics)
        _move_all(cluster, topics, "new-1", clients)
        _move_all(cluster, topics, "old-1", clients)
        cluster.children["old-1"].kill()
        cluster.wait_until(lambda state: _serve(state, topics, "new-1", "new-2"), PATIENCE_S, "failover", needs="job")
        clients.wait_for_progress(topics)
        assert cluster.state.journal_id is None
        cluster.children["job"].stop(60)
        cluster.start_job(name="upgraded-job")
        cluster.wait_until(
            lambda state: state.journal_id is not None, PATIENCE_S, "the new controller", needs="upgraded-job"
        )
        _move_all(cluster, topics, "new-2", clients)
        report = clients.finish()
    assert_nothing_lost(report)
    check_journal(cluster)


class _Audience(Clients):
    """Clients on all topics of the namespace."""

    topics: tuple[str, ...] = ()


def _clients(cluster: MixedCluster, *brokers: str) -> _Audience:
    """Once all brokers have registered: a served namespace, a producer and a reader."""
    cluster.wait_until(
        lambda state: {one.id for one in state.live_brokers()} == set(brokers), PATIENCE_S, "all brokers", needs="job"
    )
    assert cluster.command("create_namespace", namespace=NAMESPACE, bundles=BUNDLES).accepted
    found = _Audience(cluster, "rolling")
    found.topics = tuple(topics_in(cluster.state, NAMESPACE, 1))
    look_up(cluster, list(found.topics))
    cluster.wait_until(lambda state: settled(state, NAMESPACE), PATIENCE_S, "ownership", needs="job")
    found.read("reader", "exclusive", found.topics)
    found.send(dict.fromkeys(found.topics, 8.0))
    found.wait_for_progress(found.topics)
    return found


def _move_all(cluster: MixedCluster, topics: list[str], target: str, clients: Clients) -> None:
    """Every bundle to this broker, under traffic."""
    for topic in topics:
        record = record_of(cluster.state, topic)
        if owner(cluster.state, topic) != target:
            assert cluster.command("unload_bundle", bundle=str(record.bundle), to=target).accepted
    cluster.wait_until(lambda state: _serve(state, topics, target), PATIENCE_S, f"all bundles at {target}")
    clients.wait_for_progress(topics)


def _serve(state: ClusterState, topics: list[str], *brokers: str) -> bool:
    """Whether living sessions of these brokers own all topics."""
    if not settled(state, NAMESPACE):
        return False
    return {owner(state, topic) for topic in topics} <= set(brokers)
