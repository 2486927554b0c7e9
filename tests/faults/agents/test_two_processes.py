"""A broker started a second time while its first process lives: refused, unless it is told to take over. Then the
older one goes, and the newer one waits for its end."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from controller.agent.lifecycle import LOST
from controller.domain.entries import Entry, Kind
from controller.testbed.local_cluster import LocalCluster
from tests.e2e.clients import Clients
from tests.faults.agents.outcomes import assert_only_end, audited
from tests.faults.agents.victim import NAME, Victim

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def test_older_process_exits_and_its_bundles_are_given_away_only_after_its_lease(
    cluster: LocalCluster,
    victim: Victim,
    clients: Clients,
    on_victim: Callable[[], list[str]],
    ends: Callable[[], list[Entry]],
) -> None:
    topics, session = on_victim(), victim.registered()
    older, before = victim.child, cluster.state.seq
    assert older is not None
    refused = victim.start(process="victim-refused")
    assert refused.wait(60) == LOST, refused.last_words()
    assert f"pid {older.pid} on {socket.gethostname()} since 20" in refused.last_words()
    assert f"session {session}; stop it first, or start with --take-over" in refused.last_words()
    assert victim.registered() == session, "the first one has noticed nothing"
    newer = victim.start(process="victim-again", more=["--take-over"])
    following = victim.registered(after=session)
    assert (following.incarnation, following.number) == (session.incarnation + 1, 1)
    assert older.wait(60) == LOST, older.last_words()
    assert "replaced by the newer process" in older.last_words(40)
    cluster.wait_until(lambda s: session not in s.sessions, 60, "the end of the older session", needs="job")
    clients.wait_for_progress(topics)
    (ended,) = ends()
    assert_only_end([ended], session, "lease")
    granted = [e for e in cluster.entries if e.seq > before and e.kind is Kind.OWNERSHIP and e.state == "assigning"]
    assert granted, "what the older one owned was given to others"
    assert min(e.seq for e in granted) > ended.seq, "and not before its lease was over"
    assert newer.alive
    assert victim.registered() == following
    assert following.broker == NAME
    audited(clients, "second process of the same broker")
