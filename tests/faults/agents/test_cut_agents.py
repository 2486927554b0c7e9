"""An agent cut from Kafka, from the tables, from both; and healed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from controller.domain.entries import Entry
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.checks import owner, record_of
from tests.e2e.clients import Clients
from tests.e2e.waiting import wait_until
from tests.faults.agents.outcomes import assert_only_end, audited, wait_for_others
from tests.faults.agents.victim import NAME, PATIENCE_S, Victim

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.mark.parametrize("tables_too", [False, True], ids=["kafka", "kafka_and_tables"])
def test_cut_from_kafka_it_stops_by_itself_before_others_begin(
    cluster: LocalCluster,
    victim: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
    ends: Callable[[], list[Entry]],
    tables_too: bool,
) -> None:
    topics, session = on_victim(), victim.registered()
    victim.proxy.cut()
    if tables_too:
        victim.tables.cut()
    wait_until(lambda: victim.served() == 0, PATIENCE_S)
    assert cluster.state.session_of(NAME) in (session, None)
    assert victim.get("/lookup", topic=topics[0]).json()["error"] == "cut_off", "clients are sent to other agents"
    wait_for_others(cluster, topics)
    clients.wait_for_progress(topics)
    assert victim.served() == 0
    assert not victim.get("/healthz").json()["ok"]
    victim.tables.heal()
    victim.proxy.heal()
    following = victim.registered(after=session)
    assert following.process == session.process, "the same process"
    assert following.number > session.number
    assert_only_end([e for e in ends() if e.session == str(session)], session, "lease")
    assert {e.broker for e in ends()} == {NAME}
    bundle = str(record_of(cluster.state, topics[0]).bundle)
    wait_until(lambda: victim.get("/healthz").json()["ok"], PATIENCE_S)
    assert cluster.command("unload_bundle", bundle=bundle, to=NAME).accepted
    cluster.wait_until(lambda s: owner(s, topics[0]) == NAME, PATIENCE_S, "a bundle to come back", needs="job")
    clients.wait_for_progress(topics)
    audited(clients, f"cut from Kafka{' and tables' if tables_too else ''}")


def test_cut_from_the_tables_it_serves_on_and_follows_the_feed(
    cluster: LocalCluster,
    victim: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
    ends: Callable[[], list[Entry]],
) -> None:
    topics, session = on_victim(), victim.registered()
    victim.tables.cut()
    time.sleep(1.5 * cluster.settings.control.lease_ms / 1000)
    bundle = str(record_of(cluster.state, topics[0]).bundle)
    for target in ("broker-1", NAME):
        assert cluster.command("unload_bundle", bundle=bundle, to=target).accepted
        state = cluster.wait_until(lambda s: owner(s, topics[0]) == target, PATIENCE_S, "the move", needs="job")  # noqa: B023
    answer = victim.get("/lookup", topic=topics[0], at_least=state.seq)
    assert (answer.status_code, answer.json()["broker"]) == (200, NAME)
    clients.wait_for_progress(topics)
    victim.tables.heal()
    assert ends() == []
    assert victim.registered() == session
    audited(clients, "cut from the tables")
