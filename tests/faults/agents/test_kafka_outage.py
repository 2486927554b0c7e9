"""Kafka gone for 25 s, four leases long: every broker stops by itself, none is taken for dead, all come back."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest

from controller.domain.entries import Entry
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner
from tests.e2e.clients import Clients
from tests.e2e.waiting import wait_until
from tests.faults.agents.outcomes import audited
from tests.faults.agents.victim import PATIENCE_S, Victim, served_by

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

OUTAGE_S = 25.0


@pytest.mark.parametrize("how", ["paused", "restarted"])
def test_all_stop_by_their_leases_and_serve_again_once_it_is_back(
    cluster: LocalCluster,
    victim: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
    ends: Callable[[], list[Entry]],
    how: str,
) -> None:
    topics, urls = on_victim(), cluster.lookup_urls()
    sessions = {s.broker: s for s in cluster.state.sessions}
    before, began = cluster.state.seq, time.monotonic()
    _stop(cluster, how)
    try:
        wait_until(lambda: all(served_by(url) == 0 for url in urls), PATIENCE_S)
        stopped = time.monotonic() - began
        acked = _settled(clients)
        time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - began)))
        assert all(served_by(url) == 0 for url in urls), "nobody serves without a lease"
        assert clients.acked() == acked, "nothing was acknowledged meanwhile"
        assert cluster.state.seq == before, "the controller decides nothing without Kafka"
    finally:
        _back(cluster, how)
    back = time.monotonic()
    cluster.wait_until(
        lambda s: all(s.session_of(b) not in (None, old) for b, old in sessions.items()),
        PATIENCE_S, "the next sessions of all", needs="job",
    )  # fmt: skip
    registered = time.monotonic() - back
    cluster.wait_until(lambda s: all(owner(s, t) for t in topics), PATIENCE_S, "owners of all", needs="job")
    owned = time.monotonic() - back
    clients.wait_for_progress(topics)
    assert {b: cluster.state.brokers[b].session.process for b in sessions} == {
        b: s.process for b, s in sessions.items()
    }
    assert all(child.alive for name, child in cluster.children.items() if name in sessions)
    reasons = sorted({str(e.reason) for e in ends()})
    print(
        f"Kafka {how}: all stopped after {stopped:.1f} s, registered {registered:.1f} s and owned {owned:.1f} s "
        f"after it was back, sessions ended by {reasons}"
    )
    assert "lease" not in reasons, "no living broker was taken for dead"
    audited(clients, f"Kafka {how} for 25 s")


def _settled(clients: Clients) -> Counter[str]:
    """What was acknowledged, once clients, who write it down every 0.2 s, have nothing more to write."""
    acked = clients.acked()
    while True:
        time.sleep(2.0)
        before, acked = acked, clients.acked()
        if acked == before:
            return acked


def _stop(cluster: LocalCluster, how: str) -> None:
    if how == "paused":
        assert cluster.kafka.pid is not None
        os.kill(cluster.kafka.pid, signal.SIGSTOP)
    else:
        cluster.kafka.stop()


def _back(cluster: LocalCluster, how: str) -> None:
    if how == "paused":
        assert cluster.kafka.pid is not None
        os.kill(cluster.kafka.pid, signal.SIGCONT)
    else:
        cluster.kafka.start()
