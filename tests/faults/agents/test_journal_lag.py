"""An agent that knows of journal entries it cannot read: it ends its session, and begins none before it can."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from controller.domain.entries import Entry
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.clients import Clients
from tests.e2e.waiting import wait_until
from tests.faults.agents.outcomes import assert_only_end, audited, wait_for_others
from tests.faults.agents.victim import NAME, PATIENCE_S, Victim

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.fixture
def deaf(victim: Victim) -> Iterator[Victim]:
    """The feed tells it that there are entries, not what they say: all it knows, it reads from the table."""
    victim.restart(failpoints="agent.feed_entries=error")
    yield victim
    victim.tables.heal()
    victim.restart()


def test_lagging_agent_ends_its_session_after_a_lease_and_comes_back_when_it_has_caught_up(
    cluster: LocalCluster,
    deaf: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
) -> None:
    topics, session = on_victim(), deaf.registered()
    known = cluster.state.seq
    answer = deaf.get("/lookup", topic=topics[0], at_least=known)
    assert (answer.status_code, answer.json()["broker"]) == (200, NAME), "slower, from the table"
    deaf.tables.cut()
    assert cluster.command("mode", mode="shadow").accepted  # something that it will hear of and cannot read
    ended = _wait_for_its_end(cluster, known)
    assert_only_end([ended], session, "goodbye")
    wait_for_others(cluster, topics)
    clients.wait_for_progress(topics)
    assert deaf.served() == 0
    refused = deaf.get("/lookup", topic=topics[0], at_least=cluster.state.seq)
    assert (refused.status_code, refused.json()["error"]) == (503, "cut_off")
    assert refused.json()["seq"] < cluster.state.seq
    time.sleep(3 * cluster.settings.control.heartbeat_ms / 1000)
    assert cluster.state.session_of(NAME) is None, "it is no target of anything as long as it cannot follow"
    deaf.tables.heal()
    assert deaf.registered(after=session) == session._replace(number=session.number + 1)
    wait_until(lambda: deaf.get("/healthz").json()["ok"], PATIENCE_S)
    audited(clients, "journal lag")


def _wait_for_its_end(cluster: LocalCluster, since: int) -> Entry:
    cluster.wait_until(lambda s: s.session_of(NAME) is None, PATIENCE_S, "the end of its session", needs="job")
    (ended,) = [e for e in cluster.entries if e.seq > since and e.kind.value == "session_ended"]
    return ended
