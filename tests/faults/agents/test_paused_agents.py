"""An agent's process that stands still: longer than its lease, and shorter."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from controller.domain.entries import Entry
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner
from tests.e2e.clients import Clients
from tests.e2e.waiting import wait_until
from tests.faults.agents.outcomes import assert_only_end, audited, wait_for_others
from tests.faults.agents.victim import NAME, PATIENCE_S, Victim

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

SHORT_PAUSE_S = 2.5  # it begins with most of the 6 s of the lease to come


def test_pause_beyond_the_lease_others_serve_and_the_woken_agent_comes_back_empty(
    cluster: LocalCluster,
    victim: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
    ends: Callable[[], list[Entry]],
) -> None:
    topics, session = on_victim(), victim.registered()
    victim.signal(signal.SIGSTOP)
    try:
        wait_for_others(cluster, topics)
        clients.wait_for_progress(topics)
    finally:
        victim.signal(signal.SIGCONT)
    following = victim.registered(after=session)
    wait_until(lambda: victim.served() == 0, PATIENCE_S)
    assert following == session._replace(number=session.number + 1), "the same process, its next session"
    assert_only_end(ends(), session, "lease")
    assert NAME not in {owner(cluster.state, t) for t in topics}, "nothing goes back by itself"
    clients.wait_for_progress(topics)
    audited(clients, "paused beyond the lease")


def test_pause_shorter_than_the_lease_changes_nothing(
    cluster: LocalCluster,
    victim: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
    ends: Callable[[], list[Entry]],
) -> None:
    topics, session = on_victim(), victim.registered()
    before = cluster.state.seq
    lease_ms = cluster.settings.control.lease_ms
    wait_until(lambda: victim.lease_remaining_ms() > 0.9 * lease_ms, PATIENCE_S, 0.02)
    victim.signal(signal.SIGSTOP)
    time.sleep(SHORT_PAUSE_S)
    victim.signal(signal.SIGCONT)
    clients.wait_for_progress(topics)
    time.sleep(cluster.settings.control.lease_ms / 1000)
    assert ends() == []
    assert victim.registered() == session
    moved = [e for e in cluster.entries if e.seq > before and e.state is not None]
    assert moved == [], "no bundle changed its state"
    report = audited(clients, "paused for 2.5 s")
    assert report.handovers == 0
    assert report.failover_gap_max_ms is None
