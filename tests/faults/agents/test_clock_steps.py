"""The wall clock of Kafka's host jumps by 30 s, forwards and back: append times jump, nothing else happens."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from controller.bus.consumer import KafkaRecord, TopicReader
from controller.bus.topics import TopicNames
from controller.domain.entries import Entry
from controller.testbed.clock_shim import ClockShim
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.clients import Clients
from tests.e2e.waiting import wait_until
from tests.faults.agents.outcomes import audited
from tests.faults.agents.victim import PATIENCE_S, Victim

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

NEAR_S = 10  # a record is read within this time of its append, however busy the machine


def test_no_lease_ends_and_nothing_moves(
    cluster: LocalCluster,
    victim: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
    ends: Callable[[], list[Entry]],
    clock: ClockShim,
) -> None:
    if not clock.usable:
        pytest.skip("no C compiler: the clock of Kafka's process cannot be shifted")
    topics, sessions = on_victim(), dict.fromkeys(cluster.state.sessions)
    before = cluster.state.seq
    try:
        for step_s in (30, -30):
            clock.shift(step_s)
            _wait_for_append_times(cluster, step_s)
            time.sleep(1.5 * cluster.settings.control.lease_ms / 1000)
            clients.wait_for_progress(topics)
            assert cluster.command("mode", mode="shadow").accepted, "the controller goes on"
    finally:
        clock.shift(0)
    _wait_for_append_times(cluster, 0)
    clients.wait_for_progress(topics)
    assert ends() == []
    assert dict.fromkeys(cluster.state.sessions) == sessions
    assert [e for e in cluster.entries if e.seq > before and e.state is not None] == []
    report = audited(clients, "clock steps")
    assert report.failover_gap_max_ms is None


def _wait_for_append_times(cluster: LocalCluster, step_s: int) -> None:
    """Until new heartbeats carry times that are off by so much: Kafka's process believes the shifted clock."""
    offs: list[float] = []

    def note(records: list[KafkaRecord]) -> None:
        offs.extend(r.timestamp_ms / 1000 - time.time() for r in records)

    names = TopicNames(cluster.settings.kafka.topic_prefix)
    reader = TopicReader(cluster.kafka.bootstrap, [names.heartbeats], note)
    reader.start()
    try:
        wait_until(lambda: bool(offs) and abs(offs[-1] - step_s) < NEAR_S, PATIENCE_S)
    finally:
        reader.stop()
