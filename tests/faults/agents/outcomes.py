"""What the tests of this folder ask again and again."""

from __future__ import annotations

from collections.abc import Iterable

from controller.domain.entries import Entry
from controller.domain.ids import Session
from controller.domain.state import ClusterState
from controller.testbed.checker.checker import CheckReport
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner
from tests.e2e.clients import Clients, assert_nothing_lost
from tests.faults.agents.victim import NAME, PATIENCE_S


def served_by_others(state: ClusterState, topics: Iterable[str]) -> bool:
    """Whether every topic has an owner, and none of them is the victim."""
    owners = {owner(state, topic) for topic in topics}
    return None not in owners and NAME not in owners


def wait_for_others(cluster: LocalCluster, topics: list[str]) -> None:
    """Until the topics are served without the victim."""
    cluster.wait_until(lambda s: served_by_others(s, topics), PATIENCE_S, "the failover", needs="job")


def assert_only_end(ends: list[Entry], session: Session, reason: str) -> None:
    """One session ended, this one, for this reason: no broker was taken for dead that was not."""
    assert [(e.session, e.reason) for e in ends] == [(str(session), reason)]


def audited(clients: Clients, case: str) -> CheckReport:
    """End the clients; 0 lost, 0 stored twice, 0 reordered. Prints what clients saw."""
    report = clients.finish()
    assert_nothing_lost(report)
    print(
        f"{case}: {report.messages_written} messages, longest gap of a producer that lost its owner "
        f"{report.failover_gap_max_ms} ms, told hand-overs p99 {report.handover_gap_p99_ms} ms, "
        f"redelivered {report.redelivered}"
    )
    return report
